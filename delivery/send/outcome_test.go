package send_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"carillon/delivery/send"
)

// No text holds what a stranger chose: a certificate's names, what he answered.
func TestErrorText(t *testing.T) {
	verification := func(err error) error {
		return fmt.Errorf("TLS handshake: %w", &tls.CertificateVerificationError{Err: err})
	}
	for want, err := range map[string]error{
		"": nil,
		"the certificate is for another name": verification(
			x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"evil"}}, Host: "good"},
		),
		"the certificate is not valid": verification(
			x509.CertificateInvalidError{Reason: x509.TooManyIntermediates, Detail: "evil"},
		),
		"the certificate has expired, or is not valid yet":  verification(x509.CertificateInvalidError{Reason: x509.Expired, Detail: "evil"}),
		"the certificate is signed by an unknown authority": verification(x509.UnknownAuthorityError{}),
		"dial tcp: refused":           &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")},
		strings.Repeat("é", 60) + "…": errors.New(strings.Repeat("é", 100)),
	} {
		equal(t, "text", send.ErrorText(err), want)
	}
}

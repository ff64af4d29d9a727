package egress

import (
	"crypto/tls"
	"fmt"
)

// Bounds on the certificates that a server presents. A parsed certificate takes some 3 KiB beside
// its bytes while its connection or session is kept, and crypto/tls accepts 256 KiB of them.
// Real chains have two to five certificates.
const (
	maxCertificates     = 16
	maxCertificateBytes = 64 << 10
)

// boundCertificates returns a tls.Config.VerifyConnection that rejects too many certificates, and
// then calls the given one, if any. crypto/tls has verified the chain before.
func boundCertificates(then func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		size := 0
		for _, cert := range state.PeerCertificates {
			size += len(cert.Raw)
		}
		if n := len(state.PeerCertificates); n > maxCertificates || size > maxCertificateBytes {
			return &tls.CertificateVerificationError{
				UnverifiedCertificates: state.PeerCertificates,
				Err: fmt.Errorf("the server presents %d certificates of %d bytes (allowed: %d of %d bytes)",
					n, size, maxCertificates, maxCertificateBytes),
			}
		}
		if then == nil {
			return nil
		}
		return then(state)
	}
}

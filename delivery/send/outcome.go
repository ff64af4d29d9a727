package send

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"carillon/delivery"
	"carillon/internal/egress"
)

// Outcome is what an attempt came to.
type Outcome struct {
	// Class is never ClassNone, unless the context was cancelled: then it is
	// not known the outcome of it and nothing is held against the callback.
	Class delivery.Class
	// Status is the status code of the answer, 0 without one.
	Status int
	// RetryAfter is how long the callback asked to be left alone, 0 if it did not.
	RetryAfter time.Duration
	// Err is why there was no answer.
	Err error
}

// classOfStatus separates success from failure: 2xx and nothing else (WebSub §7).
func classOfStatus(code int) delivery.Class {
	switch {
	case code == http.StatusGone:
		return delivery.ClassGone
	case 200 <= code && code <= 299:
		return delivery.ClassDelivered
	case 300 <= code && code <= 399:
		return delivery.ClassRedirect
	case 400 <= code && code <= 499:
		return delivery.ClassClientError
	case 500 <= code && code <= 599:
		return delivery.ClassServerError
	}
	return delivery.ClassProtocol
}

// classOfError reports why there was no answer.
func classOfError(err error) delivery.Class {
	var (
		dnsErr  *net.DNSError
		opErr   *net.OpError
		certErr *tls.CertificateVerificationError
		hostErr x509.HostnameError
		recErr  tls.RecordHeaderError
		netErr  net.Error
	)
	switch {
	case errors.Is(err, egress.ErrForbidden):
		return delivery.ClassForbidden
	case errors.Is(err, context.DeadlineExceeded):
		return delivery.ClassTimeout
	case errors.As(err, &dnsErr):
		return delivery.ClassDNS
	case errors.As(err, &certErr), errors.As(err, &hostErr), errors.As(err, &recErr),
		// An alert of the other side, or one of ours to it.
		errors.As(err, &opErr) && (opErr.Op == "remote error" || opErr.Op == "local error"),
		isOfTLS(err):
		return delivery.ClassTLS
	case errors.As(err, &netErr) && netErr.Timeout():
		return delivery.ClassTimeout
	case opErr != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return delivery.ClassRefused
	}
	return delivery.ClassProtocol
}

// isOfTLS reports whether crypto/tls made the error. Most of its errors have no type of
// their own, but all of their texts begin alike.
func isOfTLS(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), "tls: ") {
			return true
		}
	}
	return false
}

// maxErrorText bounds what ErrorText returns, bytes.
const maxErrorText = 120

// ErrorText gives the reason why there was no answer, in a few words and without any that a stranger
// chose: certificates hold names.
func ErrorText(err error) string {
	var (
		hostErr    x509.HostnameError
		unknownErr x509.UnknownAuthorityError
		invalidErr x509.CertificateInvalidError
		certErr    *tls.CertificateVerificationError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &hostErr):
		return "the certificate is for another name"
	case errors.As(err, &unknownErr):
		return "the certificate is signed by an unknown authority"
	case errors.As(err, &invalidErr) && invalidErr.Reason == x509.Expired:
		return "the certificate has expired, or is not valid yet"
	case errors.As(err, &invalidErr), errors.As(err, &certErr):
		return "the certificate is not valid"
	}
	text := egress.Unquoted(err).Error()
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}

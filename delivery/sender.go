package delivery

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"carillon/internal/egress"
	"carillon/internal/h1"
	"carillon/internal/retryafter"
	"carillon/subscription"
)

// Attempt is one try to deliver a notification to a callback.
type Attempt struct {
	Subscription subscription.ID
	// Callback stands byte for byte as in the subscription request (WebSub §8.3).
	Callback string
	// Secret signs the delivery; empty: no signature.
	Secret subscription.Secret
	// Notification is shared with other attempts and not to be changed.
	Notification *Notification
	// Number is 1 for the first attempt, one more after each failure in a row.
	Number uint32
	// Traceparent is the field of that name for the callback (W3C Trace Context); empty: none.
	// It is for Senders that wrap another.
	Traceparent string

	// Where host is set, Callback is empty: its name and rest make it up.
	host *host
	rest string
	// wire belongs to the notification; nil: nobody shares it.
	wire *wire
	// shared: other subscriptions to the topic may have the same secret, so that a
	// signature is worth keeping.
	shared bool
}

// Outcome is what an attempt came to.
type Outcome struct {
	// Class is never ClassNone, unless the context was cancelled: then it is
	// not known what came of it and nothing is held against the callback.
	Class Class
	// Status is the status code of the answer, 0 where there was none.
	Status int
	// RetryAfter is how long the callback asked to be left alone, 0 if it did not.
	RetryAfter time.Duration
	// Err is why there was no answer.
	Err error
}

// Sender makes delivery attempts. Send is called from many goroutines, has the
// Attempt until it returns and no longer (it is used again for another), and
// returns within a bound of its own, or soon after ctx ends.
type Sender interface {
	Send(ctx context.Context, a *Attempt) Outcome
}

// SenderConfig is how an HTTPSender presents itself.
type SenderConfig struct {
	// Hub is the hub's URI, which every delivery names (rel=hub). Required.
	Hub string
	// Version goes into User-Agent. Default "dev".
	Version string
	// Signature is the method of X-Hub-Signature: sha1, sha256, sha384 or
	// sha512 (WebSub §7.1). Default sha256, the least that WebSub §8.3 advises.
	Signature string
	// SignatureFor is the method for the callbacks of a host, in place of Signature: by its
	// name or address in small letters and without a port (egress.Host).
	SignatureFor map[string]string
	// DeliveryTimeout is the one deadline of an attempt, from dialing to the
	// last byte of the answer. Default 30 s.
	DeliveryTimeout time.Duration
	// Inside gets what callbacks of InsideOrigin are to get, in place of a request: the
	// hub's own test callback. It returns soon, with the status code of the answer. Nil:
	// such callbacks are dialed as others are, which fails.
	Inside func(ctx context.Context, d Inside) (status int)
}

// Outlet is the way out: an *egress.Dialer, which guards what is dialed.
type Outlet interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	// TLSConfig is what https connections start from.
	TLSConfig() *tls.Config
	// Config holds the bounds on connections and headers.
	Config() egress.Config
}

var _ Outlet = (*egress.Dialer)(nil)

// HTTPSender delivers by POST (WebSub §7), without following redirects, over
// connections that it keeps for a while. Transport uses them, too.
type HTTPSender struct {
	client    *h1.Client
	limits    egress.Config // those of its connections
	sign      *signer
	signFor   map[string]*signer // by host
	lines     sync.Pool          // of *[]byte: the lines of one attempt alone
	userAgent string
	hubLink   string
	inside    func(ctx context.Context, d Inside) (status int)
}

var _ Sender = (*HTTPSender)(nil)

// NewHTTPSender returns a Sender that goes out through the outlet.
func NewHTTPSender(cfg SenderConfig, out Outlet) (*HTTPSender, error) {
	if cfg.Hub == "" || strings.ContainsAny(cfg.Hub, "<>\r\n") {
		return nil, fmt.Errorf("field Hub is %q: deliveries must name the hub's URI", cfg.Hub)
	}
	sign, err := newSigner(cmp.Or(cfg.Signature, "sha256"))
	if err != nil {
		return nil, err
	}
	signFor := make(map[string]*signer, len(cfg.SignatureFor))
	for host, method := range cfg.SignatureFor {
		if signFor[host], err = newSigner(method); err != nil {
			return nil, fmt.Errorf("host %s: %w", host, err)
		}
	}
	if cfg.DeliveryTimeout < 0 {
		return nil, fmt.Errorf("field DeliveryTimeout is %s: it must be more than 0", cfg.DeliveryTimeout)
	}
	limits := out.Config()
	client, err := h1.New(h1.Config{
		Dial: out.DialContext, TLS: out.TLSConfig(),
		Timeout: cmp.Or(cfg.DeliveryTimeout, 30*time.Second), HandshakeTimeout: limits.DialTimeout,
		MaxHeaderBytes: limits.MaxHeaderBytes, MaxConnsPerHost: limits.MaxConnsPerHost,
		MaxConns: limits.MaxConns, IdlePerHost: limits.IdlePerHost, IdleBytes: limits.IdleBytes, IdleTimeout: limits.IdleTimeout,
		SessionBytes: limits.SessionBytes,
	})
	if err != nil {
		return nil, err
	}
	return &HTTPSender{
		client:    client,
		limits:    limits,
		sign:      sign,
		signFor:   signFor,
		lines:     sync.Pool{New: func() any { return new([]byte) }},
		userAgent: fmt.Sprintf("Carillon/%s (+%s)", cmp.Or(cfg.Version, "dev"), cfg.Hub),
		hubLink:   `<` + cfg.Hub + `>; rel="hub"`,
		inside:    cfg.Inside,
	}, nil
}

// Transport returns a RoundTripper over the connections of the deliveries, for the requests
// that the hub makes besides: verifying a callback opens the connection that its first
// delivery uses. It makes GET and HEAD requests, bounded by their context alone, asks for
// no compression and follows no redirects (WebSub §5.3.1, §7).
func (s *HTTPSender) Transport() http.RoundTripper { return s.client }

// CloseIdleConnections closes the connections that no request uses. Nobody has to
// call it: they are closed after a while.
func (s *HTTPSender) CloseIdleConnections() { s.client.CloseIdleConnections() }

// Send makes one attempt.
func (s *HTTPSender) Send(ctx context.Context, a *Attempt) Outcome {
	secure, authority, target, err := a.target()
	if err != nil {
		return Outcome{Class: ClassProtocol, Err: err}
	}
	if s.inside != nil && a.isInside(secure, authority) {
		return s.sendInside(ctx, a)
	}
	w := a.wire
	if w == nil {
		w = new(wire)
	}
	sign := s.signer(authority)
	message, line, err := w.of(s, a, sign)
	if err != nil {
		return Outcome{Class: ClassProtocol, Err: err}
	}
	lines := s.lines.Get().(*[]byte)
	*lines = append((*lines)[:0], line...)
	if a.Secret != "" && line == nil {
		if *lines = appendSignature(*lines, a, sign); a.shared {
			w.keep(signed{sign, a.Secret}, *lines)
		}
	}
	if a.Traceparent != "" {
		*lines = append(append(append(*lines, "Traceparent: "...), a.Traceparent...), "\r\n"...)
	}
	answer, err := s.client.Post(ctx, &h1.Request{
		Secure: secure, Authority: authority, Target: target, Message: message, Lines: *lines,
	})
	s.lines.Put(lines)
	if err != nil {
		if ctx.Err() != nil {
			return Outcome{Class: ClassNone, Err: context.Cause(ctx)}
		}
		return Outcome{Class: classOfError(err), Err: egress.Unquoted(err)}
	}
	out := Outcome{Class: classOfStatus(answer.Status), Status: answer.Status}
	if answer.RetryAfter != "" {
		out.RetryAfter = retryafter.Parse(answer.RetryAfter, time.Now())
	}
	return out
}

// signer returns who signs for the callbacks of a host and port.
func (s *HTTPSender) signer(authority string) *signer {
	if len(s.signFor) > 0 {
		if sign := s.signFor[egress.Host("http://"+authority+"/")]; sign != nil {
			return sign
		}
	}
	return s.sign
}

// classOfStatus tells success from failure: 2xx and nothing else (WebSub §7).
func classOfStatus(code int) Class {
	switch {
	case code == http.StatusGone:
		return ClassGone
	case 200 <= code && code <= 299:
		return ClassDelivered
	case 300 <= code && code <= 399:
		return ClassRedirect
	case 400 <= code && code <= 499:
		return ClassClientError
	case 500 <= code && code <= 599:
		return ClassServerError
	}
	return ClassProtocol
}

// classOfError tells why there was no answer.
func classOfError(err error) Class {
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
		return ClassForbidden
	case errors.Is(err, context.DeadlineExceeded):
		return ClassTimeout
	case errors.As(err, &dnsErr):
		return ClassDNS
	case errors.As(err, &certErr), errors.As(err, &hostErr), errors.As(err, &recErr),
		// An alert of the other side, or one of ours to it.
		errors.As(err, &opErr) && (opErr.Op == "remote error" || opErr.Op == "local error"),
		isOfTLS(err):
		return ClassTLS
	case errors.As(err, &netErr) && netErr.Timeout():
		return ClassTimeout
	case opErr != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ClassRefused
	}
	return ClassProtocol
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

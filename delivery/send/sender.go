// Package send makes one attempt to deliver a notification to a callback: the request, its
// signature (WebSub §7.1) and the outcome. It knows no queue and retries nothing; package
// dispatch decides what is sent and when.
package send

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"carillon/delivery"
	"carillon/internal/egress"
	"carillon/internal/h1"
	"carillon/internal/retryafter"
	"carillon/topic"
)

// Sender makes delivery attempts. Send is called from many goroutines, has the
// Attempt until it returns and no longer (it is used again for another), and
// returns within a bound of its own, or soon after ctx ends.
type Sender interface {
	Send(ctx context.Context, a *Attempt) Outcome
}

// Config is how an HTTPSender presents itself.
type Config struct {
	// Hub is the hub's URI, which every delivery names (rel=hub). Required.
	Hub string
	// Version goes into User-Agent. Default "dev".
	Version string
	// Signature is the method of X-Hub-Signature: sha1, sha256, sha384 or
	// sha512 (WebSub §7.1). Default sha256, the least that WebSub §8.3 advises.
	Signature string
	// SignatureFor is the method for the callbacks of a host, in place of Signature: by its
	// name or address in small letters and without a port (topic.Host).
	SignatureFor map[string]string
	// DeliveryTimeout is the one deadline of an attempt, from dialing to the
	// last byte of the answer. Default 30 s.
	DeliveryTimeout time.Duration
	// Limits bound the connections.
	Limits Limits
	// Inside gets what callbacks of InsideOrigin are to get, in place of a request: the
	// hub's own test callback. It returns soon, with the status code of the answer. Nil:
	// such callbacks are dialed as others are, which fails.
	Inside func(ctx context.Context, d Inside) (status int)
}

// Limits bound the connections of an HTTPSender. Fields that are 0 have the default.
type Limits struct {
	// HandshakeTimeout bounds a TLS handshake; default 10 s.
	HandshakeTimeout time.Duration
	// MaxConnsPerHost bounds the connections to one host and port, in use and idle together;
	// default 64. A request beyond it waits for one.
	MaxConnsPerHost int
	// MaxConns bounds the open connections, for want of files: idle ones are closed where there
	// are more; default 1,024.
	MaxConns int
	// IdlePerHost bounds the connections to one host that are kept without a request, default 4;
	// IdleBytes the memory of all that are, by estimate, default 256 MiB.
	IdlePerHost int
	IdleBytes   int64
	// SessionBytes bounds the memory of TLS sessions, by estimate; default 64 MiB.
	SessionBytes int64
	// IdleTimeout is how long a connection is kept without a request; default
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
}

// DefaultIdleTimeout is that of Limits.IdleTimeout.
const DefaultIdleTimeout = 90 * time.Second

// maxHeaderBytes bounds the header of an answer.
const maxHeaderBytes = 64 << 10

func (l Limits) withDefaults() Limits {
	return Limits{
		HandshakeTimeout: cmp.Or(l.HandshakeTimeout, 10*time.Second),
		MaxConnsPerHost:  cmp.Or(l.MaxConnsPerHost, 64), MaxConns: cmp.Or(l.MaxConns, 1024),
		IdlePerHost: cmp.Or(l.IdlePerHost, 4), IdleBytes: cmp.Or(l.IdleBytes, 256<<20),
		SessionBytes: cmp.Or(l.SessionBytes, 64<<20), IdleTimeout: cmp.Or(l.IdleTimeout, DefaultIdleTimeout),
	}
}

// Outlet is the way out: an *egress.Dialer, which guards what is dialed.
type Outlet interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	// TLSConfig is what https connections start from.
	TLSConfig() *tls.Config
}

var _ Outlet = (*egress.Dialer)(nil)

// HTTPSender delivers by POST (WebSub §7), without following redirects, over
// connections that it keeps for a while. Transport uses them, too.
type HTTPSender struct {
	client  *h1.Client
	limits  Limits
	sign    *signer
	signFor map[string]*signer // by host
	lines   sync.Pool          // of *[]byte: the lines of one attempt alone
	headers headers
	inside  func(ctx context.Context, d Inside) (status int)
}

var _ Sender = (*HTTPSender)(nil)

// NewHTTPSender returns a Sender that goes out through the outlet.
func NewHTTPSender(cfg Config, out Outlet) (*HTTPSender, error) {
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
	limits := cfg.Limits.withDefaults()
	client, err := h1.New(h1.Config{
		Dial: out.DialContext, TLS: out.TLSConfig(),
		Timeout: cmp.Or(cfg.DeliveryTimeout, 30*time.Second), HandshakeTimeout: limits.HandshakeTimeout,
		MaxHeaderBytes: maxHeaderBytes, MaxConnsPerHost: limits.MaxConnsPerHost,
		MaxConns: limits.MaxConns, IdlePerHost: limits.IdlePerHost, IdleBytes: limits.IdleBytes, IdleTimeout: limits.IdleTimeout,
		SessionBytes: limits.SessionBytes,
	})
	if err != nil {
		return nil, err
	}
	return &HTTPSender{
		client:  client,
		limits:  limits,
		sign:    sign,
		signFor: signFor,
		lines:   sync.Pool{New: func() any { return new([]byte) }},
		headers: headers{
			userAgent: fmt.Sprintf("Carillon/%s (+%s)", cmp.Or(cfg.Version, "dev"), cfg.Hub),
			hubLink:   `<` + cfg.Hub + `>; rel="hub"`,
		},
		inside: cfg.Inside,
	}, nil
}

// Transport returns a RoundTripper over the connections of the deliveries, for the requests
// that the hub makes besides: verifying a callback opens the connection that its first
// delivery uses. It makes GET and HEAD requests, bounded by their context alone, asks for
// no compression and follows no redirects (WebSub §5.3.1, §7).
func (s *HTTPSender) Transport() http.RoundTripper { return s.client }

// CloseIdleConnections closes the connections that no request uses. A call is optional: they are
// closed after a while.
func (s *HTTPSender) CloseIdleConnections() { s.client.CloseIdleConnections() }

// Send makes one attempt.
func (s *HTTPSender) Send(ctx context.Context, a *Attempt) Outcome {
	secure, authority, target, err := a.target()
	if err != nil {
		return Outcome{Class: delivery.ClassProtocol, Err: err}
	}
	if s.inside != nil && a.isInside(secure, authority) {
		return s.sendInside(ctx, a)
	}
	w := a.Wire
	if w == nil {
		w = new(Wire)
	}
	key := signed{s.signer(authority), a.Secret}
	message, line, err := w.of(&s.headers, a.Notification, key, a.Shared)
	if err != nil {
		return Outcome{Class: delivery.ClassProtocol, Err: err}
	}
	lines := s.lines.Get().(*[]byte)
	*lines = append((*lines)[:0], line...)
	if a.Secret != "" && line == nil {
		if *lines = appendSignature(*lines, key, a.Notification.Body); a.Shared {
			w.keep(key, *lines)
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
			return Outcome{Class: delivery.ClassNone, Err: context.Cause(ctx)}
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
		if sign := s.signFor[topic.Host("http://"+authority+"/")]; sign != nil {
			return sign
		}
	}
	return s.sign
}

// errNobodyInside: there is no such callback.
var errNobodyInside = errors.New("no test callback listens inside of the hub")

// sendInside makes one attempt without a request.
func (s *HTTPSender) sendInside(ctx context.Context, a *Attempt) Outcome {
	d := Inside{
		Subscription: a.Subscription, Callback: a.Callback, Notification: a.Notification,
		Header: http.Header{}, Body: a.Notification.Body,
	}
	if a.Host != nil {
		d.Callback = a.Host.name + a.Rest
	}
	for _, f := range s.headers.fields(a.Notification) {
		d.Header.Set(f.Name, f.Value)
	}
	if a.Secret != "" {
		_, signature, _ := strings.Cut(
			string(appendSignature(nil, signed{s.sign, a.Secret}, a.Notification.Body)), ": ",
		)
		d.Header.Set("X-Hub-Signature", strings.TrimSuffix(signature, "\r\n"))
	}
	status := s.inside(ctx, d)
	switch {
	case ctx.Err() != nil:
		return Outcome{Class: delivery.ClassNone, Err: context.Cause(ctx)}
	case status == 0:
		return Outcome{Class: delivery.ClassRefused, Err: errNobodyInside}
	}
	return Outcome{Class: classOfStatus(status), Status: status}
}

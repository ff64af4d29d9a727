package delivery

import (
	"bytes"
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
	"syscall"
	"time"

	"carillon/internal/egress"
	"carillon/internal/retryafter"
	"carillon/subscription"
)

// Limits on what is read of an answer. Its body means nothing (WebSub §7); it
// is read only so that the connection can be used again.
const (
	answerBytes = 16 << 10
	answerTime  = time.Second
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

// Sender makes delivery attempts. Send is called from many goroutines and
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
	// DeliveryTimeout is the one deadline of an attempt, from dialing to the
	// last byte of the answer. Default 30 s.
	DeliveryTimeout time.Duration
}

// HTTPSender delivers by POST (WebSub §7), without following redirects.
type HTTPSender struct {
	transport http.RoundTripper
	timeout   time.Duration
	sign      signer
	userAgent string
	hubLink   string
}

var _ Sender = (*HTTPSender)(nil)

// NewHTTPSender returns a Sender that goes out through the transport, which
// must not ask for compression (internal/egress gives one that does not, and
// that guards what is dialed).
func NewHTTPSender(cfg SenderConfig, transport http.RoundTripper) (*HTTPSender, error) {
	if cfg.Hub == "" || strings.ContainsAny(cfg.Hub, "<>\r\n") {
		return nil, fmt.Errorf("field Hub is %q: deliveries must name the hub's URI", cfg.Hub)
	}
	sign, err := newSigner(cmp.Or(cfg.Signature, "sha256"))
	if err != nil {
		return nil, err
	}
	if cfg.DeliveryTimeout < 0 {
		return nil, fmt.Errorf("field DeliveryTimeout is %s: it must be more than 0", cfg.DeliveryTimeout)
	}
	return &HTTPSender{
		transport: transport,
		timeout:   cmp.Or(cfg.DeliveryTimeout, 30*time.Second),
		sign:      sign,
		userAgent: fmt.Sprintf("Carillon/%s (+%s)", cmp.Or(cfg.Version, "dev"), cfg.Hub),
		hubLink:   `<` + cfg.Hub + `>; rel="hub"`,
	}, nil
}

// Send makes one attempt.
func (s *HTTPSender) Send(ctx context.Context, a *Attempt) Outcome {
	attemptCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := s.request(attemptCtx, a)
	if err != nil {
		return Outcome{Class: ClassProtocol, Err: err}
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return Outcome{Class: ClassNone, Err: context.Cause(ctx)}
		}
		return Outcome{Class: classOfError(attemptCtx, err), Err: err}
	}
	if resp.ContentLength != 0 {
		// The outcome is known: an answer that drips is cut off early.
		stop := time.AfterFunc(answerTime, cancel)
		_, _ = io.CopyN(io.Discard, resp.Body, answerBytes)
		stop.Stop()
	}
	_ = resp.Body.Close()
	return Outcome{
		Class:      classOfStatus(resp.StatusCode),
		Status:     resp.StatusCode,
		RetryAfter: retryafter.Parse(resp.Header.Get("Retry-After"), time.Now()),
	}
}

// request builds the delivery: WebSub §7 and §7.1.
func (s *HTTPSender) request(ctx context.Context, a *Attempt) (*http.Request, error) {
	target, err := egress.Target(a.Callback)
	if err != nil {
		return nil, err
	}
	n := a.Notification
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(n.Body))
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = target, target.Host
	req.Header = http.Header{
		"User-Agent":            {s.userAgent},
		"Link":                  {s.links(n)},
		"X-Hub-Notification-Id": {n.ID.String()},
		// A key without a value lets net/http repeat the request where a kept
		// connection turns out to be closed; it does not go out itself.
		"X-Idempotency-Key": {},
	}
	if n.ContentType != "" {
		req.Header["Content-Type"] = []string{n.ContentType}
	}
	if a.Secret != "" {
		req.Header["X-Hub-Signature"] = []string{s.sign.header(string(a.Secret), n.Body)}
	}
	return req, nil
}

// links is the value of the one Link header (WebSub §7). Some subscribers look
// at the first values only, so the hub and the topic lead.
func (s *HTTPSender) links(n *Notification) string {
	var b strings.Builder
	b.WriteString(s.hubLink)
	b.WriteString(", <")
	b.WriteString(linkTarget(n.Topic))
	b.WriteString(`>; rel="self"`)
	for _, l := range n.Links {
		b.WriteString(", ")
		b.WriteString(l)
	}
	return b.String()
}

// linkTarget percent-encodes what would end a link before its bracket does, or the
// header. No URL holds it, but whoever let it in must not add links of its own.
func linkTarget(topic string) string {
	ends := func(c byte) bool { return c <= ' ' || c == 0x7f || c == '<' || c == '>' || c == '"' }
	var b strings.Builder
	for i := 0; i < len(topic); i++ {
		if c := topic[i]; ends(c) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
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
func classOfError(ctx context.Context, err error) Class {
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
	case errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		return ClassTimeout
	case errors.As(err, &dnsErr):
		return ClassDNS
	case errors.As(err, &certErr), errors.As(err, &hostErr), errors.As(err, &recErr),
		// An alert of the other side, or one of ours to it.
		errors.As(err, &opErr) && (opErr.Op == "remote error" || opErr.Op == "local error"):
		return ClassTLS
	case errors.As(err, &netErr) && netErr.Timeout():
		return ClassTimeout
	case opErr != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ClassRefused
	}
	return ClassProtocol
}

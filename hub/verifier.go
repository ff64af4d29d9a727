package hub

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/internal/egress"
	"carillon/subscription"
)

// Verifier asks callbacks whether they meant the request that was made in their name, and sends them
// denials (WebSub §5.2, §5.3). The callback is requested byte for byte, its query only appended to. A
// redirect is an answer, and not the right one.
//
// Its methods may be called from any goroutine. Each makes one request, bounded by
// Config.VerifyTimeout; the caller retries.
type Verifier struct {
	cfg       Config
	transport http.RoundTripper
	metrics   *verifyMetrics
}

var _ subscription.Confirmer = (*Verifier)(nil)

// NewVerifier returns a Verifier, or an error that reports the faults of the
// Config. The registerer may be nil.
func NewVerifier(cfg Config, transport http.RoundTripper, reg prometheus.Registerer) (*Verifier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("hub: verification: %w", err)
	}
	if transport == nil {
		return nil, errors.New("hub: verification: no transport")
	}
	m, err := newVerifyMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("hub: verification: metrics: %w", err)
	}
	return &Verifier{cfg: cfg.withDefaults(), transport: transport, metrics: m}, nil
}

// Confirm asks the callback for its intent. It returns nil for 2xx with exactly the
// challenge, subscription.ErrNoIntent for every other answer and for a callback
// whose address may not be reached, which no further try would change, and
// subscription.ErrNoAnswer where no whole answer came.
func (v *Verifier) Confirm(ctx context.Context, r subscription.Request, challenge string) error {
	params := []query{
		{"hub.mode", string(r.Mode)},
		{"hub.topic", r.Topic},
		{"hub.challenge", challenge},
	}
	if r.Mode == subscription.ModeSubscribe {
		seconds := int64(r.Lease / time.Second)
		params = append(params, query{"hub.lease_seconds", strconv.FormatInt(seconds, 10)})
	}
	if r.VerifyToken != "" { // PuSH 0.3 §6.2.1; WebSub has no such parameter
		params = append(params, query{"hub.verify_token", string(r.VerifyToken)})
	}
	err := v.confirm(ctx, appendQuery(r.Callback, params...), challenge)
	v.metrics.requests.WithLabelValues(string(r.Mode), verifyResult(err)).Inc()
	return err
}

func verifyResult(err error) string {
	switch {
	case err == nil:
		return verifyConfirmed
	case errors.Is(err, subscription.ErrNoIntent):
		return verifyNoIntent
	}
	return verifyNoAnswer
}

func (v *Verifier) confirm(ctx context.Context, address, challenge string) error {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.VerifyTimeout)
	defer cancel()
	resp, err := v.get(ctx, address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%w: status %d", subscription.ErrNoIntent, resp.StatusCode)
	}
	// One byte more than the challenge shows that the answer is longer.
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(len(challenge))+1))
	if err != nil {
		return fmt.Errorf("%w: %w", subscription.ErrNoAnswer, egress.Unquoted(err))
	}
	if subtle.ConstantTimeCompare(body, []byte(challenge)) != 1 {
		return fmt.Errorf("%w: the body is not the challenge", subscription.ErrNoIntent)
	}
	return nil
}

// Deny sends the callback the news that the hub does not, or no longer, serve the subscription. It
// returns nil for any answer, and subscription.ErrNoAnswer without one.
func (v *Verifier) Deny(ctx context.Context, topic, callback, reason string) error {
	params := []query{{"hub.mode", "denied"}, {"hub.topic", topic}}
	if reason != "" {
		params = append(params, query{"hub.reason", reason})
	}
	ctx, cancel := context.WithTimeout(ctx, v.cfg.VerifyTimeout)
	defer cancel()
	resp, err := v.get(ctx, appendQuery(callback, params...))
	if errors.Is(err, subscription.ErrNoIntent) {
		err = nil // no callback may get the denial
	}
	if err != nil {
		v.metrics.requests.WithLabelValues("denied", verifyNoAnswer).Inc()
		return err
	}
	if resp != nil {
		_ = resp.Body.Close()
	}
	v.metrics.requests.WithLabelValues("denied", verifyTold).Inc()
	return nil
}

// get requests the address. The error is ErrNoIntent if it never can be, and
// ErrNoAnswer if it could not be this time.
func (v *Verifier) get(ctx context.Context, address string) (*http.Response, error) {
	req, err := v.cfg.request(ctx, http.MethodGet, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", subscription.ErrNoIntent, err)
	}
	resp, err := v.transport.RoundTrip(req)
	switch {
	case errors.Is(err, egress.ErrForbidden):
		return nil, fmt.Errorf("%w: %w", subscription.ErrNoIntent, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", subscription.ErrNoAnswer, egress.Unquoted(err))
	}
	return resp, nil
}

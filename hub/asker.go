package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"carillon/internal/egress"
	"carillon/internal/weblink"
	"carillon/subscription"
	"carillon/topic"
)

// asker makes the requests of a topic check.
type asker struct {
	cfg       Config
	self      string // the hub URL in the form to compare by
	transport http.RoundTripper
}

func newAsker(cfg Config, transport http.RoundTripper) *asker {
	return &asker{cfg: cfg, self: normalHub(cfg.URL), transport: transport}
}

// ask returns nil if the topic names this hub, a *subscription.Refusal if it does
// not, and ErrTopicAway if its server could not tell.
func (a *asker) ask(ctx context.Context, at topic.Address) error {
	links, err := a.links(ctx, http.MethodHead, at)
	if err == nil && judgeLinks(links, at, a.self) == nil {
		return nil
	}
	// Where there was no answer to HEAD, or one that asks for patience, GET would wait
	// for the same.
	if errors.Is(err, ErrTopicAway) && !errors.Is(err, errStatus) {
		return err
	}
	links, err = a.links(ctx, http.MethodGet, at)
	if err != nil {
		return err
	}
	return judgeLinks(links, at, a.self)
}

// links requests the topic and returns the links of its answer.
func (a *asker) links(ctx context.Context, method string, at topic.Address) ([]weblink.Link, error) {
	req, err := a.cfg.request(ctx, method, at.String())
	if err != nil {
		return nil, errNotAsked()
	}
	resp, err := a.transport.RoundTrip(req)
	if err != nil {
		return nil, requestFailed(err)
	}
	defer resp.Body.Close()
	if err := judgeStatus(resp.StatusCode); err != nil {
		return nil, err
	}
	if method == http.MethodHead {
		return headerLinks(resp, at.String()), nil
	}
	in := &tapped{Reader: resp.Body, into: io.Discard}
	links := discover(resp, at.String(), in)
	if in.err != nil && judgeLinks(links, at, a.self) != nil {
		return nil, requestFailed(in.err) // the links may be in the rest
	}
	return links, nil
}

// errStatus: the server answered, with a status that may be due to the method.
var errStatus = errors.New("status")

// patience are the statuses that say nothing of the request, but that it came at a bad time.
var patience = []int{
	http.StatusRequestTimeout, http.StatusTooManyRequests,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// judgeStatus returns nil for 2xx, ErrTopicAway for what may be otherwise soon,
// and a refusal for everything else. Redirects are not followed: the topic is
// the address that rel=self names, and that one answers itself.
func judgeStatus(status int) error {
	switch {
	case status >= 200 && status <= 299:
		return nil
	case slices.Contains(patience, status):
		return fmt.Errorf("%w: status %d", ErrTopicAway, status)
	case status >= 500:
		return fmt.Errorf("%w: %w %d", ErrTopicAway, errStatus, status)
	case status >= 300 && status <= 399:
		return &subscription.Refusal{
			Reason: fmt.Sprintf("it answers with a redirect (%d), which the hub does not follow", status),
		}
	}
	return &subscription.Refusal{Reason: fmt.Sprintf("it answers with status %d", status)}
}

// errNotAsked refuses an address that no request is made to. It does not say why:
// that a name means a private address is nothing for strangers.
func errNotAsked() error {
	return &subscription.Refusal{Reason: "its address is not one that this hub makes requests to"}
}

// requestFailed distinguishes an address that may not be dialed from a server that is away.
func requestFailed(err error) error {
	if errors.Is(err, egress.ErrForbidden) {
		return errNotAsked()
	}
	return fmt.Errorf("%w: %w", ErrTopicAway, egress.Unquoted(err))
}

// tapped is a Reader that keeps what was read, and its error.
type tapped struct {
	io.Reader
	into io.Writer
	err  error // but for io.EOF
}

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	_, _ = t.into.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}

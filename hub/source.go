package hub

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"carillon/delivery"
	"carillon/internal/bodies"
	"carillon/internal/egress"
	"carillon/internal/retryafter"
	"carillon/internal/weblink"
	"carillon/payload"
	"carillon/subscription"
	"carillon/topic"
)

// source fetches topics and publishes what they hold.
type source struct {
	cfg       Config
	self      string // the hub URL in the form to compare by
	transport http.RoundTripper
	publisher Publisher
	bodies    *bodies.Room
	// lookalikes gets each published lookalike.
	lookalikes *lookalikes
}

// errNotMine: another process fetches the topic by now, or may.
var errNotMine = errors.New("the topic may be another process's by now")

// publish fetches a topic and publishes its content. Published is false if it
// has none: a topic without a notification so far answers with Content-Length 0 (CN
// §4.1). The error is definitive if the content is not to be distributed, and
// errNotMine if still says no when the content is there.
func (s *source) publish(ctx context.Context, at topic.Address, still func() bool) (published bool, err error) {
	h := s.bodies.Hold()
	defer h.Release()
	p, miss, err := s.fetch(ctx, at, &h)
	if err != nil || len(p.Body) == 0 {
		return false, err
	}
	if !still() {
		return false, errNotMine
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StoreTimeout)
	defer cancel()
	if _, err := s.publisher.Publish(ctx, p); err != nil {
		return false, err
	}
	if miss != nil {
		s.lookalikes.note(at, *miss)
	}
	return true, nil
}

// definitive reports whether a fetch came to the conclusion that what it found is not
// to be distributed. Every other failure may be over at the next try.
func definitive(err error) bool {
	var (
		refusal *subscription.Refusal
		request *requestError
		invalid *payload.Invalid
	)
	return errors.As(err, &refusal) || errors.As(err, &request) || errors.As(err, &invalid)
}

// fetch gets a topic's content as a publication. Its rel=self is the topic's canonical URL, which must
// be the pinged one, in any spelling.
func (s *source) fetch(
	ctx context.Context, at topic.Address, h *bodies.Held,
) (p delivery.Publication, miss *payload.Miss, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.FetchTimeout)
	defer cancel()
	req, err := s.cfg.request(ctx, http.MethodGet, at.String())
	if err != nil {
		return p, nil, errNotAsked()
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return p, nil, requestFailed(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return p, nil, nil
	}
	switch err := judgeStatus(resp.StatusCode); {
	case errors.Is(err, ErrTopicAway):
		return p, nil, &laterError{err, retryafter.Parse(resp.Header.Get("Retry-After"), time.Now())}
	case err != nil:
		return p, nil, err
	case resp.StatusCode != http.StatusOK:
		return p, nil, &subscription.Refusal{
			Reason: fmt.Sprintf("it answers with status %d, which brings no content", resp.StatusCode),
		}
	}
	content, links, err := s.begin(resp, at)
	if err != nil || content == nil {
		return p, nil, err
	}
	body, err := s.read(resp, content, h)
	if err != nil || len(body) == 0 {
		return p, nil, err
	}
	return s.publication(resp, links, at, body)
}

// begin judges the links of an answer before its content is read, except for the beginning that may
// embed them. Any client may ping anything, and a topic that does not name this hub should not be read
// whole. It returns the content, nil if the answer has none.
func (s *source) begin(resp *http.Response, at topic.Address) (content io.Reader, links []weblink.Link, err error) {
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, nil, &subscription.Refusal{Reason: "it answers with a Content-Encoding, which was not asked for"}
	}
	if resp.ContentLength > s.cfg.MaxBody {
		return nil, nil, s.tooLong()
	}
	var beginning bytes.Buffer
	in := &tapped{Reader: resp.Body, into: &beginning}
	first := bufio.NewReaderSize(in, 512)
	if _, err := first.Peek(1); errors.Is(err, io.EOF) {
		return nil, nil, nil
	}
	links = discover(resp, at.String(), first)
	if in.err != nil {
		return nil, nil, fmt.Errorf("reading the topic: %w", egress.Unquoted(in.err))
	}
	if err := judgeLinks(links, at, s.self); err != nil {
		return nil, nil, err
	}
	return io.MultiReader(&beginning, resp.Body), links, nil
}

// laterError is an answer of a topic's server that cannot tell now.
type laterError struct {
	error
	retryAfter time.Duration // what the answer asks for, 0 for nothing
}

// Unwrap returns what the answer was.
func (e *laterError) Unwrap() error { return e.error }

func (s *source) tooLong() error {
	return &subscription.Refusal{Reason: fmt.Sprintf("its content is longer than %d bytes", s.cfg.MaxBody)}
}

// read reads an answer's content within the limit. It returns errBusy where there is
// no room for it.
func (s *source) read(resp *http.Response, content io.Reader, h *bodies.Held) ([]byte, error) {
	body, err := bodies.TakeIn(h, resp.ContentLength, s.cfg.MaxBody, content)
	if limit := (*http.MaxBytesError)(nil); errors.As(err, &limit) {
		return nil, s.tooLong()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the topic: %w", egress.Unquoted(err))
	}
	return body, nil
}

// publication makes a publication of an answer, or returns the reason against it.
func (s *source) publication(
	resp *http.Response, links []weblink.Link, at topic.Address, body []byte,
) (delivery.Publication, *payload.Miss, error) {
	p := delivery.Publication{
		Topic:       topic.Parse(weblink.Find(links, relSelf)[0].URI),
		ContentType: contentType(resp.Header),
		Body:        body,
	}
	// Of a site that sends more links than are relayed the first ones go on: the
	// content is what was asked for.
	p.Links, _ = s.cfg.relayed(headerLinks(resp, at.String()))
	media, _, _ := mime.ParseMediaType(p.ContentType)
	found, err := judge(media, body)
	p.From, p.Until = found.from, found.until
	return p, found.miss, err
}

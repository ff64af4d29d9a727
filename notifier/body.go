package notifier

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of reading.
const (
	// maxReadingBytes bounds what all requests hold of their bodies at the same
	// time, beyond smallBody of each. A request takes its share as its bytes arrive,
	// waits up to intakePatience for more, then 503.
	maxReadingBytes = 4 * MaxIntakeBytes
	intakePatience  = 10 * time.Second
	// smallBody is what a request may hold without a share: events that
	// come one by one never wait for large requests.
	smallBody = 64 << 10
	// largeBody is what a body may have that is parsed, and put in the journal, beside
	// others: of those that are larger there is one at a time, as what comes of
	// it takes several times its size.
	largeBody = 1 << 20
	// bodyStall is how long a body may stand still: 408.
	bodyStall = 10 * time.Second
	// bodyGrace and bodyRate, bytes a second, are how long it may take in all: 408.
	bodyGrace = 30 * time.Second
	bodyRate  = 128 << 10
)

// errTooSlow: the sender is what a request waits for.
var errTooSlow = refuse(http.StatusRequestTimeout, "The body came too slowly, or not to its end.")

// tooManyLarge is the answer when there is no room for a large request.
func tooManyLarge(cause error) error {
	return &httpError{
		status: http.StatusServiceUnavailable, cause: cause, header: http.Header{"Retry-After": {"5"}},
		text: "There are too many large requests at a time. Try again, or send fewer events at once.",
	}
}

// readBody reads the whole body, unpacked; release ends its turn and gives back its
// share of the budget.
func (b *budget) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	if r.ContentLength > MaxIntakeBytes {
		return nil, nil, refuse(http.StatusRequestEntityTooLarge, tooLongText)
	}
	coming := &comingBody{source: r.Body, conn: http.NewResponseController(w), begun: time.Now()}
	limited := http.MaxBytesReader(nil, io.NopCloser(coming), MaxIntakeBytes)
	source, err := decoded(r, limited)
	if err != nil {
		return nil, nil, err
	}
	s := share{budget: b}
	body, err = s.read(r.Context(), source, r.ContentLength, coming)
	if err == nil {
		coming.ended()
		err = s.turn(r.Context(), len(body))
	}
	if err != nil {
		s.release()
		return nil, nil, err
	}
	return body, s.release, nil
}

// decoded returns the body of a request, unpacked as its Content-Encoding says.
func decoded(r *http.Request, body io.Reader) (io.Reader, error) {
	switch strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ",")) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, bodyError(err)
		}
		return unpacked, nil
	}
	return nil, &httpError{
		status: http.StatusUnsupportedMediaType, header: http.Header{"Accept-Encoding": {"gzip"}},
		text: "The Content-Encoding must be gzip, or there must be none.",
	}
}

// comingBody is a request's body that must keep coming.
type comingBody struct {
	source io.Reader
	conn   *http.ResponseController
	begun  time.Time
	got    int64
}

func (c *comingBody) Read(p []byte) (int, error) {
	deadline := c.begun.Add(bodyGrace + time.Duration(c.got)*time.Second/bodyRate)
	if stall := time.Now().Add(bodyStall); stall.Before(deadline) {
		deadline = stall
	}
	c.until(deadline)
	n, err := c.source.Read(p)
	c.got += int64(n)
	return n, err
}

// ended leaves the connection as it was.
func (c *comingBody) ended() { c.until(time.Time{}) }

func (c *comingBody) until(deadline time.Time) {
	// The error is for a writer that is no server's: then nothing can hang.
	_ = c.conn.SetReadDeadline(deadline)
}

// bodyError says what is wrong with a body that cannot be read.
func bodyError(err error) error {
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTooSlow
	}
	return &httpError{
		status: http.StatusBadRequest,
		text:   "The body could not be read to its end; with Content-Encoding: gzip it must be whole and valid gzip data.",
	}
}

// budget bounds the memory for the requests that are read at the same time.
type budget struct {
	sem   *semaphore.Weighted
	large *semaphore.Weighted // of 1: the turn of a large body
}

func newBudget(size int64) *budget {
	return &budget{sem: semaphore.NewWeighted(size), large: semaphore.NewWeighted(1)}
}

// share is what one request holds of the budget.
type share struct {
	budget *budget
	held   int64
	turns  int64 // 1 if it is this request's turn among the large ones
}

// read reads all of source; expected is its length before unpacking, if that is known.
// The buffer grows with what arrives, to twice of it at most, so that an
// announcement costs nothing.
func (s *share) read(ctx context.Context, source io.Reader, expected int64, coming *comingBody) ([]byte, error) {
	const unknown = 4 << 10
	size := int64(unknown)
	if expected >= 0 {
		size = min(expected+1, smallBody) // a byte more, to see the end
	}
	body := make([]byte, 0, size)
	for {
		if len(body) == cap(body) {
			waited := time.Now()
			bigger, err := s.grow(ctx, body)
			if err != nil {
				return nil, err
			}
			body = bigger
			coming.begun = coming.begun.Add(time.Since(waited)) // which was not the sender's fault
		}
		n, err := source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > MaxIntakeBytes:
			return nil, refuse(http.StatusRequestEntityTooLarge, tooLongText)
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, bodyError(err)
		}
	}
}

// grow gives a buffer of twice the size with what body has.
func (s *share) grow(ctx context.Context, body []byte) ([]byte, error) {
	size := min(2*cap(body), MaxIntakeBytes+1)
	if need := int64(size-smallBody) - s.held; need > 0 {
		ctx, cancel := context.WithTimeout(ctx, intakePatience)
		defer cancel()
		if err := s.budget.sem.Acquire(ctx, need); err != nil {
			return nil, tooManyLarge(fmt.Errorf("room for %d bytes of a request: %w", size, err))
		}
		s.held += need
	}
	return append(make([]byte, 0, size), body...), nil
}

// turn waits until no other large body is in work.
func (s *share) turn(ctx context.Context, size int) error {
	if size <= largeBody {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, intakePatience)
	defer cancel()
	if err := s.budget.large.Acquire(ctx, 1); err != nil {
		return tooManyLarge(fmt.Errorf("the turn of a request of %d bytes: %w", size, err))
	}
	s.turns = 1
	return nil
}

func (s *share) release() {
	s.budget.large.Release(s.turns)
	s.budget.sem.Release(s.held)
}

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

	"carillon/internal/bodies"
)

// Limits of reading.
const (
	// maxReadingBytes bounds what all requests hold of their bodies at the same time: 503 beyond.
	maxReadingBytes = 4 * MaxIntakeBytes
	// largeBody is what a body may have that is parsed, and put in the journal, beside
	// others: of those that are larger there is one at a time, as the outcome of
	// it takes several times its size.
	largeBody = bodies.Long
	// turnPatience is how long a large body waits for its turn: 503.
	turnPatience = 10 * time.Second
	// bodyIdle, bodyRate (bytes a second) and bodyTimeout are how slowly a body may come: 408.
	bodyIdle    = 30 * time.Second
	bodyRate    = 128 << 10
	bodyTimeout = bodyIdle + MaxIntakeBytes/bodyRate*time.Second
)

// errFull: there is no room for a body.
var errFull = tooManyLarge(errors.New("the memory for the bodies of requests is taken"))

// tooManyLarge is the answer when there is no room for a large request.
func tooManyLarge(cause error) error {
	return &httpError{
		status: http.StatusServiceUnavailable, cause: cause, header: http.Header{"Retry-After": {"5"}},
		text: "There are too many large requests at a time. Try again, or send fewer events at once.",
	}
}

// budget bounds the memory for the requests that are read at the same time.
type budget struct {
	room  *bodies.Room
	large *semaphore.Weighted // of 1: the turn of a large body
}

func newBudget() *budget {
	return &budget{
		room:  bodies.NewRoom(maxReadingBytes, MaxIntakeBytes, errFull),
		large: semaphore.NewWeighted(1),
	}
}

// readBody reads the whole body, unpacked; release ends its turn and gives back its
// share of the budget.
func (b *budget) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	unpack, err := unpacking(r)
	if err != nil {
		return nil, nil, err
	}
	held := b.room.Hold()
	limits := bodies.Limits{
		Most: MaxIntakeBytes, Idle: bodyIdle, Rate: bodyRate, Timeout: bodyTimeout, Unpack: unpack,
	}
	if body, err = limits.Read(w, r, &held); err != nil {
		held.Release()
		return nil, nil, bodyError(err)
	}
	if len(body) <= largeBody {
		return body, held.Release, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), turnPatience)
	defer cancel()
	if err := b.large.Acquire(ctx, 1); err != nil {
		held.Release()
		return nil, nil, tooManyLarge(fmt.Errorf("the turn of a request of %d bytes: %w", len(body), err))
	}
	return body, func() { b.large.Release(1); held.Release() }, nil
}

// unpacking returns what unpacks the body of a request, nil where it is not encoded.
func unpacking(r *http.Request) (func(io.Reader) (io.Reader, error), error) {
	switch strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ",")) {
	case "", "identity":
		return nil, nil
	case "gzip", "x-gzip":
		return func(in io.Reader) (io.Reader, error) { return gzip.NewReader(in) }, nil
	}
	return nil, &httpError{
		status: http.StatusUnsupportedMediaType, header: http.Header{"Accept-Encoding": {"gzip"}},
		text: "The Content-Encoding must be gzip, or there must be none.",
	}
}

// bodyError reports the faults of a body that cannot be read.
func bodyError(err error) error {
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong), errors.Is(err, errFull):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "The body came too slowly, or not to its end.")
	}
	return refuse(http.StatusBadRequest,
		"The body could not be read to its end; with Content-Encoding: gzip it must be whole and valid gzip data.")
}

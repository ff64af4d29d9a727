package house

import (
	"context"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
)

// inFlightRequests serves requests until close and counts those under way, so that the store closes
// after them, with every server.
type inFlightRequests struct {
	inner http.Handler
	under atomic.Int64 // requests under way; closedBias less once it is closed
	once  sync.Once
	empty chan struct{} // closed when it is closed and no request is under way
}

// closedBias makes guests.under negative, however many requests there are.
const closedBias = math.MinInt64 / 2

func newInFlightRequests(inner http.Handler) *inFlightRequests {
	return &inFlightRequests{inner: inner, empty: make(chan struct{})}
}

// ServeHTTP serves a request, or answers 503 after close.
func (g *inFlightRequests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer g.leave()
	if g.under.Add(1) > 0 {
		g.inner.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "The hub has ended.\n") // a client that has gone needs no answer
}

func (g *inFlightRequests) leave() {
	if g.under.Add(-1) == closedBias {
		g.once.Do(func() { close(g.empty) })
	}
}

// close refuses further requests and waits for those under way, until ctx ends. It is called
// once. It returns false if some are still under way.
func (g *inFlightRequests) close(ctx context.Context) bool {
	if g.under.Add(closedBias) == closedBias {
		return true
	}
	select {
	case <-g.empty:
		return true
	case <-ctx.Done():
		return false
	}
}

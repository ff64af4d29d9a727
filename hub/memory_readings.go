package hub

import (
	"context"
	"net/http"
	"sync"
	"time"

	"carillon/internal/bodies"
)

const (
	// readingsShare is the part of the memory's room for bodies that one client has, if that is more
	// than one body.
	readingsShare = 4
	// undisturbed is how long a reading may take its time: one that takes longer is cut off
	// where another would be refused.
	undisturbed = 10 * time.Second
)

// What a reading costs besides the request itself, in requests: each stands for about 10 ms.
const (
	// summariesRequest is how many summaries of the log are looked at for one.
	summariesRequest = 1024
	// notesRequest is how many notifications are read for one.
	notesRequest = 512
	// bytesRequest is how many bytes of them are read for one.
	bytesRequest = 1 << 20
)

// readings are those that read the memory.
type readings struct {
	all, perClient int            // the bounds of how many
	rooms          []*bodies.Room // the memory's own for bodies, and that of all: what one holds it holds of each
	share          int64          // of the memory's own that one client has, if that is more than one body

	mu    sync.Mutex
	under map[*reading]struct{} // owned by mu
}

// reading is one of them.
type reading struct {
	of     *readings
	client string // empty: one without a bound of its own
	began  time.Time
	stop   func()        // ends its context, and its writing
	end    func()        // ends its context
	held   []bodies.Held // owned by of.mu
	bytes  int64         // of held. Owned by of.mu
	cut    bool          // owned by of.mu
}

// enter takes a place, which leave gives back, where need be that of the slowest. The request's context
// ends when the place goes to somebody else.
func (g *readings) enter(client string, w http.ResponseWriter, r *http.Request) (*reading, *http.Request, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := 0
	for other := range g.under {
		if client != "" && other.client == client {
			own++
		}
	}
	if own >= g.perClient {
		return nil, nil, errReadsBusy
	}
	one := &reading{of: g, client: client, began: time.Now()}
	if len(g.under) >= g.all && !g.cutSlowest(one, 0) {
		return nil, nil, errBusy
	}
	ctx, cancel := context.WithCancel(r.Context())
	one.end, one.stop = cancel, func() {
		cancel()
		// A write that waits for the client ends, too; a writer without deadlines does not wait.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now())
	}
	g.under[one] = struct{}{}
	return one, r.WithContext(ctx), nil
}

// hold takes room for a body of so many bytes, where need be that of the slowest of those who hold
// as long a one; leave gives it back.
func (one *reading) hold(bytes int64) error {
	g := one.of
	g.mu.Lock()
	defer g.mu.Unlock()
	if one.cut {
		return errBusy
	}
	one.free() // of a search before
	own := bytes
	for other := range g.under {
		if other.client == one.client {
			own += other.bytes
		}
	}
	if one.client != "" && own > max(g.share, bytes) {
		return errReadsBusy
	}
	for !one.take(bytes) {
		if !g.cutSlowest(one, min(bytes, bodies.Long)) {
			return errBusy
		}
	}
	return nil
}

// take takes room of each kind, or none. The caller holds mu.
func (one *reading) take(bytes int64) bool {
	for _, room := range one.of.rooms {
		h := room.Hold()
		if h.Grow(bytes) != nil {
			one.free()
			return false
		}
		one.held = append(one.held, h)
	}
	one.bytes = bytes
	return true
}

// free gives room back. The caller holds mu.
func (one *reading) free() {
	for i := range one.held {
		one.held[i].Release()
	}
	one.held, one.bytes = nil, 0
}

// leave ends the reading.
func (one *reading) leave() {
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	delete(one.of.under, one)
	one.free()
	one.end()
}

// wasCut tells whether the place went to somebody else.
func (one *reading) wasCut() bool {
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	return one.cut
}

// cutSlowest cuts off, for another, the reading that began first of those that hold so much
// room; false if none has taken too long. The caller holds mu.
func (g *readings) cutSlowest(of *reading, bytes int64) bool {
	var slowest *reading
	for one := range g.under {
		if one != of && one.bytes >= bytes && (slowest == nil || one.began.Before(slowest.began)) {
			slowest = one
		}
	}
	if slowest == nil || time.Since(slowest.began) < undisturbed {
		return false
	}
	slowest.cut = true
	delete(g.under, slowest)
	slowest.free()
	slowest.stop()
	return true
}

// count is how many read.
func (g *readings) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.under)
}

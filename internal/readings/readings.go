// Package readings bounds the responses that are being sent at the same time: in all, those
// of one client, and the memory that they hold. A response that takes too long is cut off
// where another request would be refused; without that, a few slow clients would keep out
// all others. The hub's change memory and the notifier's documents are read by it.
package readings

import (
	"context"
	"net/http"
	"sync"
	"time"

	"carillon/internal/bodies"
)

// Config holds the bounds of Readings.
type Config struct {
	All, PerClient int           // how many there may be, and how many of one client
	Undisturbed    time.Duration // a reading that takes longer may be cut off for another
	// Rooms is the memory that Hold takes from: a reading holds its bytes in each. Share is how many bytes
	// one client may hold, if that is more than one body. Both are for readings that hold memory.
	Rooms []*bodies.Room
	Share int64
	// Full is the error of a request for which there is no place or memory, ClientFull that
	// of one whose client has all that it may have.
	Full, ClientFull error
}

// Readings are the responses that are being sent. All methods may be called from any goroutine.
type Readings struct {
	cfg Config

	mu    sync.Mutex
	under map[*Reading]struct{} // owned by mu
}

// Reading is one of them.
type Reading struct {
	of     *Readings
	client string
	began  time.Time
	stop   func()        // ends its context, and its writing
	end    func()        // ends its context
	held   []bodies.Held // owned by of.mu
	bytes  int64         // of held. Owned by of.mu
	cut    bool          // owned by of.mu
}

// New returns Readings without any.
func New(cfg Config) *Readings { return &Readings{cfg: cfg, under: map[*Reading]struct{}{}} }

// Enter begins a reading, which Leave ends; if there are too many, it cuts off the slowest.
// The context of the returned request ends when the reading is cut off. PerClient does not
// bound the client "".
func (g *Readings) Enter(client string, w http.ResponseWriter, r *http.Request) (*Reading, *http.Request, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := 0
	for other := range g.under {
		if client != "" && other.client == client {
			own++
		}
	}
	if own >= g.cfg.PerClient {
		return nil, r, g.cfg.ClientFull
	}
	one := &Reading{of: g, client: client, began: time.Now()}
	if len(g.under) >= g.cfg.All && !g.cutSlowest(one, 0) {
		return nil, r, g.cfg.Full
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

// Hold takes memory for a body of so many bytes. If there is too little, it cuts off the
// slowest readings that hold as much. Leave gives the memory back, as does the next Hold.
func (one *Reading) Hold(bytes int64) error {
	g := one.of
	g.mu.Lock()
	defer g.mu.Unlock()
	if one.cut {
		return g.cfg.Full
	}
	one.free()
	own := bytes
	for other := range g.under {
		if other.client == one.client {
			own += other.bytes
		}
	}
	if one.client != "" && own > max(g.cfg.Share, bytes) {
		return g.cfg.ClientFull
	}
	for !one.take(bytes) {
		if !g.cutSlowest(one, min(bytes, bodies.Long)) {
			return g.cfg.Full
		}
	}
	return nil
}

// take takes memory of each room, or none. The caller holds mu.
func (one *Reading) take(bytes int64) bool {
	for _, room := range one.of.cfg.Rooms {
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

// free gives memory back. The caller holds mu.
func (one *Reading) free() {
	for i := range one.held {
		one.held[i].Release()
	}
	one.held, one.bytes = nil, 0
}

// Leave ends the reading.
func (one *Reading) Leave() {
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	delete(one.of.under, one)
	one.free()
	one.end()
}

// WasCut reports whether the reading was cut off for another.
func (one *Reading) WasCut() bool {
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	return one.cut
}

// cutSlowest cuts off, for another, the reading that began first of those that hold so many
// bytes. It reports false if none has taken too long. The caller holds mu.
func (g *Readings) cutSlowest(of *Reading, bytes int64) bool {
	var slowest *Reading
	for one := range g.under {
		if one != of && one.bytes >= bytes && (slowest == nil || one.began.Before(slowest.began)) {
			slowest = one
		}
	}
	if slowest == nil || time.Since(slowest.began) < g.cfg.Undisturbed {
		return false
	}
	slowest.cut = true
	delete(g.under, slowest)
	slowest.free()
	slowest.stop()
	return true
}

// Count returns how many there are.
func (g *Readings) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.under)
}

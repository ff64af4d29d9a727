package mirror

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"carillon/destination/lists"
)

const (
	// failuresInARow is after how many a host is left alone for a time.
	failuresInARow = 5
	// maxPause is how long it is left alone at most, whatever it asks for.
	maxPause = time.Minute
	// patience is how long a pause may last that a fetch waits for; longer ones fail it at once.
	patience = 10 * time.Second
	// maxHosts is of how many it is known how they stand.
	maxHosts = 10_000
)

// hosts are those that are asked.
type hosts struct {
	perHost int
	logger  *slog.Logger

	mu    sync.Mutex
	known map[string]*host // by authority; guarded by mu
}

// host is one of them.
type host struct {
	name   string
	slots  chan struct{}
	logger *slog.Logger

	mu       sync.Mutex
	failures int           // in a row; guarded by mu
	pause    time.Duration // the last one; guarded by mu
	until    time.Time     // when it is asked again; guarded by mu
}

func newHosts(perHost int, logger *slog.Logger) *hosts {
	return &hosts{perHost: perHost, logger: logger, known: map[string]*host{}}
}

// of is the host with the name. Those that nobody asks and that have no trouble are forgotten where
// there are too many.
func (h *hosts) of(name string) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.known[name]
	if one != nil {
		return one
	}
	if len(h.known) >= maxHosts {
		for name, other := range h.known {
			if other.idle() {
				delete(h.known, name)
			}
		}
	}
	one = &host{name: name, slots: make(chan struct{}, h.perHost), logger: h.logger}
	h.known[name] = one
	return one
}

func (h *host) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.slots) == 0 && h.failures == 0 && !time.Now().Before(h.until)
}

// enter waits for a turn, and for the end of a short pause; leave ends the turn. A *trouble where the host is
// left alone for longer.
func (h *host) enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		h.mu.Lock()
		until := h.until
		h.mu.Unlock()
		left := time.Until(until)
		switch {
		case left <= 0:
			return nil
		case left > patience:
			h.leave()
			return &trouble{state: Failed, reason: fmt.Sprintf("its host %.100q is left alone for a time: it failed repeatedly, or asked for it", h.name), after: left}
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			h.leave()
			return ctx.Err()
		}
	}
}

func (h *host) leave() { <-h.slots }

// note takes down how a request has ended.
func (h *host) note(t *trouble) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t == nil || !t.host {
		h.failures, h.pause = 0, 0
		return
	}
	h.failures++
	now := time.Now()
	if now.Before(h.until) && t.after == 0 {
		return // one of several that were under way
	}
	switch {
	case t.after > 0:
		h.pause = min(t.after, maxPause)
	case h.failures < failuresInARow:
		return
	default:
		h.pause = min(max(2*h.pause, time.Second), maxPause)
	}
	h.until = now.Add(h.pause)
	h.logger.Warn("a host is left alone for a time", "host", lists.Cut(h.name), "pause", h.pause, "failures", h.failures, "reason", lists.Cut(t.reason))
}

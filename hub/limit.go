package hub

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// gate bounds what runs at once, for each host and in all. Who waits for a host
// holds no place of the whole, so that a host that hangs holds up itself alone.
type gate struct {
	all     *semaphore.Weighted
	perHost int64

	mu    sync.Mutex
	hosts map[string]*hostGate // those in use or waited for. Owned by mu.
}

type hostGate struct {
	places *semaphore.Weighted
	users  int // who hold a place or wait for one. Owned by gate.mu.
}

func newGate(all, perHost int) *gate {
	return &gate{
		all:     semaphore.NewWeighted(int64(all)),
		perHost: int64(perHost),
		hosts:   make(map[string]*hostGate),
	}
}

// enter waits for a place; leave must be called when it returns nil.
func (g *gate) enter(ctx context.Context, host string) error {
	h := g.use(host)
	if err := h.places.Acquire(ctx, 1); err != nil {
		g.unuse(host)
		return err
	}
	if err := g.all.Acquire(ctx, 1); err != nil {
		h.places.Release(1)
		g.unuse(host)
		return err
	}
	return nil
}

func (g *gate) leave(host string) {
	g.all.Release(1)
	g.mu.Lock()
	h := g.hosts[host]
	g.mu.Unlock()
	h.places.Release(1)
	g.unuse(host)
}

func (g *gate) use(host string) *hostGate {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hosts[host]
	if h == nil {
		h = &hostGate{places: semaphore.NewWeighted(g.perHost)}
		g.hosts[host] = h
	}
	h.users++
	return h
}

func (g *gate) unuse(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.hosts[host]; h.users > 1 {
		h.users--
	} else {
		delete(g.hosts, host)
	}
}

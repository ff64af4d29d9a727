package hub

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// gate bounds what runs at once, for each site and in all. Who waits for a site
// holds no place of the whole, and who takes long gives that place back and goes on
// beside the others, as far as those are not too many: sites that hang hold up
// themselves.
type gate struct {
	all       *semaphore.Weighted
	slow      *semaphore.Weighted
	slowAfter time.Duration
	perSite   int64

	mu    sync.Mutex
	sites map[string]*siteGate // those in use or waited for. Owned by mu.
}

type siteGate struct {
	places *semaphore.Weighted
	users  int // who hold a place or wait for one. Owned by gate.mu.
}

func newGate(all, perSite, slow int, slowAfter time.Duration) *gate {
	return &gate{
		all:       semaphore.NewWeighted(int64(all)),
		slow:      semaphore.NewWeighted(int64(slow)),
		slowAfter: slowAfter,
		perSite:   int64(perSite),
		sites:     make(map[string]*siteGate),
	}
}

// enter waits for a place, which leave gives back.
func (g *gate) enter(ctx context.Context, site string) (leave func(), err error) {
	s := g.use(site)
	if err := s.places.Acquire(ctx, 1); err != nil {
		g.unuse(site)
		return nil, err
	}
	if err := g.all.Acquire(ctx, 1); err != nil {
		s.places.Release(1)
		g.unuse(site)
		return nil, err
	}
	p := g.hold()
	return func() {
		p.leave()
		s.places.Release(1)
		g.unuse(site)
	}, nil
}

// place is one that somebody holds.
type place struct {
	gate *gate

	mu         sync.Mutex
	turn       *time.Timer // calls goSlow. Owned by mu: it may fire before it is noted here
	slow, left bool        // owned by mu
}

// hold makes a place of one of all, which the caller has.
func (g *gate) hold() *place {
	p := &place{gate: g}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = time.AfterFunc(g.slowAfter, p.goSlow)
	return p
}

// goSlow gives the place back for one beside the others, now or later.
func (p *place) goSlow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.left:
	case p.gate.slow.TryAcquire(1):
		p.slow = true
		p.gate.all.Release(1)
	default:
		p.turn.Reset(p.gate.slowAfter)
	}
}

func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	p.turn.Stop()
	if p.slow {
		p.gate.slow.Release(1)
	} else {
		p.gate.all.Release(1)
	}
}

func (g *gate) use(site string) *siteGate {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sites[site]
	if s == nil {
		s = &siteGate{places: semaphore.NewWeighted(g.perSite)}
		g.sites[site] = s
	}
	s.users++
	return s
}

func (g *gate) unuse(site string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sites[site]; s.users > 1 {
		s.users--
	} else {
		delete(g.sites, site)
	}
}

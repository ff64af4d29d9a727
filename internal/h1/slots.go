package h1

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// Handshakes that have begun share the slots. Only as many begin as can compute within an eighth
// of the time limit, so that none times out. A handshake that has waited for the network for
// that eighth does not count: its host may be dead.
const (
	begunPart = 8
	// firstCost is the estimate of slots.cost until a handshake has been measured.
	firstCost = 5 * time.Millisecond
	// maxCost bounds how much one host can raise slots.cost: its sample counts as so many times
	// the average at most.
	maxCost = 4
)

// slots are the rights to compute that handshakes share, one for each processor. clock.mu
// guards them.
type slots struct {
	clock       *clock
	total, free int
	limit       time.Duration // of a handshake
	begun       int           // handshakes under way that count
	waiting     []absence     // handshakes that wait for the network, oldest first
	cost        time.Duration // processor time of a handshake: a moving average
	ready       []*slot       // of handshakes under way that can go on, oldest first
}

func newSlots(k *clock, limit time.Duration) slots {
	n := runtime.GOMAXPROCS(0)
	return slots{clock: k, total: n, free: n, limit: limit, cost: firstCost}
}

// absence records that a handshake gave its slot back at a time, to wait for the network. It is
// out of date once the handshake has gone on or ended.
type absence struct {
	of    *slot
	since time.Duration
}

// grace returns how long a handshake may wait for the network and still count.
func (p *slots) grace() time.Duration { return p.limit / begunPart }

// forget stops counting the handshakes that have waited for the network for too long.
func (p *slots) forget(now time.Duration) {
	for len(p.waiting) > 0 {
		a := p.waiting[0]
		current := a.of.left == a.since && !a.of.held
		if current && a.of.waited+now-a.since < p.grace() {
			return
		}
		if current && a.of.counts {
			a.of.counts = false
			p.begun--
		}
		p.waiting[0], p.waiting = absence{}, p.waiting[1:]
	}
}

// full reports whether no further handshake may begin.
func (p *slots) full() bool { return p.begun >= max(1, int(p.grace()/p.cost))*p.total }

// take holds a free slot. mu is held.
func (p *slots) take(s *slot) {
	p.free--
	s.held, s.since = true, p.clock.elapsed()
	if s.left == 0 { // it begins
		s.counts = true
		p.begun++
	}
}

// give frees a slot, if it is held. mu is held.
func (p *slots) give(s *slot) {
	if s.held {
		s.held, s.left = false, p.clock.elapsed()
		s.spent += s.left - s.since
		p.free++
		p.waiting = append(p.waiting, absence{s, s.left})
	}
}

// acquire waits for a slot for a handshake that can go on, unless it holds one. Its error is the
// cause of the context's end.
func (p *slots) acquire(ctx context.Context, s *slot) error {
	if s == nil {
		return nil
	}
	p.clock.mu.Lock()
	if !s.held {
		s.waited += p.clock.elapsed() - s.left
		s.left = never
	}
	if s.held || len(p.ready) == 0 && p.free > 0 {
		if !s.held {
			p.take(s)
		}
		p.clock.mu.Unlock()
		return nil
	}
	p.ready = append(p.ready, s)
	p.clock.mu.Unlock()
	select {
	case <-s.got:
		return nil
	case <-ctx.Done():
	}
	p.clock.mu.Lock()
	if i := slices.Index(p.ready, s); i >= 0 {
		p.ready = slices.Delete(p.ready, i, i+1)
	} else {
		<-s.got // else the next acquire would take this word for its own
	}
	p.clock.mu.Unlock()
	return context.Cause(ctx) // finish frees a slot that came at the last moment
}

package egress

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
)

const (
	// waitingPerPlace is how many questions may wait in line for each place, half
	// of them about the names of one registered domain; what comes on top is refused
	// at once. With 512 places a domain has a line of 5,120: the questions of all
	// deliveries that a hub has under way, slow ones too.
	waitingPerPlace = 20
	// soon is what an answer may take for its domain to have one place more.
	soon = 500 * time.Millisecond
	// crowdedTimeout is what a question gets while more than half of the places
	// are taken: who is slow on purpose holds them for so long only.
	crowdedTimeout = time.Second
)

// Why a question is not asked.
var (
	errTooMany = errors.New("too many questions wait for the name servers")
	errNoTurn  = errors.New("too many questions to the name servers are under way")
)

// places bounds the questions under way, in all and for each registered domain,
// so that a domain which does not answer stands in nobody's way but its own. One
// that answers soon gets room for one more with each answer, up to half of all
// places; what is slow halves that again. Who finds no place waits in the line of
// its domain, and the domains take turns.
type places struct {
	all, perDomain int

	mu      sync.Mutex
	taken   int                // questions under way
	waiting int                // in all lines
	domains map[string]*domain // those with a question under way or waiting
	turns   []*domain          // those that could take a place, the next one first
}

// domain is what a registered domain has of the places; places.mu guards it.
type domain struct {
	name  string
	room  int // how many it may take
	taken int
	line  []*waiter // the next one first
	turn  bool      // it is among places.turns
}

// waiter is a question that has no place yet.
type waiter struct{ called chan struct{} }

func newPlaces(all, perDomain int) *places {
	return &places{all: all, perDomain: perDomain, domains: map[string]*domain{}}
}

// take waits for a place until the context ends. Who gets one must release it.
func (p *places) take(ctx context.Context, name string) (release func(), err error) {
	d, w, err := p.enter(registeredDomain(name))
	if err != nil {
		return nil, err
	}
	select {
	case <-w.called:
	case <-ctx.Done():
		if p.leave(d, w) {
			return nil, errNoTurn
		}
		// It was called at the same moment.
	}
	began := time.Now()
	return func() { p.release(d, time.Since(began) <= soon) }, nil
}

// enter puts a question in the line of its domain.
func (p *places) enter(registered string) (*domain, *waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.domains[registered]
	if !ok {
		d = &domain{name: registered, room: p.perDomain}
	}
	if most := waitingPerPlace * p.all; p.waiting >= most || len(d.line) >= most/2 {
		return nil, nil, errTooMany
	}
	w := &waiter{called: make(chan struct{})}
	p.domains[registered] = d
	d.line = append(d.line, w)
	p.waiting++
	p.call(d)
	return d, w, nil
}

// leave takes a question out of the line, unless it was called.
func (p *places) leave(d *domain, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(d.line, w)
	if i < 0 {
		return false
	}
	d.line = slices.Delete(d.line, i, i+1)
	p.waiting--
	p.forget(d)
	return true
}

// release gives a place back.
func (p *places) release(d *domain, wasSoon bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wasSoon {
		d.room = min(d.room+1, max(p.perDomain, p.all/2))
	} else {
		d.room = max(d.room/2, p.perDomain)
	}
	d.taken--
	p.taken--
	p.call(d)
	p.forget(d)
}

// call gives the places that are free to those whose turn it is, of whom d may be
// a new one; p.mu is held.
func (p *places) call(d *domain) {
	p.queue(d)
	for p.taken < p.all && len(p.turns) > 0 {
		next := p.turns[0]
		p.turns = p.turns[1:]
		next.turn = false
		if len(next.line) == 0 || next.taken >= next.room {
			continue // it was so when it was queued
		}
		close(next.line[0].called)
		next.line = next.line[1:]
		p.waiting--
		next.taken++
		p.taken++
		p.queue(next)
	}
}

// queue has a domain wait for its turn if it has use for one; p.mu is held.
func (p *places) queue(d *domain) {
	if !d.turn && len(d.line) > 0 && d.taken < d.room {
		d.turn = true
		p.turns = append(p.turns, d)
	}
}

// forget drops a domain that nobody asks about; p.mu is held.
func (p *places) forget(d *domain) {
	if d.taken > 0 || len(d.line) > 0 {
		return
	}
	delete(p.domains, d.name)
	if d.turn {
		i := slices.Index(p.turns, d)
		p.turns = slices.Delete(p.turns, i, i+1)
	}
}

// crowded tells whether more than half of the places are taken.
func (p *places) crowded() bool { return p.underWay() > p.all/2 }

// underWay is the number of places that are taken.
func (p *places) underWay() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// registeredDomain is the part of a name that one owner registered. Its name
// servers answer for all names below.
func registeredDomain(name string) string {
	name = strings.TrimSuffix(name, ".")
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}

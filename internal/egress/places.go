package egress

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
)

const (
	// waitingPerPlace is how many questions may wait for each place, of a domain
	// and in all. What comes on top is refused at once.
	waitingPerPlace = 16
	// crowdedTimeout is what a question gets while more than half of the places
	// are taken: who is slow on purpose holds them for so long only.
	crowdedTimeout = time.Second
)

// Why a question is not asked.
var (
	errTooMany = errors.New("too many questions wait for the name servers")
	errNoTurn  = errors.New("too many questions to the name servers are under way")
)

// places bounds the questions under way, in all and for each registered domain.
// A question takes a place of its domain first, so that a domain which does not
// answer stands in nobody's way but its own.
type places struct {
	perDomain int
	taken     chan struct{} // one for each question under way

	mu      sync.Mutex
	domains map[string]*domain // those with a question
	all     int                // questions under way or waiting
}

// domain holds the places of one registered domain.
type domain struct {
	taken chan struct{}
	users int // under way or waiting; places.mu
}

func newPlaces(all, perDomain int) *places {
	return &places{
		perDomain: perDomain,
		taken:     make(chan struct{}, all),
		domains:   map[string]*domain{},
	}
}

// take waits for a place until the context ends. Who gets one must release it.
func (p *places) take(ctx context.Context, name string) (release func(), err error) {
	registered := registeredDomain(name)
	d, err := p.enter(registered)
	if err != nil {
		return nil, err
	}
	select {
	case d.taken <- struct{}{}:
	case <-ctx.Done():
		p.leave(registered, d)
		return nil, errNoTurn
	}
	select {
	case p.taken <- struct{}{}:
	case <-ctx.Done():
		<-d.taken
		p.leave(registered, d)
		return nil, errNoTurn
	}
	return func() {
		<-p.taken
		<-d.taken
		p.leave(registered, d)
	}, nil
}

func (p *places) enter(registered string) (*domain, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.domains[registered]
	if !ok {
		d = &domain{taken: make(chan struct{}, p.perDomain)}
	}
	if p.all >= (1+waitingPerPlace)*cap(p.taken) || d.users >= (1+waitingPerPlace)*p.perDomain {
		return nil, errTooMany
	}
	p.domains[registered] = d
	d.users++
	p.all++
	return d, nil
}

func (p *places) leave(registered string, d *domain) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	d.users--
	if d.users == 0 {
		delete(p.domains, registered)
	}
}

// crowded tells whether more than half of the places are taken.
func (p *places) crowded() bool { return len(p.taken) > cap(p.taken)/2 }

// underWay is the number of places that are taken.
func (p *places) underWay() int { return len(p.taken) }

// registeredDomain is the part of a name that one owner registered. Its name
// servers answer for all names below.
func registeredDomain(name string) string {
	name = strings.TrimSuffix(name, ".")
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}

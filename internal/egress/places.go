package egress

import (
	"context"
	"errors"
	"time"

	"carillon/internal/turns"
	"carillon/topic"
)

const (
	// waitingPerPlace is how many questions may wait in line for each place, half of them about the names
	// of one registered domain; further ones are refused at once. With 512 places a domain has a line of
	// 5,120: the questions of all deliveries that a hub has under way, slow ones too.
	waitingPerPlace = 20
	// soon is what an answer may take for its domain to have one place more.
	soon = 500 * time.Millisecond
	// crowdedTimeout is the time of a question while more than half of the places are taken: a slow name
	// server holds them for so long only.
	crowdedTimeout = time.Second
)

// Why a question is not asked.
var (
	errTooMany = errors.New("too many questions wait for the name servers")
	errNoTurn  = errors.New("too many questions to the name servers are under way")
)

// places bounds the questions under way, in all and for each registered domain, so that a domain which
// does not answer holds up only itself. A domain that answers soon gets room for one more with each
// answer, up to half of all places; a slow answer halves that again. A question that finds no place
// waits in the line of its domain, and the domains take turns.
type places struct {
	all, perDomain int
	gate           *turns.Gate
}

func newPlaces(all, perDomain int) *places {
	most := waitingPerPlace * all
	return &places{all: all, perDomain: perDomain, gate: turns.NewGate(turns.GateConfig{
		Config:     turns.Config[string]{Slots: all, PerPeer: perDomain},
		MaxWaiting: most, MaxWaitingPerPeer: most / 2,
	})}
}

// take waits for a place until the context ends. The caller that gets one releases it.
func (p *places) take(ctx context.Context, name string) (release func(), err error) {
	pass, err := p.gate.Enter(ctx, topic.Domain(name))
	switch {
	case errors.Is(err, turns.ErrFull):
		return nil, errTooMany
	case err != nil:
		return nil, errNoTurn
	}
	began := time.Now()
	return func() { pass.LeaveLimit(func(room int) int { return p.roomAfter(room, time.Since(began)) }) }, nil
}

// roomAfter returns how many places a domain may take after an answer that took so long.
func (p *places) roomAfter(room int, took time.Duration) int {
	if took <= soon {
		return min(room+1, max(p.perDomain, p.all/2))
	}
	return max(room/2, p.perDomain)
}

// crowded reports whether more than half of the places are taken.
func (p *places) crowded() bool { return p.underWay() > p.all/2 }

// underWay is the number of places that are taken.
func (p *places) underWay() int { return p.gate.Inside() }

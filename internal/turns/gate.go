package turns

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull: as many wait as a Gate allows, in all or for the peer.
var ErrFull = errors.New("too many wait")

// GateConfig holds the bounds of a Gate.
type GateConfig struct {
	Config[string]
	// MaxWaiting is how many may wait, and MaxWaitingPerPeer how many for one peer; 0: any
	// number.
	MaxWaiting, MaxWaitingPerPeer int
}

// Gate bounds how many goroutines do something at once, for each peer and in all, and lets
// peers take turns. Its methods may be called from any goroutine.
type Gate struct {
	cfg GateConfig

	mu    sync.Mutex
	queue *Queue[string, chan struct{}] // the channel is closed when it is the ticket's turn. Owned by mu.
	timer *time.Timer                   // calls tick when the queue asks for it. Owned by mu.
}

// NewGate returns an empty Gate.
func NewGate(cfg GateConfig) *Gate {
	return &Gate{cfg: cfg, queue: NewQueue[string, chan struct{}](cfg.Config)}
}

// Pass is a held slot of a Gate. It belongs to one goroutine.
type Pass struct {
	gate   *Gate
	ticket *Ticket[string, chan struct{}]
}

// Enter waits for a slot until ctx ends. With a slot, the caller calls Leave or LeaveLimit, once. It
// returns ErrFull where too many wait, and the error of ctx where that ended first.
func (g *Gate) Enter(ctx context.Context, peer string) (*Pass, error) {
	t, err := g.push(peer)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.Value:
		return &Pass{g, t}, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-t.Value: // it was called at the same moment
		return &Pass{g, t}, nil
	default:
		g.queue.Remove(t)
		return nil, ctx.Err()
	}
}

func (g *Gate) push(peer string) (*Ticket[string, chan struct{}], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.queue.Lane(peer); full(g.queue.Waiting(), g.cfg.MaxWaiting) ||
		l != nil && full(l.Waiting(), g.cfg.MaxWaitingPerPeer) {
		return nil, ErrFull
	}
	t := g.queue.Push(peer, Fresh, make(chan struct{}))
	g.call()
	return t, nil
}

func full(waiting, most int) bool { return most > 0 && waiting >= most }

// Leave gives the slot back.
func (p *Pass) Leave() { p.LeaveLimit(nil) }

// LeaveLimit gives the slot back, and changes how many of its peer may enter, unless change is nil.
// That counts while a slot of the peer is held or awaited.
func (p *Pass) LeaveLimit(change func(limit int) int) {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := p.ticket.Lane(); change != nil {
		g.queue.SetLimit(l, change(l.Limit))
	}
	g.queue.Done(p.ticket)
	g.call()
}

// Inside returns how many hold a slot.
func (g *Gate) Inside() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queue.AtWork()
}

// tick is called when one may have become slow.
func (g *Gate) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.call()
}

// call lets in whose turn it is. The caller holds mu.
func (g *Gate) call() {
	now := time.Now()
	g.queue.Tick(now)
	for t := g.queue.Next(now); t != nil; t = g.queue.Next(now) {
		close(t.Value)
	}
	switch at, ok := g.queue.Wake(); {
	case ok && g.timer == nil:
		g.timer = time.AfterFunc(at.Sub(now), g.tick)
	case ok:
		g.timer.Reset(at.Sub(now))
	case g.timer != nil:
		g.timer.Stop()
	}
}

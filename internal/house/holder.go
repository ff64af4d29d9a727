package house

import (
	"context"
	"sync"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// worker is a room that works on the shards that this process owns.
type worker struct {
	gained func(ctx context.Context, t delivery.Tenure) error
	lost   func(s subscription.Shard)
}

// workers are the rooms in the order in which they take over. Requests are read
// before the subscriptions: a former owner who still settles one is then met by
// this one, or has done so before the deliveries are loaded. They end in the
// reverse order.
func (h *House) workers() []worker {
	return []worker{
		{func(ctx context.Context, t delivery.Tenure) error { return h.service.Gained(ctx, t.Shard) }, h.service.Lost},
		{h.dispatcher.Gained, h.dispatcher.Lost},
		{func(ctx context.Context, t delivery.Tenure) error { return h.hub.Gained(ctx, t.Shard) }, h.hub.Lost},
	}
}

// holder hands each shard to every worker, in order, and takes it back in the
// reverse order from those that had begun on it.
type holder struct {
	workers []worker
	// Surety is what the engine sets, and what every worker goes by.
	*subscription.Surety

	mu     sync.Mutex
	shards [subscription.Shards]takeoverState
}

// takeoverState is how far a shard is taken over.
type takeoverState struct {
	begun int // workers that were asked to begin, one that failed included
	held  bool
}

var _ delivery.Holder = (*holder)(nil)

// Gained has every worker begin. Where one fails those after it are not asked;
// Lost undoes what was begun.
func (h *holder) Gained(ctx context.Context, t delivery.Tenure) error {
	for i, w := range h.workers {
		h.set(t.Shard, takeoverState{begun: i + 1})
		if err := w.gained(ctx, t); err != nil {
			return err
		}
	}
	h.set(t.Shard, takeoverState{begun: len(h.workers), held: true})
	return nil
}

// Lost ends the work of every worker that had begun.
func (h *holder) Lost(s subscription.Shard) {
	for n := h.set(s, takeoverState{}).begun; n > 0; n-- {
		h.workers[n-1].lost(s)
	}
}

// set notes how far the shard is taken over, and returns how far it was.
func (h *holder) set(s subscription.Shard, now takeoverState) (before takeoverState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.shards[s] = h.shards[s], now
	return before
}

// counts returns how many shards are held, every worker having begun, and until when
// they are surely this process's, zero if that was never set.
func (h *holder) counts() (held int, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.shards {
		if s.held {
			held++
		}
	}
	return held, h.Latest()
}

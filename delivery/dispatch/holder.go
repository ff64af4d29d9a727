package dispatch

import (
	"context"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// holder takes shards and gives them up, and takes in the outcome of their subscriptions.
type holder struct {
	*base
	table    *table
	ledger   *ledger
	schedule *schedule
	saver    *saver
	cursors  delivery.Cursors

	// Guarded by table.mu.
	patience   time.Time     // until when slow attempts of lost shards are waited for
	saveTime   time.Duration // time left for the saves of lost shards
	handedOver time.Time     // the end of the latest Lost
}

// Activated reports a subscription that became active or was renewed. A
// renewal keeps its position. It is ignored where another process owns the shard.
func (h *holder) Activated(sub subscription.Subscription) {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	switch sh := h.table.shards[subscription.ShardOf(sub.ID)]; {
	case sh == nil:
	case sh.loading:
		sh.pending[sub.ID] = &sub
	default:
		h.upsert(sh, sub)
		h.kick()
	}
}

// Ended removes a subscription that has ended. An attempt under way is not broken off.
func (h *holder) Ended(id subscription.ID) {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	switch sh := h.table.shards[subscription.ShardOf(id)]; {
	case sh == nil:
	case sh.loading:
		sh.pending[id] = nil
	default:
		h.table.remove(sh, id)
	}
}

// upsert takes in a subscription, or what a renewal changed of it. mu is held.
func (h *holder) upsert(sh *shardTable, sub subscription.Subscription) {
	e := sh.entries.get(sub.ID)
	if e == nil {
		e = h.table.insert(sh, sub)
	} else {
		h.table.secrets.fill(e, sub)
	}
	if e.state == idle {
		h.schedule.place(e, h.now())
	}
}

// Several processes may share an engine. Their messages to each other arrive here.

// Lost gives up a shard. No attempt of it starts any more; those under way are
// waited for, within Config.HandoverTimeout, and what is not saved yet is saved
// if the engine still takes it under the old epoch. Other shards go on
// meanwhile.
func (h *holder) Lost(s subscription.Shard) {
	sh, wait := h.leave(s)
	if sh == nil {
		return
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-sh.landed:
	case <-limit.C:
	}
	h.handOver(sh)
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	h.handedOver = time.Now()
}

// leave has no attempt of a shard start any more, and says how long to wait for
// those under way. It returns nil for a shard that is not held.
func (h *holder) leave(s subscription.Shard) (sh *shardTable, wait time.Duration) {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	if int(s) >= len(h.table.shards) || h.table.shards[s] == nil || h.table.shards[s].leaving {
		return nil, 0
	}
	sh = h.table.shards[s]
	sh.leaving, sh.landed = true, make(chan struct{})
	if sh.flying == 0 {
		close(sh.landed)
	}
	now := time.Now()
	if now.Sub(h.handedOver) > h.cfg.HandoverTimeout {
		// The first one of a row.
		h.patience, h.saveTime = now.Add(h.cfg.HandoverTimeout), h.cfg.HandoverTimeout
	}
	return sh, min(max(h.patience.Sub(now), h.cfg.SlowAfter), h.cfg.HandoverTimeout)
}

// handOver saves what is unsaved of a shard, and drops it.
func (h *holder) handOver(sh *shardTable) {
	h.table.mu.Lock()
	left := h.saveTime
	h.table.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	begun := time.Now()
	defer func() {
		h.table.mu.Lock()
		defer h.table.mu.Unlock()
		h.saveTime -= time.Since(begun)
	}()
	err := ctx.Err() // the shards before this one have used up the time of the row
	of := healthy
	for held := false; !held && err == nil; {
		select {
		case h.saver.saving[of] <- struct{}{}:
		case <-ctx.Done():
			err = ctx.Err() // or the Save before is under way yet: none can follow
			continue
		}
		h.table.mu.Lock()
		now := sh.group()
		h.table.mu.Unlock()
		if held = now == of; !held {
			<-h.saver.saving[of]
			of = now
		}
	}
	if err == nil {
		defer func() { <-h.saver.saving[of] }()
	}
	h.table.mu.Lock()
	s := sh.tenure.Shard
	if !h.table.stays(sh) {
		h.table.mu.Unlock()
		return // fenced meanwhile
	}
	last, _ := sh.batch() // and whatever of it is in doubt counts no more
	underWay := sh.flying
	h.ledger.drop(s)
	h.metrics.lost.WithLabelValues(lostHandedOver).Inc()
	h.table.mu.Unlock()
	if underWay > 0 {
		h.log.Info("a shard was lost with attempts under way: what they deliver may come twice",
			"shard", s, "attempts", underWay)
	}
	if err == nil {
		if len(last.Advances)+len(last.Gaps) == 0 {
			return
		}
		err = h.cursors.Save(ctx, []delivery.Batch{last})
	}
	if err != nil {
		h.log.Warn("a shard was lost with positions not saved: some deliveries will come twice",
			"shard", s, "positions", len(last.Advances), "error", err)
	}
}

// assured has those entries go on that were passed over as their shard was doubted, where it
// no longer is. Config.Surety calls it.
func (h *holder) assured() {
	for _, sh := range h.passedOver() {
		h.schedule.resume(sh)
	}
	h.kick()
}

// passedOver returns the shards of which entries were passed over, and that are surely this
// process's now.
func (h *holder) passedOver() (passed []*shardTable) {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	now := time.Now()
	for _, sh := range h.table.shards {
		if sh != nil && sh.unsure && h.schedule.sure.Of(sh.tenure.Shard, now) {
			sh.unsure = false
			passed = append(passed, sh)
		}
	}
	return passed
}

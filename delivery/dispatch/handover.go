package dispatch

import (
	"context"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// Several processes may share an engine. What they tell each other arrives here.

// Lost gives up a shard. No attempt of it starts any more; those under way are
// waited for, within Config.HandoverTimeout, and what is not saved yet is saved
// if the engine still takes it under the old epoch. Other shards go on
// meanwhile.
func (d *Dispatcher) Lost(s subscription.Shard) {
	sh, wait := d.leave(s)
	if sh == nil {
		return
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-sh.landed:
	case <-limit.C:
	}
	d.handOver(sh)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handedOver = time.Now()
}

// leave has no attempt of a shard start any more, and says how long to wait for
// those under way. It returns nil for a shard that is not held.
func (d *Dispatcher) leave(s subscription.Shard) (sh *shardTable, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if int(s) >= len(d.shards) || d.shards[s] == nil || d.shards[s].leaving {
		return nil, 0
	}
	sh = d.shards[s]
	sh.leaving, sh.landed = true, make(chan struct{})
	if sh.flying == 0 {
		close(sh.landed)
	}
	now := time.Now()
	if now.Sub(d.handedOver) > d.cfg.HandoverTimeout {
		// The first one of a row.
		d.patience, d.saveTime = now.Add(d.cfg.HandoverTimeout), d.cfg.HandoverTimeout
	}
	return sh, min(max(d.patience.Sub(now), d.cfg.SlowAfter), d.cfg.HandoverTimeout)
}

// handOver saves what is unsaved of a shard, and drops it.
func (d *Dispatcher) handOver(sh *shardTable) {
	d.mu.Lock()
	left := d.saveTime
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	begun := time.Now()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.saveTime -= time.Since(begun)
	}()
	err := ctx.Err() // the shards before this one have used up the time of the row
	of := healthy
	for held := false; !held && err == nil; {
		select {
		case d.saving[of] <- struct{}{}:
		case <-ctx.Done():
			err = ctx.Err() // or the Save before is under way yet: none can follow
			continue
		}
		d.mu.Lock()
		now := sh.group()
		d.mu.Unlock()
		if held = now == of; !held {
			<-d.saving[of]
			of = now
		}
	}
	if err == nil {
		defer func() { <-d.saving[of] }()
	}
	d.mu.Lock()
	s := sh.tenure.Shard
	if !d.stays(sh) {
		d.mu.Unlock()
		return // fenced meanwhile
	}
	last, _ := sh.batch() // and whatever of it is in doubt counts no more
	underWay := sh.flying
	d.drop(s)
	d.metrics.lost.WithLabelValues(lostHandedOver).Inc()
	d.mu.Unlock()
	if underWay > 0 {
		d.log.Info("a shard was lost with attempts under way: what they deliver may come twice",
			"shard", s, "attempts", underWay)
	}
	if err == nil {
		if len(last.Advances)+len(last.Gaps) == 0 {
			return
		}
		err = d.cursors.Save(ctx, []delivery.Batch{last})
	}
	if err != nil {
		d.log.Warn("a shard was lost with positions not saved: some deliveries will come twice",
			"shard", s, "positions", len(last.Advances), "error", err)
	}
}

// assured has those entries go on that were passed over as their shard was doubted, where it
// no longer is. Config.Surety calls it.
func (d *Dispatcher) assured() {
	for _, sh := range d.passedOver() {
		d.resume(sh)
	}
	d.kick()
}

// passedOver returns the shards of which entries were passed over, and that are surely this
// process's now.
func (d *Dispatcher) passedOver() (passed []*shardTable) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for _, sh := range d.shards {
		if sh != nil && sh.unsure && d.sure.Of(sh.tenure.Shard, now) {
			sh.unsure = false
			passed = append(passed, sh)
		}
	}
	return passed
}

// Published tells that another process has appended to a topic's log, up to head.
func (d *Dispatcher) Published(topic string, head delivery.Seq) { d.advance(topic, head, nil) }

// Refresh has the heads of all topics read again: something may have been
// published by another process and not been told of.
func (d *Dispatcher) Refresh() {
	d.eachTopic(d.enlist)
	signal(d.asked)
}

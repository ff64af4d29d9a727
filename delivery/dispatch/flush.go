package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/internal/await"
	"carillon/subscription"
)

// changed notes that an entry's position is to be saved. mu is held.
func (d *Dispatcher) changed(sh *shardTable, e *entry) {
	if !e.dirty {
		e.dirty = true
		sh.dirty = append(sh.dirty, e)
	}
	sh.unsaved++
	if sh.away {
		signal(d.awaySoon)
		return
	}
	d.unsaved++
	signal(d.flushSoon)
	if d.unsaved >= d.cfg.FlushCount/2 {
		signal(d.flushNow)
	}
}

// batch takes what is to be saved of a shard, and of how many outcomes it came. mu
// is held.
func (sh *shardTable) batch() (b delivery.Batch, outcomes int) {
	b, outcomes = delivery.Batch{Tenure: sh.tenure, Gaps: sh.current(sh.gaps)}, sh.unsaved
	if len(sh.dirty) > 0 {
		b.Advances = make([]delivery.Advance, 0, len(sh.dirty))
	}
	for _, e := range sh.dirty {
		e.dirty = false
		if e.state != ended {
			b.Advances = append(b.Advances, delivery.Advance{Subscription: e.id, Position: e.position()})
		}
	}
	clear(sh.dirty)
	sh.dirty, sh.gaps = sh.dirty[:0], nil
	if cap(sh.dirty) > dirtyKept {
		sh.dirty = nil
	}
	return b, outcomes
}

// current returns the gaps of subscriptions that still stand. One that has ended takes its gaps
// along: the next subscription with the same ID starts behind them. mu is held.
func (sh *shardTable) current(gaps []delivery.Gap) []delivery.Gap {
	isOver := func(g delivery.Gap) bool {
		e := sh.entries.get(g.Subscription)
		return e == nil || g.First <= e.start
	}
	if !slices.ContainsFunc(gaps, isOver) {
		return gaps
	}
	return slices.DeleteFunc(slices.Clone(gaps), isOver) // others read the list as it was
}

// dirtyKept is how long a list of changes may stay allocated between two saves.
const dirtyKept = 4096

// flushLoop saves positions, many at a time, until ctx ends. A Save that is
// under way then goes on while saves stands.
func (d *Dispatcher) flushLoop(ctx, saves context.Context) {
	interval := time.NewTimer(d.cfg.FlushInterval)
	defer interval.Stop()
	pause := enginePause()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.flushSoon:
		}
		interval.Reset(d.cfg.FlushInterval)
		select {
		case <-ctx.Done():
			return
		case <-d.flushNow:
		case <-interval.C:
		}
		for err := d.flush(saves); err != nil; err = d.flush(saves) {
			if ctx.Err() != nil {
				return
			}
			if d.saves.failure() {
				d.log.Error("positions could not be saved; deliveries pause until they are", "error", err)
			}
			if await.For(ctx, pause.NextBackOff()) != nil {
				return
			}
		}
		pause.Reset()
		if ends, failed, took := d.saves.over(); ends {
			d.log.Info("positions are saved again", "failed", failed, "after", took)
		}
	}
}

// group is what keeps the saves of shards apart that are sidelined, as the part of the engine
// that keeps them is away: a Save of theirs may take long.
type group int

const (
	healthy group = iota
	sidelined
	groups
)

// group is the one of a shard. mu is held.
func (sh *shardTable) group() group {
	if sh.away {
		return sidelined
	}
	return healthy
}

// flush saves what has changed, of all shards in one call. While that fails no
// attempt starts, so that what would come twice after a crash stays bounded. Where only
// some shards cannot be saved, it is theirs alone that do not start.
func (d *Dispatcher) flush(ctx context.Context) error { return d.save(ctx, healthy) }

// save saves what has changed of the shards of a group. It is an error where healthy ones could
// not be saved for another reason than that a part of the engine is away; and where a
// sidelined one could not be saved.
func (d *Dispatcher) save(ctx context.Context, of group) error {
	d.saving[of] <- struct{}{}
	defer func() { <-d.saving[of] }()
	all := d.collect(of)
	var batches []delivery.Batch
	for _, c := range all {
		if of == sidelined || len(c.batch.Advances)+len(c.batch.Gaps) > 0 {
			batches = append(batches, c.batch)
		}
	}
	var err error
	if len(batches) > 0 {
		saveCtx, cancel := context.WithTimeout(ctx, engineTimeout)
		err = d.cursors.Save(saveCtx, batches)
		cancel()
	}
	back, err := d.saved(of, all, err)
	if err == nil && len(batches) > 0 {
		d.metrics.flushes.Inc()
	}
	for _, sh := range back {
		d.resume(sh)
	}
	d.kick() // room for more
	return err
}

// saved goes on after a Save that ended with err. It returns the shards whose deliveries may go
// on again, and what save returns.
func (d *Dispatcher) saved(of group, all []collected, err error) (back []*shardTable, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fenced := (*delivery.FencedError)(nil); errors.As(err, &fenced) && len(fenced.Shards) > 0 {
		d.fenced(all, fenced.Shards)
		if !errors.Is(err, delivery.ErrPartAway) {
			err = nil // the other batches are written
		}
	}
	missed, err := d.missed(of, all, err)
	if of == healthy {
		d.saveFailing = err != nil
	}
	if len(missed) > 0 {
		d.metrics.failures.Inc()
		d.restore(missed)
	}
	for _, c := range all {
		if slices.ContainsFunc(missed, func(m collected) bool { return m.sh == c.sh }) {
			continue
		}
		if d.settled(c) {
			back = append(back, c.sh)
		}
	}
	return back, err
}

// missed returns what may not be written, after a Save that ended with err. Shards
// that an absent part of the engine keeps are sidelined, and the healthy ones get no error. mu is
// held.
func (d *Dispatcher) missed(of group, all []collected, err error) (missed []collected, _ error) {
	part := (*delivery.SaveError)(nil)
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &part):
		return all, err
	}
	for _, c := range all {
		if slices.Contains(part.Shards, c.sh.tenure.Shard) {
			missed = append(missed, c)
		}
	}
	if of == sidelined {
		return missed, err
	}
	if d.parts.failure() {
		d.log.Error("positions of some shards could not be saved; the deliveries of these pause until they are",
			"shards", len(missed), "error", err)
	}
	for _, c := range missed {
		if d.stays(c.sh) {
			d.sideline(c.sh)
		}
	}
	return missed, nil
}

// settled counts the outcomes of a shard as saved, and reports whether its deliveries may go on
// again as it was sidelined. mu is held.
func (d *Dispatcher) settled(c collected) (back bool) {
	c.sh.saving = nil
	c.sh.unsaved -= c.outcomes
	switch {
	case !d.stays(c.sh): // they went with the shard
		return false
	case c.sh.away:
		d.reinstate(c.sh)
		return true
	default:
		d.unsaved -= c.outcomes
		return false
	}
}

// fenced drops the shards whose batches were refused. One that was gained again meanwhile
// stays: the refusal is about the tenure before. mu is held.
func (d *Dispatcher) fenced(all []collected, refused []subscription.Shard) {
	for _, c := range all {
		if s := c.sh.tenure.Shard; slices.Contains(refused, s) && d.stays(c.sh) {
			d.log.Warn("a shard has another owner by now", "shard", s)
			d.drop(s)
			d.metrics.lost.WithLabelValues(lostFenced).Inc()
		}
	}
}

// collected is what is to be saved of a shard.
type collected struct {
	sh       *shardTable
	batch    delivery.Batch // may be empty
	outcomes int            // the batch comes from so many
}

// collect takes what is to be saved of the shards of a group, and of how many outcomes it came:
// those count as unsaved until they are saved. A sidelined shard is always there, as to save it
// shows whether what keeps it is back.
func (d *Dispatcher) collect(of group) (all []collected) {
	for s := range d.shards {
		d.mu.Lock() // for one shard at a time: others are waiting
		if sh := d.shards[s]; sh != nil && sh.group() == of && (sh.away || len(sh.dirty)+len(sh.gaps)+sh.unsaved > 0) {
			b, outcomes := sh.batch()
			sh.saving = b.Gaps
			all = append(all, collected{sh, b, outcomes})
		}
		d.mu.Unlock()
	}
	return all
}

// restore puts back what was not saved: positions as they are by now. mu is held.
func (d *Dispatcher) restore(all []collected) {
	for _, c := range all {
		sh := c.sh
		if !d.stays(sh) {
			continue
		}
		sh.gaps, sh.saving = append(c.batch.Gaps, sh.gaps...), nil
		for _, a := range c.batch.Advances {
			if e := sh.entries.get(a.Subscription); e != nil && !e.dirty {
				e.dirty = true
				sh.dirty = append(sh.dirty, e)
			}
		}
	}
	signal(d.flushSoon)
	signal(d.awaySoon)
}

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

// An engine may be spread over several servers. While one of them is away, what it keeps
// waits, and everything else goes on:
//
//	ErrPartAway from a read   the deliveries of that topic rest
//	*HeadsError               those heads are read again, the others count
//	*SaveError                no attempt of those shards starts until they are saved
//
// Every other ErrUnavailable concerns the engine as a whole: then all deliveries pause.

// awayRetryMax is the longest pause between two tries to save what a part of the engine that
// is away keeps.
const awayRetryMax = time.Second

// saver saves positions.
type saver struct {
	*base
	table    *table
	ledger   *ledger
	schedule *schedule
	cursors  delivery.Cursors
	// saving is full during a Save of the group, so that an older position never lands after
	// a newer one: mutexes that can be waited for with a bound. They are taken
	// before table.mu.
	saving [groups]chan struct{}
	saves  trouble // has its own mutex
	parts  trouble // likewise: of positions that a part of the engine keeps
}

func newSaver(b *base, t *table, l *ledger, s *schedule, cursors delivery.Cursors) *saver {
	return &saver{
		base: b, table: t, ledger: l, schedule: s, cursors: cursors,
		saving: [groups]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)},
	}
}

// flushLoop saves positions, many at a time, until ctx ends. A Save that is
// under way then goes on while saves stands.
func (sv *saver) flushLoop(ctx, saves context.Context) {
	interval := time.NewTimer(sv.cfg.FlushInterval)
	defer interval.Stop()
	pause := enginePause()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sv.ledger.flushSoon:
		}
		interval.Reset(sv.cfg.FlushInterval)
		select {
		case <-ctx.Done():
			return
		case <-sv.ledger.flushNow:
		case <-interval.C:
		}
		for err := sv.flush(saves); err != nil; err = sv.flush(saves) {
			if ctx.Err() != nil {
				return
			}
			if sv.saves.failure() {
				sv.log.Error("positions could not be saved; deliveries pause until they are", "error", err)
			}
			if await.For(ctx, pause.NextBackOff()) != nil {
				return
			}
		}
		pause.Reset()
		if ends, failed, took := sv.saves.over(); ends {
			sv.log.Info("positions are saved again", "failed", failed, "after", took)
		}
	}
}

// awayLoop saves the positions of shards that are sidelined, until ctx ends.
func (sv *saver) awayLoop(ctx, saves context.Context) {
	pause := enginePause()
	pause.MaxInterval = awayRetryMax
	for {
		select {
		case <-ctx.Done():
			return
		case <-sv.ledger.awaySoon:
		}
		for sv.save(saves, sidelined) != nil {
			if await.For(ctx, pause.NextBackOff()) != nil {
				return
			}
		}
		pause.Reset()
		if ends, failed, took := sv.parts.over(); ends {
			sv.log.Info("positions of all shards are saved again", "failed", failed, "after", took)
		}
	}
}

// flush saves what has changed, of all shards in one call. While that fails no
// attempt starts, so that what would come twice after a crash stays bounded. Where only
// some shards cannot be saved, it is theirs alone that do not start.
func (sv *saver) flush(ctx context.Context) error { return sv.save(ctx, healthy) }

// save saves what has changed of the shards of a group. It is an error where healthy ones could
// not be saved for another reason than that a part of the engine is away; and where a
// sidelined one could not be saved.
func (sv *saver) save(ctx context.Context, of group) error {
	sv.saving[of] <- struct{}{}
	defer func() { <-sv.saving[of] }()
	all := sv.collect(of)
	var batches []delivery.Batch
	for _, c := range all {
		if of == sidelined || len(c.batch.Advances)+len(c.batch.Gaps) > 0 {
			batches = append(batches, c.batch)
		}
	}
	var err error
	if len(batches) > 0 {
		saveCtx, cancel := context.WithTimeout(ctx, engineTimeout)
		err = sv.cursors.Save(saveCtx, batches)
		cancel()
	}
	back, err := sv.saved(of, all, err)
	if err == nil && len(batches) > 0 {
		sv.metrics.flushes.Inc()
	}
	for _, sh := range back {
		sv.schedule.resume(sh)
	}
	sv.kick() // room for more
	return err
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
func (sv *saver) collect(of group) (all []collected) {
	for s := range sv.table.shards {
		sv.table.mu.Lock() // for one shard at a time: others are waiting
		if sh := sv.table.shards[s]; sh != nil && sh.group() == of && (sh.away || len(sh.dirty)+len(sh.gaps)+sh.unsaved > 0) {
			b, outcomes := sh.batch()
			sh.saving = b.Gaps
			all = append(all, collected{sh, b, outcomes})
		}
		sv.table.mu.Unlock()
	}
	return all
}

// saved goes on after a Save that ended with err. It returns the shards whose deliveries may go
// on again, and what save returns.
func (sv *saver) saved(of group, all []collected, err error) (back []*shardTable, _ error) {
	sv.table.mu.Lock()
	defer sv.table.mu.Unlock()
	if fenced := (*delivery.FencedError)(nil); errors.As(err, &fenced) && len(fenced.Shards) > 0 {
		sv.fenced(all, fenced.Shards)
		if !errors.Is(err, delivery.ErrPartAway) {
			err = nil // the other batches are written
		}
	}
	missed, err := sv.missed(of, all, err)
	if of == healthy {
		sv.ledger.unsavable = err != nil
	}
	if len(missed) > 0 {
		sv.metrics.failures.Inc()
		sv.restore(missed)
	}
	for _, c := range all {
		if slices.ContainsFunc(missed, func(m collected) bool { return m.sh == c.sh }) {
			continue
		}
		if sv.settled(c) {
			back = append(back, c.sh)
		}
	}
	return back, err
}

// missed returns what may not be written, after a Save that ended with err. Shards
// that an absent part of the engine keeps are sidelined, and the healthy ones get no error. mu is
// held.
func (sv *saver) missed(of group, all []collected, err error) (missed []collected, _ error) {
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
	if sv.parts.failure() {
		sv.log.Error("positions of some shards could not be saved; the deliveries of these pause until they are",
			"shards", len(missed), "error", err)
	}
	for _, c := range missed {
		if sv.table.stays(c.sh) {
			sv.ledger.sideline(c.sh)
		}
	}
	return missed, nil
}

// settled counts the outcomes of a shard as saved, and reports whether its deliveries may go on
// again as it was sidelined. mu is held.
func (sv *saver) settled(c collected) (back bool) {
	c.sh.saving = nil
	c.sh.unsaved -= c.outcomes
	switch {
	case !sv.table.stays(c.sh): // they went with the shard
		return false
	case c.sh.away:
		sv.ledger.reinstate(c.sh)
		return true
	default:
		sv.ledger.unsaved -= c.outcomes
		return false
	}
}

// fenced drops the shards whose batches were refused. One that was gained again meanwhile
// stays: the refusal is about the tenure before. mu is held.
func (sv *saver) fenced(all []collected, refused []subscription.Shard) {
	for _, c := range all {
		if s := c.sh.tenure.Shard; slices.Contains(refused, s) && sv.table.stays(c.sh) {
			sv.log.Warn("a shard has another owner by now", "shard", s)
			sv.ledger.drop(s)
			sv.metrics.lost.WithLabelValues(lostFenced).Inc()
		}
	}
}

// restore puts back what was not saved: positions as they are by now. mu is held.
func (sv *saver) restore(all []collected) {
	for _, c := range all {
		sh := c.sh
		if !sv.table.stays(sh) {
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
	signal(sv.ledger.flushSoon)
	signal(sv.ledger.awaySoon)
}

// sidelined counts the shards whose positions are not saved, as what keeps them is away.
func (sv *saver) sidelined() (n int) {
	sv.table.mu.Lock()
	defer sv.table.mu.Unlock()
	for _, sh := range sv.table.shards {
		if sh != nil && sh.away {
			n++
		}
	}
	return n
}

package delivery

import (
	"context"
	"errors"
	"time"
)

// changed notes that an entry's position is to be saved. mu is held.
func (d *Dispatcher) changed(sh *shardTable, e *entry) {
	if !e.dirty {
		e.dirty = true
		sh.dirty = append(sh.dirty, e)
	}
	d.unsaved++
	signal(d.flushSoon)
	if d.unsaved >= d.cfg.FlushCount/2 {
		signal(d.flushNow)
	}
}

// batch takes what is to be saved of a shard. mu is held.
func (sh *shardTable) batch() Batch {
	b := Batch{Tenure: sh.tenure, Gaps: sh.gaps}
	if len(sh.dirty) > 0 {
		b.Advances = make([]Advance, 0, len(sh.dirty))
	}
	for _, e := range sh.dirty {
		e.dirty = false
		if e.state != ended {
			b.Advances = append(b.Advances, Advance{Subscription: e.id, Position: e.position()})
		}
	}
	sh.dirty, sh.gaps = sh.dirty[:0], nil
	return b
}

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
			d.log.Error("positions could not be saved; deliveries pause until they are", "error", err)
			if !sleep(ctx, pause.NextBackOff()) {
				return
			}
		}
		pause.Reset()
	}
}

// flush saves what has changed, of all shards in one call. While that fails no
// attempt starts, so that what would come twice after a crash stays bounded.
func (d *Dispatcher) flush(ctx context.Context) error {
	d.saving <- struct{}{}
	defer func() { <-d.saving }()
	batches, outcomes := d.collect()
	var err error
	if len(batches) > 0 {
		saveCtx, cancel := context.WithTimeout(ctx, engineTimeout)
		err = d.cursors.Save(saveCtx, batches)
		cancel()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if fenced := (*FencedError)(nil); errors.As(err, &fenced) && len(fenced.Shards) > 0 {
		// The other batches are written.
		for _, s := range fenced.Shards {
			d.log.Warn("a shard has another owner by now", "shard", s)
			d.drop(s)
		}
		err = nil
	}
	d.saveFailing = err != nil
	if err != nil {
		d.metrics.failures.Inc()
		d.restore(batches)
		return err
	}
	if len(batches) > 0 {
		d.metrics.flushes.Inc()
	}
	d.unsaved -= outcomes
	d.kick() // room for more
	return nil
}

// collect takes what is to be saved, and of how many outcomes it came.
func (d *Dispatcher) collect() (batches []Batch, outcomes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, sh := range d.shards {
		if sh == nil || len(sh.dirty)+len(sh.gaps) == 0 {
			continue
		}
		if b := sh.batch(); len(b.Advances)+len(b.Gaps) > 0 {
			batches = append(batches, b)
		}
	}
	return batches, d.unsaved
}

// restore puts back what was not saved: positions as they are by now. mu is held.
func (d *Dispatcher) restore(batches []Batch) {
	for _, b := range batches {
		sh := d.shards[b.Tenure.Shard]
		if sh == nil || sh.tenure != b.Tenure {
			continue
		}
		sh.gaps = append(b.Gaps, sh.gaps...)
		for _, a := range b.Advances {
			if e := sh.entries[a.Subscription]; e != nil && !e.dirty {
				e.dirty = true
				sh.dirty = append(sh.dirty, e)
			}
		}
	}
	signal(d.flushSoon)
}

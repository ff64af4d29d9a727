package delivery

import (
	"context"
	"fmt"
	"time"
)

// trimLoop trims the logs now and then, until ctx ends. A Save that is under way
// then goes on while saves stands.
func (d *Dispatcher) trimLoop(ctx, saves context.Context) {
	for sleep(ctx, d.cfg.TrimInterval) {
		if err := d.trim(ctx, saves); err != nil && ctx.Err() == nil {
			d.log.Warn("the logs could not be trimmed; it is tried again", "error", err)
		}
	}
}

// trim removes from every log what no subscription needs any more and what is
// older than Config.KeepAtLeast.
//
// Only a process that owns all shards knows every cursor, so no other trims:
// what one of them does not see would be lost to the subscriptions of another.
func (d *Dispatcher) trim(ctx, saves context.Context) error {
	slowest, ok := d.slowest()
	if !ok {
		return nil
	}
	// Trimmed is what is settled on disk, not only in memory: after a crash a
	// subscription must not find a gap where it had its deliveries.
	if err := d.flush(saves); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	olderThan := time.Now().Add(-d.cfg.KeepAtLeast)
	for state, err := range d.records.Topics(ctx) {
		if err != nil {
			return fmt.Errorf("listing the topics: %w", err)
		}
		before := state.Head + 1
		if settled, subscribed := slowest[state.Topic]; subscribed {
			before = min(before, settled+1)
		}
		if before <= state.First {
			continue
		}
		if err := d.records.Trim(ctx, state.Topic, before, olderThan); err != nil {
			return fmt.Errorf("trimming the log of %s: %w", state.Topic, err)
		}
	}
	return nil
}

// slowest returns the lowest cursor of each topic. A subscription whose lease is
// over counts until it is ended: its renewal may be under way. It is not ok unless every shard is owned and read.
func (d *Dispatcher) slowest() (map[string]Seq, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, sh := range d.shards {
		if sh == nil || sh.loading {
			return nil, false
		}
	}
	slowest := make(map[string]Seq, len(d.topics))
	for key, t := range d.topics {
		lowest, subscribed := Seq(0), false
		for _, e := range t.entries {
			if !subscribed || e.settled < lowest {
				lowest, subscribed = e.settled, true
			}
		}
		if subscribed {
			slowest[key] = lowest
		}
	}
	return slowest, true
}

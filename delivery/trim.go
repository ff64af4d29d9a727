package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trimLoop trims the logs now and then, until ctx ends. A Save that is under way
// then goes on while saves stands.
func (d *Dispatcher) trimLoop(ctx, saves context.Context) {
	for sleep(ctx, d.cfg.TrimInterval) {
		d.forgetTopics()
		if err := d.trim(ctx, saves); err != nil && ctx.Err() == nil {
			d.log.Warn("the logs could not be trimmed; it is tried again", "error", err)
		}
	}
}

// mark is the lowest cursor of every topic that has subscriptions in a shard.
type mark struct {
	tenure Tenure
	lowest map[string]Seq // by the topic's key
}

// trim removes from every log what no subscription needs any more and what is
// older than Config.KeepAtLeast.
func (d *Dispatcher) trim(ctx, saves context.Context) error {
	marks := d.slowest()
	if len(marks) == 0 {
		return nil
	}
	// Trimmed is what is settled on disk, not only in memory: after a crash a
	// subscription must not find a gap where it had its deliveries.
	if err := d.flush(saves); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	slowest, ok, err := d.agree(ctx, marks)
	if err != nil || !ok {
		return err
	}
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

// slowest returns the marks of the shards that are owned and read. A subscription
// whose lease is over counts until it is ended: its renewal may be under way.
// One that begins meanwhile needs nothing older than Config.KeepAtLeast.
func (d *Dispatcher) slowest() []mark {
	var marks []mark
	for s := range d.shards {
		d.mu.Lock() // for one shard at a time: others are waiting
		if sh := d.shards[s]; sh != nil && !sh.loading && !sh.leaving {
			m := mark{sh.tenure, map[string]Seq{}}
			for _, e := range sh.entries {
				if settled, found := m.lowest[e.topic.key]; !found || e.settled < settled {
					m.lowest[e.topic.key] = e.settled
				}
			}
			marks = append(marks, m)
		}
		d.mu.Unlock()
	}
	return marks
}

// agree returns the lowest saved cursor of every topic over all shards. It is not
// ok where they are not all known, or another process trims.
//
// What one process does not see would be lost to the subscriptions of another: so
// each marks its own shards in the engine, and the one that owns shard 0 trims. An
// engine without Marks has one process, which sees all as soon as it owns all.
func (d *Dispatcher) agree(ctx context.Context, marks []mark) (lowest map[string]Seq, ok bool, err error) {
	if d.marks == nil {
		return merge(marks), len(marks) == len(d.shards), nil
	}
	for _, m := range marks {
		err := d.marks.Mark(ctx, m.tenure, m.lowest)
		if errors.Is(err, ErrFenced) {
			// The shard is lost, which Save or Lost will say.
			d.log.Debug("a shard was not marked: it has another owner", "shard", m.tenure.Shard)
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("marking shard %d: %w", m.tenure.Shard, err)
		}
	}
	if marks[0].tenure.Shard != 0 {
		return nil, false, nil
	}
	lowest, ok, err = d.marks.Lowest(ctx, time.Now().Add(-markLife*d.cfg.TrimInterval))
	if err != nil {
		return nil, false, fmt.Errorf("reading the marks: %w", err)
	}
	return lowest, ok, nil
}

// merge returns the lowest of several marks.
func merge(marks []mark) map[string]Seq {
	all := map[string]Seq{}
	for _, m := range marks {
		for topic, seq := range m.lowest {
			if settled, found := all[topic]; !found || seq < settled {
				all[topic] = seq
			}
		}
	}
	return all
}

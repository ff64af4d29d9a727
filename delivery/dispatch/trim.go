package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/delivery"
	"carillon/internal/await"
	"carillon/subscription"
)

// trimLoop trims the logs now and then, until ctx ends. A Save that is under way
// then goes on while saves stands.
func (d *Dispatcher) trimLoop(ctx, saves context.Context) {
	t := &trimmer{Dispatcher: d, sites: newSites()}
	for await.For(ctx, d.cfg.TrimInterval) == nil {
		d.forgetTopics()
		d.lookAtOldest(ctx)
		err := t.trim(ctx, saves)
		if errors.Is(err, delivery.ErrUnavailable) {
			t.since = time.Time{}
		}
		if err != nil && ctx.Err() == nil {
			d.log.Warn("the logs could not be trimmed; it is tried again", "error", err)
		}
	}
}

// lookAtOldest has the metric tell how it stands now.
func (d *Dispatcher) lookAtOldest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	d.OldestWaiting(ctx)
}

// mark is the lowest cursor of every topic that has subscriptions in a shard.
type mark struct {
	tenure delivery.Tenure
	lowest map[string]delivery.Seq // by the topic's key
}

// trim removes what no subscription needs any more and is older than
// Config.KeepAtLeast, and what the logs may not keep. Of the processes that share an
// engine the owner of shard 0 does so.
func (t *trimmer) trim(ctx, saves context.Context) error {
	marks := t.slowest()
	if len(marks) == 0 {
		t.since = time.Time{}
		t.metrics.logs.Store(nil)
		return nil
	}
	// Trimmed is what is settled on disk, not only in memory: after a crash a
	// subscription must not find a gap where it had its deliveries.
	unsaved := t.sidelined()
	if err := t.flush(saves); err != nil {
		return err
	}
	if unsaved += t.sidelined(); unsaved > 0 {
		return fmt.Errorf("%w: not all positions could be saved", delivery.ErrPartAway)
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	slowest, err := t.agree(ctx, marks)
	if err != nil {
		return err
	}
	if !slowest.trims {
		t.since = time.Time{}
		t.metrics.logs.Store(nil) // another process tells
		return nil
	}
	return t.sweep(ctx, slowest)
}

// needs is what the processes that share an engine know together.
type needs struct {
	trims  bool                    // it is for this process to trim
	known  bool                    // the cursors of all subscriptions are known
	lowest map[string]delivery.Seq // the lowest saved cursor of each topic, if known
}

// agree returns what is needed over all shards.
//
// What one process does not see would be lost to the subscriptions of another: so
// each marks its own shards in the engine, and the one that owns shard 0 trims. An
// engine without Marks has one process, which sees all as soon as it owns all.
func (d *Dispatcher) agree(ctx context.Context, marks []mark) (n needs, err error) {
	n.trims = marks[0].tenure.Shard == 0
	if d.marks == nil {
		n.lowest, n.known = merge(marks), len(marks) == len(d.shards)
		return n, nil
	}
	for _, m := range marks {
		err := d.writeMark(ctx, m)
		if errors.Is(err, delivery.ErrFenced) {
			// The shard is lost, which Save or Lost will say.
			d.log.Debug("a shard was not marked: it is lost, or is about to be", "shard", m.tenure.Shard)
			n.trims = n.trims && m.tenure.Shard != 0
			continue
		}
		if err != nil {
			return n, fmt.Errorf("marking shard %d: %w", m.tenure.Shard, err)
		}
	}
	if !n.trims {
		return n, nil
	}
	n.lowest, n.known, err = d.marks.Lowest(ctx, time.Now().Add(-markLife*d.cfg.TrimInterval))
	if err != nil {
		return n, fmt.Errorf("reading the marks: %w", err)
	}
	return n, nil
}

// writeMark marks a shard as it was looked at before its cursors were saved, but for replays that
// have begun since: they need what lies before their cursors. Marks are written one at a time, so
// that none takes the place of one that was looked at later.
func (d *Dispatcher) writeMark(ctx context.Context, m mark) error {
	select {
	case d.marking <- struct{}{}:
		defer func() { <-d.marking }()
	case <-ctx.Done():
		return fmt.Errorf("%w: the mark before has not been written yet: %w", delivery.ErrUnavailable, ctx.Err())
	}
	now, held := d.slowestOf(m.tenure.Shard)
	if !held || now.tenure != m.tenure {
		return &delivery.FencedError{Shards: []subscription.Shard{m.tenure.Shard}}
	}
	return d.marks.Mark(ctx, m.tenure, merge([]mark{m, now}))
}

// merge returns the lowest of several marks.
func merge(marks []mark) map[string]delivery.Seq {
	all := map[string]delivery.Seq{}
	for _, m := range marks {
		for topic, seq := range m.lowest {
			if settled, found := all[topic]; !found || seq < settled {
				all[topic] = seq
			}
		}
	}
	return all
}

// Trimmed takes note that everything of a topic before a number has gone from its log by the
// operator's will: what of it is in memory is given to nobody any more, but by the attempts
// that are under way. Who had not got it has a gap, once it is its turn.
func (d *Dispatcher) Trimmed(topicURL string, before delivery.Seq) {
	key := subscription.Key(topicURL)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, topics := range []map[string]*topic{d.topics, d.left[0], d.left[1]} {
		t := topics[key]
		if t == nil {
			continue
		}
		t.floor = max(t.floor, before)
		for len(t.notes) > 0 && t.notes[0].n.Seq < t.floor {
			first := t.notes[0]
			d.cache.unlist(first)
			t.drop(first)
		}
	}
}

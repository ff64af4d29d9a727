package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"carillon/delivery"
	"carillon/subscription"
)

// maxGaps is how many gaps are kept of one subscription; the oldest go first.
const maxGaps = 100

// Cursors keeps the positions of subscriptions, and their gaps.
type Cursors struct{ db *DB }

var _ delivery.Cursors = (*Cursors)(nil)

// Members implements delivery.Cursors: subscriptions and positions lie in the
// same order, so one pass over both pairs them.
func (c *Cursors) Members(ctx context.Context, s subscription.Shard) iter.Seq2[delivery.Member, error] {
	return func(yield func(delivery.Member, error) bool) {
		if err := c.db.engine.enter(ctx); err != nil {
			yield(delivery.Member{}, fmt.Errorf("list the members of shard %d: %w", s, err))
			return
		}
		defer c.db.engine.leave()
		defer c.db.engine.readOnce()()
		snapshot := c.db.engine.db.NewSnapshot()
		stopped, err := c.eachMember(ctx, snapshot, s, yield)
		if closeErr := snapshot.Close(); err == nil && closeErr != nil {
			err = unavailable(closeErr)
		}
		if err != nil && !stopped {
			yield(delivery.Member{}, fmt.Errorf("list the members of shard %d: %w", s, err))
		}
	}
}

func (c *Cursors) eachMember(
	ctx context.Context, r pebble.Reader, s subscription.Shard, yield func(delivery.Member, error) bool,
) (stopped bool, err error) {
	prefix := []byte{kindPosition, byte(s)}
	positions, err := c.db.engine.walk(r, prefix, keyEnd(prefix))
	if err != nil {
		return false, err
	}
	positions.toFirst()
	prefix = []byte{kindSubscription, byte(s)}
	subs, err := c.db.engine.walk(r, prefix, keyEnd(prefix))
	if err != nil {
		return false, errors.Join(err, positions.close())
	}
	for ok := subs.toFirst(); ok && !stopped && ctx.Err() == nil; ok = subs.next() {
		m, err := c.member(subs, positions)
		if err != nil {
			c.db.engine.damaged(subs.recordKey(), err)
			continue
		}
		stopped = !yield(m, nil)
	}
	return stopped, errors.Join(ctx.Err(), subs.close(), positions.close())
}

// member reads the subscription that subs is at, and moves positions to it.
func (c *Cursors) member(subs, positions *walk) (m delivery.Member, err error) {
	key := subs.recordKey()
	if len(key) != 2+idLen {
		return m, ErrDamaged
	}
	if m.Subscription, err = decodeSubscription(idOf(key), subs.value); err != nil {
		return m, err
	}
	m.Position = c.position(positions, key)
	if m.Settled < delivery.Seq(m.Start) {
		m.Position = delivery.Position{Settled: delivery.Seq(m.Start)}
	}
	return m, nil
}

// position moves the walk to the position of the subscription with the key and reads
// it; zero without one, or none that can be read. But for their kinds the keys
// are the same.
func (c *Cursors) position(positions *walk, key []byte) delivery.Position {
	for positions.valid() {
		switch order := bytes.Compare(positions.recordKey()[1:], key[1:]); {
		case order < 0:
			positions.next()
			continue
		case order > 0:
			return delivery.Position{}
		}
		p, err := decodePosition(positions.value)
		if err != nil {
			c.db.engine.damaged(positions.recordKey(), err)
			return delivery.Position{}
		}
		return p
	}
	return delivery.Position{}
}

// Save implements delivery.Cursors.
func (c *Cursors) Save(ctx context.Context, batches []delivery.Batch) error {
	if err := delivery.CheckBatches(batches); err != nil {
		return fmt.Errorf("save cursors: %w", err)
	}
	if len(batches) == 0 {
		return ctx.Err()
	}
	shards := make([]subscription.Shard, len(batches))
	for i, batch := range batches {
		shards[i] = batch.Tenure.Shard
	}
	var fenced []subscription.Shard
	err := c.db.engine.change(ctx, shrinks, c.db.lockShards(shards), func(b *pebble.Batch) error {
		var current []delivery.Batch
		for _, batch := range batches {
			if c.db.shards[batch.Tenure.Shard].epoch == batch.Tenure.Epoch {
				current = append(current, batch)
			} else {
				fenced = append(fenced, batch.Tenure.Shard)
			}
		}
		err := c.db.writeCursors(b, func(w *cursorWriter) error { return w.write(current) })
		if err != nil {
			c.db.forget(current)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("save cursors: %w", err)
	}
	if len(fenced) > 0 {
		slices.Sort(fenced)
		return fmt.Errorf("save cursors: %w", &delivery.FencedError{Shards: slices.Compact(fenced)})
	}
	return nil
}

// Gaps implements delivery.Cursors.
func (c *Cursors) Gaps(ctx context.Context, id subscription.ID, limit int) ([]delivery.Gap, error) {
	if err := c.db.engine.enter(ctx); err != nil {
		return nil, inSubscription("list gaps of", id, err)
	}
	defer c.db.engine.leave()
	var gaps []delivery.Gap
	err := c.db.engine.sift(ctx, gapPrefix(id), func(key, value []byte) bool {
		g, err := decodeGap(id, seqOf(key), value)
		if err != nil {
			c.db.engine.damaged(key, err)
			return true
		}
		gaps = append(gaps, g)
		return true
	})
	if err != nil {
		return nil, inSubscription("list gaps of", id, err)
	}
	slices.Reverse(gaps)
	return gaps[:min(len(gaps), limit)], nil
}

// Gapped implements delivery.Cursors. The gaps of a subscription lie side by side.
func (c *Cursors) Gapped(ctx context.Context, s subscription.Shard) iter.Seq2[subscription.ID, error] {
	return func(yield func(subscription.ID, error) bool) {
		gaps := records(ctx, c.db.engine, []byte{kindGap, byte(s)}, func(key, value []byte) (delivery.Gap, error) {
			if len(key) != 2+idLen+seqLen {
				return delivery.Gap{}, ErrDamaged
			}
			return decodeGap(subscription.ID(key[2:2+idLen]), seqOf(key), value)
		})
		var last subscription.ID
		for g, err := range gaps {
			switch {
			case err != nil:
				yield(subscription.ID{}, fmt.Errorf("list who has gaps in shard %d: %w", s, err))
				return
			case g.Subscription == last || !g.Replayed.IsZero():
			case !yield(g.Subscription, nil):
				return
			default:
				last = g.Subscription
			}
		}
	}
}

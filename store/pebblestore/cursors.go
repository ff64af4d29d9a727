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
		snapshot := c.db.engine.db.NewSnapshot()
		stopped, err := c.members(ctx, snapshot, s, yield)
		if closeErr := snapshot.Close(); err == nil && closeErr != nil {
			err = unavailable(closeErr)
		}
		if err != nil && !stopped {
			yield(delivery.Member{}, fmt.Errorf("list the members of shard %d: %w", s, err))
		}
	}
}

func (c *Cursors) members(
	ctx context.Context, r pebble.Reader, s subscription.Shard, yield func(delivery.Member, error) bool,
) (stopped bool, err error) {
	prefix := []byte{kindPosition, byte(s)}
	positions, err := c.db.engine.walk(r, prefix, keyEnd(prefix))
	if err != nil {
		return false, err
	}
	positions.first()
	prefix = []byte{kindSubscription, byte(s)}
	subs, err := c.db.engine.walk(r, prefix, keyEnd(prefix))
	if err != nil {
		return false, errors.Join(err, positions.close())
	}
	for ok := subs.first(); ok && !stopped && ctx.Err() == nil; ok = subs.next() {
		m, err := c.member(subs, positions)
		if err != nil {
			c.db.engine.damaged(subs.key(), err)
			continue
		}
		stopped = !yield(m, nil)
	}
	return stopped, errors.Join(ctx.Err(), subs.close(), positions.close())
}

// member reads the subscription that subs is at, and moves positions to it.
func (c *Cursors) member(subs, positions *walk) (m delivery.Member, err error) {
	key := subs.key()
	if len(key) != 2+idLen {
		return m, ErrDamaged
	}
	if m.Subscription, err = decodeSubscription(idOf(key), subs.value); err != nil {
		return m, err
	}
	m.Position = c.position(positions, m.ID)
	if m.Settled < delivery.Seq(m.Start) {
		m.Position = delivery.Position{Settled: delivery.Seq(m.Start)}
	}
	return m, nil
}

// position moves the walk to the subscription's position and reads it; zero if
// there is none, or none that can be read.
func (c *Cursors) position(positions *walk, id subscription.ID) delivery.Position {
	key := memberKey(kindPosition, id)
	for positions.valid() && bytes.Compare(positions.key(), key) < 0 {
		positions.next()
	}
	if !positions.valid() || !bytes.Equal(positions.key(), key) {
		return delivery.Position{}
	}
	p, err := decodePosition(positions.value)
	if err != nil {
		c.db.engine.damaged(key, err)
		return delivery.Position{}
	}
	return p
}

// Save implements delivery.Cursors.
func (c *Cursors) Save(ctx context.Context, batches []delivery.Batch) error {
	if err := consistent(batches); err != nil {
		return fmt.Errorf("save cursors: %w", err)
	}
	if len(batches) == 0 {
		return ctx.Err()
	}
	var fenced []subscription.Shard
	err := c.db.engine.change(ctx, shrinks, c.db.lockShards(batches), func(b *pebble.Batch) error {
		w, err := newCursorWriter(c.db, b)
		if err != nil {
			return err
		}
		for _, batch := range batches {
			if c.db.shards[batch.Tenure.Shard].epoch != batch.Tenure.Epoch {
				fenced = append(fenced, batch.Tenure.Shard)
				continue
			}
			if err := w.write(batch); err != nil {
				return errors.Join(err, w.close())
			}
		}
		return w.close()
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

// consistent refuses batches that name what is not in their shard, before
// anything is written.
func consistent(batches []delivery.Batch) error {
	for _, b := range batches {
		if b.Tenure.Shard >= subscription.Shards {
			return fmt.Errorf("there is no shard %d", b.Tenure.Shard)
		}
		for _, a := range b.Advances {
			if subscription.ShardOf(a.Subscription) != b.Tenure.Shard {
				return fmt.Errorf("subscription %s is not in shard %d", a.Subscription, b.Tenure.Shard)
			}
		}
		for _, g := range b.Gaps {
			if subscription.ShardOf(g.Subscription) != b.Tenure.Shard {
				return fmt.Errorf("subscription %s is not in shard %d", g.Subscription, b.Tenure.Shard)
			}
		}
	}
	return nil
}

// shardLocks are several shards' locks as one.
type shardLocks struct {
	db     *DB
	shards []subscription.Shard // ascending, each once
}

func (db *DB) lockShards(batches []delivery.Batch) *shardLocks {
	l := &shardLocks{db: db}
	for _, b := range batches {
		l.shards = append(l.shards, b.Tenure.Shard)
	}
	slices.Sort(l.shards)
	l.shards = slices.Compact(l.shards)
	return l
}

// Lock takes the locks, always in the same order.
func (l *shardLocks) Lock() {
	for _, s := range l.shards {
		l.db.shards[s].Lock()
	}
}

// Unlock gives them back.
func (l *shardLocks) Unlock() {
	for _, s := range l.shards {
		l.db.shards[s].Unlock()
	}
}

// cursorWriter puts cursor changes in a batch. It looks whether each subscription
// is still there: a position or a gap that outlived its subscription would
// await the next one with the same id.
type cursorWriter struct {
	db   *DB
	b    *pebble.Batch
	subs *pebble.Iterator
	err  error // trouble with subs
}

func newCursorWriter(db *DB, b *pebble.Batch) (*cursorWriter, error) {
	subs, err := iterator(db.engine.db, []byte{kindSubscription}, []byte{kindSubscription + 1})
	if err != nil {
		return nil, err
	}
	return &cursorWriter{db: db, b: b, subs: subs}, nil
}

// close tells whether everything could be looked up.
func (w *cursorWriter) close() error {
	if err := w.subs.Close(); err != nil && !pebble.IsCorruptionError(err) {
		w.err = errors.Join(w.err, readError(err))
	}
	return w.err
}

// exists is false for one that cannot be read: it will begin anew.
func (w *cursorWriter) exists(id subscription.ID) bool {
	key := memberKey(kindSubscription, id)
	if w.subs.SeekGE(key) {
		return bytes.Equal(w.subs.Key(), key)
	}
	switch err := w.subs.Error(); {
	case pebble.IsCorruptionError(err):
		w.db.engine.damaged(key, err)
	case err != nil:
		w.err = readError(err)
	}
	return false
}

func (w *cursorWriter) write(batch delivery.Batch) error {
	for _, a := range batch.Advances {
		if !w.exists(a.Subscription) {
			continue
		}
		if err := w.b.Set(memberKey(kindPosition, a.Subscription), encodePosition(a.Position), nil); err != nil {
			return err
		}
	}
	gaps := make(map[subscription.ID][][]byte)
	for _, g := range batch.Gaps {
		if !w.exists(g.Subscription) {
			continue
		}
		key := gapKey(g.Subscription, uint64(g.First))
		if err := w.b.Set(key, encodeGap(g), nil); err != nil {
			return err
		}
		gaps[g.Subscription] = append(gaps[g.Subscription], key)
	}
	for id, added := range gaps {
		if err := w.bound(id, added); err != nil {
			return err
		}
	}
	return nil
}

// bound deletes the oldest gaps of a subscription beyond maxGaps.
func (w *cursorWriter) bound(id subscription.ID, added [][]byte) error {
	keys, err := w.db.gapKeys(id)
	if err != nil {
		return err
	}
	keys = append(keys, added...)
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	for _, key := range keys[:max(0, len(keys)-maxGaps)] {
		if err := w.b.Delete(key, nil); err != nil {
			return err
		}
	}
	return nil
}

// gapKeys lists the keys of a subscription's gaps, oldest first.
func (db *DB) gapKeys(id subscription.ID) ([][]byte, error) {
	var keys [][]byte
	err := db.engine.sift(context.Background(), gapPrefix(id), func(key, _ []byte) bool {
		keys = append(keys, bytes.Clone(key))
		return true
	})
	return keys, err
}

// Gaps implements delivery.Cursors.
func (c *Cursors) Gaps(ctx context.Context, id subscription.ID, limit int) ([]delivery.Gap, error) {
	if err := c.db.engine.enter(ctx); err != nil {
		return nil, about("list gaps of", id, err)
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
		return nil, about("list gaps of", id, err)
	}
	slices.Reverse(gaps)
	return gaps[:min(len(gaps), limit)], nil
}

package pebblestore

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"carillon/delivery"
	"carillon/subscription"
)

// cursorWriter puts cursor changes in a batch. It looks whether each subscription
// is still there: a position or a gap that outlived its subscription would
// await the next one with the same id. Its caller holds the shards' locks.
type cursorWriter struct {
	db *DB
	b  *pebble.Batch
	// subs and positions go through the shards side by side, forward only where
	// the ids come in order.
	subs, positions *pebble.Iterator
	err             error // trouble with either
}

// writeCursors calls write with a writer to the batch.
func (db *DB) writeCursors(b *pebble.Batch, write func(*cursorWriter) error) error {
	subs, err := iterator(db.engine.db, []byte{kindSubscription}, []byte{kindSubscription + 1})
	if err != nil {
		return err
	}
	positions, err := iterator(db.engine.db, []byte{kindPosition}, []byte{kindPosition + 1})
	if err != nil {
		return errors.Join(err, subs.Close())
	}
	w := &cursorWriter{db: db, b: b, subs: subs, positions: positions}
	return errors.Join(write(w), w.close())
}

// close tells whether everything could be looked up.
func (w *cursorWriter) close() error {
	for _, it := range []*pebble.Iterator{w.subs, w.positions} {
		if err := it.Close(); err != nil && !pebble.IsCorruptionError(err) {
			w.err = errors.Join(w.err, readError(err))
		}
	}
	return w.err
}

// has moves the iterator to the key and tells whether it is there. What cannot be
// read is not.
func (w *cursorWriter) has(it *pebble.Iterator, key []byte) bool {
	if it.SeekGE(key) {
		return bytes.Equal(it.Key(), key)
	}
	switch err := it.Error(); {
	case pebble.IsCorruptionError(err):
		w.db.engine.damaged(key, err)
	case err != nil:
		w.err = readError(err)
	}
	return false
}

// exists is false for a subscription that cannot be read: it will begin anew.
func (w *cursorWriter) exists(id subscription.ID) bool {
	return w.has(w.subs, memberKey(kindSubscription, id))
}

// settled is where the subscription stands by its stored position, 0 where there is
// none that can be read. A position proves its subscription, which is looked for
// only where there is none.
func (w *cursorWriter) settled(id subscription.ID, key []byte) (seq delivery.Seq, exists bool) {
	if !w.has(w.positions, key) {
		return 0, w.exists(id)
	}
	value, err := w.positions.ValueAndErr()
	switch {
	case err == nil:
		var p delivery.Position
		if p, err = decodePosition(value); err == nil {
			return p.Settled, true
		}
	case !pebble.IsCorruptionError(err):
		w.err = readError(err)
		return 0, false
	}
	w.db.engine.damaged(key, err)
	return 0, true
}

// write puts batches of shards that are owned.
func (w *cursorWriter) write(batches []delivery.Batch) error {
	var advances []*delivery.Advance
	var gaps []delivery.Gap
	for _, batch := range batches {
		for i := range batch.Advances {
			advances = append(advances, &batch.Advances[i])
		}
		gaps = append(gaps, batch.Gaps...)
	}
	return errors.Join(w.advance(advances), w.note(gaps))
}

// advance puts the positions but for those that would move a cursor back. Of one
// subscription they come to lie side by side, in the order in which they were given.
func (w *cursorWriter) advance(advances []*delivery.Advance) error {
	slices.SortStableFunc(advances, func(a, b *delivery.Advance) int { return compareMembers(a.Subscription, b.Subscription) })
	var settled delivery.Seq
	var exists bool
	for i, a := range advances {
		key := memberKey(kindPosition, a.Subscription)
		if i == 0 || advances[i-1].Subscription != a.Subscription {
			settled, exists = w.settled(a.Subscription, key)
		}
		if !exists || a.Position.Settled < settled {
			continue
		}
		settled = a.Position.Settled
		if err := w.b.Set(key, encodePosition(a.Position), nil); err != nil {
			return err
		}
	}
	return nil
}

// compareMembers sorts ids as their keys are.
func compareMembers(a, b subscription.ID) int {
	return cmp.Or(cmp.Compare(subscription.ShardOf(a), subscription.ShardOf(b)), bytes.Compare(a[:], b[:]))
}

// note puts gaps.
func (w *cursorWriter) note(gaps []delivery.Gap) error {
	noted := make(map[subscription.ID][][]byte)
	for _, g := range gaps {
		if !w.exists(g.Subscription) {
			continue
		}
		key := gapKey(g.Subscription, uint64(g.First))
		if err := w.b.Set(key, encodeGap(g), nil); err != nil {
			return err
		}
		noted[g.Subscription] = append(noted[g.Subscription], key)
	}
	for id, added := range noted {
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

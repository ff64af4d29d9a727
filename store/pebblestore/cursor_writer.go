package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
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
	// the ids come in order. Each is made when it is needed first.
	subs, positions *pebble.Iterator
	err             error   // trouble with either
	order           []place // reused from shard to shard
	key, value      []byte  // reused from position to position
}

// place is where an advance is in its list, and the beginning of its id as a
// number that sorts as the id does.
type place struct {
	high  uint64
	index int
}

// writeCursors calls write with a writer to the batch.
func (db *DB) writeCursors(b *pebble.Batch, write func(*cursorWriter) error) error {
	w := &cursorWriter{db: db, b: b}
	return errors.Join(write(w), w.close())
}

// close reports whether everything could be looked up.
func (w *cursorWriter) close() error {
	for _, it := range []*pebble.Iterator{w.subs, w.positions} {
		if it == nil {
			continue
		}
		if err := it.Close(); err != nil && !pebble.IsCorruptionError(err) {
			w.err = errors.Join(w.err, readError(err))
		}
	}
	return w.err
}

// has moves the iterator over the key's kind to the key and reports whether it is there. An unreadable
// one is not.
func (w *cursorWriter) has(it **pebble.Iterator, key []byte) bool {
	if *it == nil {
		made, err := iterator(w.db.engine.db, key[:1], keyEnd(key[:1]))
		if err != nil {
			w.err = err
			return false
		}
		*it = made
	}
	if (*it).SeekGE(key) {
		return bytes.Equal((*it).Key(), key)
	}
	switch err := (*it).Error(); {
	case pebble.IsCorruptionError(err):
		w.db.engine.damaged(key, err)
	case err != nil:
		w.err = readError(err)
	}
	return false
}

// exists is false for a subscription that cannot be read: it will begin anew.
func (w *cursorWriter) exists(id subscription.ID) bool {
	return w.has(&w.subs, memberKey(kindSubscription, id))
}

// settled is where the subscription stands by its stored position, 0 without a readable one. A
// position proves its subscription, which is looked for only without a position.
func (w *cursorWriter) settled(id subscription.ID, key []byte) (seq delivery.Seq, exists bool) {
	if !w.has(&w.positions, key) {
		return 0, w.err == nil && w.exists(id)
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

// write puts batches of shards that are owned. After an error nothing may be
// remembered of it: the batch will not be written.
func (w *cursorWriter) write(batches []delivery.Batch) error {
	var advances [subscription.Shards][]delivery.Advance
	var gaps []delivery.Gap
	for _, batch := range batches {
		to := &advances[batch.Tenure.Shard]
		if *to == nil {
			*to = slices.Clip(batch.Advances) // a second batch does not write behind it
		} else {
			*to = append(*to, batch.Advances...)
		}
		gaps = append(gaps, batch.Gaps...)
	}
	for s := range advances {
		if err := w.advance(&w.db.shards[s], advances[s]); err != nil {
			return err
		}
	}
	return w.note(gaps)
}

// advance puts the positions of a shard but for those that would move a cursor
// back. Their keys rise, which is what Pebble takes and finds fastest.
func (w *cursorWriter) advance(s *shard, advances []delivery.Advance) error {
	w.sort(advances)
	var settled delivery.Seq
	var exists bool
	for n, at := range w.order {
		a := &advances[at.index]
		w.key = appendMemberKey(w.key[:0], kindPosition, a.Subscription)
		if n == 0 || advances[w.order[n-1].index].Subscription != a.Subscription {
			if settled, exists = s.settled[a.Subscription]; !exists {
				settled, exists = w.settled(a.Subscription, w.key)
			}
		}
		if !exists || a.Position.Settled < settled {
			continue
		}
		settled = a.Position.Settled
		w.value = appendPosition(w.value[:0], a.Position)
		if err := w.b.Set(w.key, w.value, nil); err != nil {
			return err
		}
		s.remember(a.Subscription, settled)
	}
	return nil
}

// sort lists the places of the advances in the order of their keys. Of one
// subscription they come to lie side by side, in the order in which they were given.
func (w *cursorWriter) sort(advances []delivery.Advance) {
	w.order = w.order[:0]
	for i := range advances {
		w.order = append(w.order, place{high: binary.BigEndian.Uint64(advances[i].Subscription[:8]), index: i})
	}
	slices.SortFunc(w.order, func(a, b place) int {
		if a.high != b.high {
			return cmp.Compare(a.high, b.high)
		}
		return cmp.Or(
			bytes.Compare(advances[a.index].Subscription[:], advances[b.index].Subscription[:]), a.index-b.index,
		)
	})
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

// gapKeys lists the keys of a subscription's gaps, oldest first.
func (db *DB) gapKeys(id subscription.ID) ([][]byte, error) {
	var keys [][]byte
	err := db.engine.sift(context.Background(), gapPrefix(id), func(key, _ []byte) bool {
		keys = append(keys, bytes.Clone(key))
		return true
	})
	return keys, err
}

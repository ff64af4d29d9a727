package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"carillon/delivery"
	"carillon/subscription"
)

// restoreBytes is about how much one synced batch of a restore holds. A single
// record may be greater.
const restoreBytes = 4 << 20

// errNumber: a sequence number that no log can have.
var errNumber = errors.New("it is not a sequence number of a log")

// Restore takes in what another engine, or this one, had: it implements
// transfer.Target. Requests and pings come by Submit and Ping; epochs and the
// counts of pings stay this store's own.
type Restore struct{ db *DB }

// Empty reports whether nothing is kept: no subscription, request, log, ping or Source, nor
// anything that belongs to one. The counts that must never return do not matter.
func (r *Restore) Empty(ctx context.Context) (bool, error) {
	empty, err := r.empty(ctx)
	if err != nil {
		return false, fmt.Errorf("look whether the store is empty: %w", err)
	}
	return empty, nil
}

func (r *Restore) empty(ctx context.Context) (bool, error) {
	if err := r.db.engine.enter(ctx); err != nil {
		return false, err
	}
	defer r.db.engine.leave()
	for _, kind := range []byte{
		kindSubscription, kindPosition, kindGap, kindRequest, kindExpiry, kindTopic, kindHead, kindBody, kindPing, kindSource,
	} {
		empty := true
		err := r.db.engine.scan(ctx, []byte{kind}, func(_, _ []byte) bool { empty = false; return false })
		if errors.Is(err, ErrDamaged) {
			return false, nil // an unreadable record counts as content
		}
		if err != nil || !empty {
			return false, err
		}
	}
	return true, nil
}

// PutMembers stores subscriptions with their positions.
func (r *Restore) PutMembers(ctx context.Context, members []delivery.Member) error {
	size := func(m delivery.Member) int { return len(m.Topic) + len(m.Callback) + len(m.Secret) + 256 }
	err := inParts(members, size, func(part []delivery.Member) error {
		shards := make([]subscription.Shard, len(part))
		for i, m := range part {
			shards[i] = subscription.ShardOf(m.ID)
		}
		return r.db.engine.change(ctx, grows, r.db.lockShards(shards), func(b *pebble.Batch) error {
			return r.putMembers(b, part)
		})
	})
	if err != nil {
		return fmt.Errorf("restore subscriptions: %w", err)
	}
	return nil
}

// putMembers puts, of those with the same id, the last.
func (r *Restore) putMembers(b *pebble.Batch, members []delivery.Member) error {
	subs, done := r.db.Subscriptions(), make(map[subscription.ID]bool, len(members))
	for i := len(members) - 1; i >= 0; i-- {
		m := members[i]
		if done[m.ID] {
			continue
		}
		done[m.ID] = true
		delete(r.db.shards[subscription.ShardOf(m.ID)].settled, m.ID)
		err := errors.Join(subs.unindex(b, m.ID),
			b.Set(memberKey(kindSubscription, m.ID), encodeSubscription(m.Subscription), nil),
			b.Set(memberKey(kindPosition, m.ID), encodePosition(m.Position), nil),
			subs.addToIndex(b, m.Subscription))
		if err != nil {
			return err
		}
	}
	return nil
}

// PutGaps stores gaps. One whose subscription is not there is left out.
func (r *Restore) PutGaps(ctx context.Context, gaps []delivery.Gap) error {
	size := func(delivery.Gap) int { return 128 }
	err := inParts(gaps, size, func(part []delivery.Gap) error {
		shards := make([]subscription.Shard, len(part))
		for i, g := range part {
			shards[i] = subscription.ShardOf(g.Subscription)
		}
		return r.db.engine.change(ctx, grows, r.db.lockShards(shards), func(b *pebble.Batch) error {
			return r.db.writeCursors(b, func(w *cursorWriter) error { return w.note(part) })
		})
	})
	if err != nil {
		return fmt.Errorf("restore gaps: %w", err)
	}
	return nil
}

// PutTopics stores the heads of logs and what is remembered of the last
// notifications. A log whose head is above stays as it is.
func (r *Restore) PutTopics(ctx context.Context, topics []delivery.TopicState) error {
	size := func(t delivery.TopicState) int { return len(t.Topic) + len(t.Last.Until) + 128 }
	err := inParts(topics, size, func(part []delivery.TopicState) error {
		ids := make([]topicID, len(part))
		for i, t := range part {
			if t.Head > delivery.MaxSeq {
				return fmt.Errorf("head %d of %q: %w", t.Head, t.Topic, errNumber)
			}
			ids[i] = topicIDOf(t.Topic)
		}
		return r.changeLogs(ctx, ids, func(_ *pebble.Batch, w *headWriter) error {
			for _, t := range part {
				if err := w.put(t); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("restore topics: %w", err)
	}
	return nil
}

// PutNotifications stores notifications under the numbers, ids and times that they
// have. The heads of their logs are at least as high from then on.
func (r *Restore) PutNotifications(ctx context.Context, notifications []*delivery.Notification) error {
	size := func(n *delivery.Notification) int { return len(n.Topic.Key()) + len(n.Body) + 512 }
	err := inParts(notifications, size, func(part []*delivery.Notification) error {
		ids := make([]topicID, len(part))
		for i, n := range part {
			if n.Seq == 0 || n.Seq > delivery.MaxSeq || n.After >= n.Seq {
				return fmt.Errorf("number %d after %d of %q: %w", n.Seq, n.After, n.Topic, errNumber)
			}
			ids[i] = topicIDOf(n.Topic.Key())
		}
		return r.changeLogs(ctx, ids, func(b *pebble.Batch, w *headWriter) error {
			return putNotifications(b, w, ids, part)
		})
	})
	if err != nil {
		return fmt.Errorf("restore notifications: %w", err)
	}
	return nil
}

func putNotifications(b *pebble.Batch, w *headWriter, ids []topicID, notifications []*delivery.Notification) error {
	for i, n := range notifications {
		place, head := logKey(kindHead, ids[i], uint64(n.Seq)), encodeHead(n)
		err := errors.Join(
			b.Set(place, head, nil),
			b.Set(logKey(kindBody, ids[i], uint64(n.Seq)), n.Body, nil),
			w.count(n, place, sizeOf(head, uint64(len(n.Body)))),
			w.raise(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// changeLogs makes one change of the topics' logs.
func (r *Restore) changeLogs(
	ctx context.Context, topics []topicID, build func(b *pebble.Batch, w *headWriter) error,
) error {
	return r.db.engine.change(ctx, grows, r.db.lockTopics(topics), func(b *pebble.Batch) error {
		w := &headWriter{log: r.db.Log(), states: make(map[string]topicState), sizes: make(map[string]int64)}
		return errors.Join(build(b, w), w.write(b))
	})
}

// headWriter raises the heads of logs, and counts what they take.
type headWriter struct {
	log    *Log
	states map[string]topicState // by key, as they will be
	sizes  map[string]int64      // of the notifications put, by their place
}

// count adds the notification to what its log takes, in place of the one that is
// there.
func (w *headWriter) count(n *delivery.Notification, place []byte, size int64) error {
	state, err := w.state(n.Topic.Key())
	if err != nil {
		return err
	}
	before, put := w.sizes[string(place)]
	if !put {
		if before, err = w.stored(place); err != nil {
			return err
		}
	}
	w.sizes[string(place)] = size
	state.bytes += size - before
	w.states[state.key] = state
	return nil
}

// stored is what the notification at the place counts for; 0 without one.
func (w *headWriter) stored(place []byte) (int64, error) {
	record, err := w.log.db.engine.get(place)
	if record == nil || errors.Is(err, ErrDamaged) {
		return 0, unlessDamaged(err)
	}
	_, bodyLen, err := decodeHead(seqOf(place), record)
	return sizeOf(record, bodyLen), unlessDamaged(err)
}

// unlessDamaged drops ErrDamaged: damaged records are overwritten.
func unlessDamaged(err error) error {
	if errors.Is(err, ErrDamaged) {
		return nil
	}
	return err
}

// raise raises the head to the notification, unless it is above.
func (w *headWriter) raise(n *delivery.Notification) error {
	state, err := w.state(n.Topic.Key())
	if err != nil || uint64(n.Seq) < state.head {
		return err
	}
	next := newTopicState(state.key, uint64(n.Seq), delivery.Last{ID: n.ID, Until: n.Until, Digest: n.Digest()})
	next.bytes = state.bytes
	switch {
	case next.head == state.head:
		next.previous = state.previous
	case uint64(n.After) == state.head:
		next.previous = state.until
	}
	w.states[state.key] = next
	return nil
}

// put sets the head and what is remembered of its notification, unless the head
// is above.
func (w *headWriter) put(t delivery.TopicState) error {
	state, err := w.state(t.Topic)
	if err != nil || uint64(t.Head) < state.head {
		return err
	}
	next := newTopicState(state.key, uint64(t.Head), t.Last)
	next.bytes = state.bytes
	if next.last == state.last {
		next.previous = state.previous
	}
	w.states[state.key] = next
	return nil
}

// state is what is known of the topic so far.
func (w *headWriter) state(key string) (topicState, error) {
	if state, known := w.states[key]; known {
		return state, nil
	}
	state, err := w.log.state(key)
	if err != nil {
		return topicState{}, fmt.Errorf("%q: %w", key, err)
	}
	state.key = key
	return state, nil
}

// write puts the heads in the batch.
func (w *headWriter) write(b *pebble.Batch) error {
	for key, state := range w.states {
		topic := topicIDOf(key)
		delete(w.log.db.topicLock(topic).states, topic)
		if err := b.Set(topicKey(kindTopic, topic), encodeTopic(state), nil); err != nil {
			return err
		}
	}
	return nil
}

// inParts calls put with one part of the list after the other, each of about
// restoreBytes.
func inParts[T any](list []T, size func(T) int, put func(part []T) error) error {
	for len(list) > 0 {
		n, bytes := 0, 0
		for n < len(list) && (n == 0 || bytes+size(list[n]) <= restoreBytes) {
			bytes += size(list[n])
			n++
		}
		if err := put(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

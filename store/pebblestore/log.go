package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"carillon/delivery"
)

// Log keeps the topics' notifications.
type Log struct{ db *DB }

var _ delivery.Log = (*Log)(nil)

// errNumbersUsed: no log comes to it by appends alone.
var errNumbersUsed = errors.New("the sequence numbers of the log are used up")

// Append implements delivery.Log. The next sequence number is known from the state
// that the append before has applied, durable or not: the write-ahead log keeps
// their order, so no number can be durable without those before it.
func (l *Log) Append(
	ctx context.Context, p delivery.Publication, id uuid.UUID, accepted time.Time,
) (delivery.Receipt, error) {
	key := p.Topic.Key()
	topic := topicIDOf(key)
	next := newTopicState(key, 0, delivery.Last{ID: id, Until: p.Until, Digest: p.Digest()})
	var receipt delivery.Receipt
	stripe := l.db.topicLock(topic)
	err := l.db.engine.change(ctx, grows, stripe, func(b *pebble.Batch) (err error) {
		state, known := stripe.states[topic]
		if !known || state.key != key {
			if state, err = l.state(key); err != nil {
				return err
			}
		}
		if repeats(state, next) {
			receipt = delivery.Receipt{
				ID: state.last, Seq: delivery.Seq(state.head), Repeated: true, Previous: state.previous,
			}
			return nil
		}
		next.head, next.previous = max(state.head, l.db.floor)+1, state.until
		if next.head > uint64(delivery.MaxSeq) {
			return errNumbersUsed
		}
		receipt = delivery.Receipt{ID: id, Seq: delivery.Seq(next.head), Previous: next.previous}
		n := delivery.Notification{
			Publication: p, ID: id, Seq: receipt.Seq, After: delivery.Seq(state.head), Accepted: accepted,
		}
		head := encodeHead(&n)
		next.bytes = state.bytes + sizeOf(head, uint64(len(p.Body)))
		err = errors.Join(
			b.Set(topicKey(kindTopic, topic), encodeTopic(next), nil),
			b.Set(logKey(kindHead, topic, next.head), head, nil),
			b.Set(logKey(kindBody, topic, next.head), p.Body, nil))
		if err == nil {
			stripe.remember(topic, next)
		}
		return err
	})
	if err != nil {
		return delivery.Receipt{}, fmt.Errorf("append to the log of %q: %w", key, err)
	}
	return receipt, nil
}

// repeats reports whether next is the publication that was appended last.
func repeats(last, next topicState) bool {
	return last.head > 0 && last.hasDigest && next.hasDigest && last.digest == next.digest
}

// state reads what is remembered of the topic; the zero state if nothing is.
func (l *Log) state(key string) (topicState, error) {
	record, err := l.db.engine.get(topicKey(kindTopic, topicIDOf(key)))
	if err != nil || record == nil {
		return topicState{}, err
	}
	state, err := decodeTopic(record)
	if err != nil {
		return topicState{}, fmt.Errorf("topic: %w", err)
	}
	if state.key != key {
		return topicState{}, fmt.Errorf("%w: the topic is stored as %q", ErrDamaged, state.key)
	}
	return state, nil
}

// Read implements delivery.Log.
func (l *Log) Read(ctx context.Context, key string, from delivery.Seq) (*delivery.Notification, error) {
	if err := l.db.engine.enter(ctx); err != nil {
		return nil, fmt.Errorf("read the log of %q: %w", key, err)
	}
	defer l.db.engine.leave()
	n, err := l.read(topicIDOf(key), uint64(from))
	if err != nil {
		return nil, fmt.Errorf("read the log of %q at %d: %w", key, from, err)
	}
	return n, nil
}

// maxDamaged is how many damaged notifications in a row are passed over one by one.
// A damaged block has fewer; those that came later are whole though they belong
// in its place, and a walk would pass over them.
const maxDamaged = 64

func (l *Log) read(topic topicID, from uint64) (*delivery.Notification, error) {
	n, err := l.next(topic, from, true)
	if err != nil {
		return nil, err
	}
	return &n.Notification, nil
}

// next finds the first notification with a number of at least from, with its body or
// without.
func (l *Log) next(topic topicID, from uint64, body bool) (stored, error) {
	for range maxDamaged {
		n, err := l.readAt(topic, from, body)
		if err != nil || n.whole {
			return n, err
		}
		if !n.there {
			break // trimmed, or the end
		}
		from++
	}
	w, err := l.heads(topic, from, math.MaxUint64)
	if err != nil {
		return stored{}, err
	}
	var found stored
	for ok := w.toFirst(); ok && err == nil && !found.whole; ok = w.next() {
		found, err = l.readAt(topic, seqOf(w.recordKey()), body)
	}
	if err := errors.Join(err, w.close()); err != nil {
		return stored{}, err
	}
	if !found.whole {
		return stored{}, delivery.ErrEndOfLog
	}
	return found, nil
}

// stored is what was found at a place of a log.
type stored struct {
	there bool // something
	whole bool // a notification
	delivery.Notification
	bodyLen uint64
}

// readAt reads the notification with exactly this number, with its body or without.
func (l *Log) readAt(topic topicID, seq uint64, body bool) (n stored, err error) {
	headKey, bodyKey := logKey(kindHead, topic, seq), logKey(kindBody, topic, seq)
	// Neither is ever written again, but by a restore over what is there.
	if l.db.engine.found.has(headKey) || l.db.engine.found.has(bodyKey) {
		return stored{there: true}, nil
	}
	key := headKey
	record, err := l.db.engine.get(key)
	if err == nil && record == nil {
		return stored{}, nil
	}
	if err == nil {
		n.Notification, n.bodyLen, err = decodeHead(seq, record)
	}
	if err == nil && body {
		key = bodyKey
		n.Body, err = l.db.engine.get(key)
		if err == nil && n.Body == nil {
			return stored{}, nil // trimmed meanwhile
		}
		if err == nil && uint64(len(n.Body)) != n.bodyLen {
			err = fmt.Errorf("%w: a body of %d bytes, not %d", ErrDamaged, len(n.Body), n.bodyLen)
		}
	}
	if errors.Is(err, ErrDamaged) {
		l.db.engine.damaged(key, err)
		return stored{there: true}, nil
	}
	n.there, n.whole = err == nil, err == nil
	return n, err
}

// heads walks the topic's notifications without their bodies, from from up to but
// not including end.
func (l *Log) heads(topic topicID, from, end uint64) (*walk, error) {
	return l.db.engine.walk(l.db.engine.db, logKey(kindHead, topic, from), logKey(kindHead, topic, end))
}

// Heads implements delivery.Log. With a topic among them whose state cannot be read
// it is ErrDamaged: a head that is not known is not 0.
func (l *Log) Heads(ctx context.Context, keys []string) ([]delivery.Seq, error) {
	if err := l.db.engine.enter(ctx); err != nil {
		return nil, fmt.Errorf("heads of logs: %w", err)
	}
	defer l.db.engine.leave()
	heads := make([]delivery.Seq, len(keys))
	for i, key := range keys {
		state, err := l.state(key)
		if errors.Is(err, ErrDamaged) {
			l.db.engine.damaged(topicKey(kindTopic, topicIDOf(key)), err)
		}
		if err != nil {
			return nil, fmt.Errorf("head of the log of %q: %w", key, err)
		}
		heads[i] = delivery.Seq(state.head)
	}
	if err := l.db.engine.settled(); err != nil {
		return nil, fmt.Errorf("heads of logs: %w", err)
	}
	return heads, nil
}

// State implements delivery.Log. A state that cannot be read is ErrDamaged.
func (l *Log) State(ctx context.Context, key string) (delivery.TopicState, error) {
	if err := l.db.engine.enter(ctx); err != nil {
		return delivery.TopicState{}, fmt.Errorf("state of the log of %q: %w", key, err)
	}
	defer l.db.engine.leave()
	state, err := l.state(key)
	if errors.Is(err, ErrDamaged) {
		l.db.engine.damaged(topicKey(kindTopic, topicIDOf(key)), err)
	}
	t := delivery.TopicState{Topic: key, First: 1}
	if err == nil && state.head > 0 {
		t, err = l.extent(state)
	}
	if err != nil {
		return delivery.TopicState{}, fmt.Errorf("state of the log of %q: %w", key, err)
	}
	return t, nil
}

// Keys implements delivery.Log. A state that cannot be read back has no key, either.
func (l *Log) Keys(ctx context.Context) iter.Seq2[string, error] {
	return records(ctx, l.db.engine, []byte{kindTopic}, func(_, value []byte) (string, error) {
		state, err := decodeTopic(value)
		return state.key, err
	})
}

// Topics implements delivery.Log.
func (l *Log) Topics(ctx context.Context) iter.Seq2[delivery.TopicState, error] {
	return func(yield func(delivery.TopicState, error) bool) {
		states := records(ctx, l.db.engine, []byte{kindTopic},
			func(_, value []byte) (topicState, error) { return decodeTopic(value) })
		for state, err := range states {
			var t delivery.TopicState
			if err == nil {
				t, err = l.extent(state)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// extent finds what is kept of a topic's log. A record that was appended after
// the state was read does not count, and one that was trimmed since may.
func (l *Log) extent(state topicState) (delivery.TopicState, error) {
	topic := topicIDOf(state.key)
	t := delivery.TopicState{
		Topic: state.key, Head: delivery.Seq(state.head), First: delivery.Seq(state.head + 1),
		Last: delivery.Last{ID: state.last, Until: state.until, Digest: state.digest},
	}
	w, err := l.heads(topic, 0, state.head+1)
	if err != nil {
		return delivery.TopicState{}, err
	}
	if w.toFirst() {
		seq := seqOf(w.recordKey())
		t.First, t.Bytes = delivery.Seq(seq), state.bytes
		if n, _, err := decodeHead(seq, w.value); err == nil {
			t.Oldest = n.Accepted
		}
	}
	if err := w.close(); err != nil {
		return delivery.TopicState{}, err
	}
	return t, nil
}

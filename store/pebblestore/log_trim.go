package pebblestore

import (
	"context"
	"fmt"
	"time"

	"carillon/delivery"
)

// trimStep is how many notifications go at once, while appends to their topic wait.
const trimStep = 1000

// trimming says what may go of a log: notifications from the oldest on, as long as
// all three hold.
type trimming struct {
	before    uint64 // those with numbers below
	keep      int64  // while the log takes more than this; -1: in any case
	olderThan time.Time
}

// Trim implements delivery.Log.
func (l *Log) Trim(
	ctx context.Context, key string, before delivery.Seq, olderThan time.Time,
) (delivery.Trimmed, error) {
	went, err := l.trim(ctx, key, trimming{uint64(before), -1, olderThan})
	if err != nil {
		return went, fmt.Errorf("trim the log of %q: %w", key, err)
	}
	return went, nil
}

// Shrink implements delivery.Log.
func (l *Log) Shrink(
	ctx context.Context, key string, keep int64, before delivery.Seq, olderThan time.Time,
) (delivery.Trimmed, error) {
	went, err := l.trim(ctx, key, trimming{uint64(before), max(keep, 0), olderThan})
	if err != nil {
		return went, fmt.Errorf("shrink the log of %q: %w", key, err)
	}
	return went, nil
}

// trim goes in steps, so that appends come in between.
func (l *Log) trim(ctx context.Context, key string, what trimming) (went delivery.Trimmed, err error) {
	if err := l.db.engine.enter(ctx); err != nil {
		return went, err
	}
	defer l.db.engine.leave()
	if err := l.db.engine.space.check(shrinks); err != nil {
		return went, err
	}
	for {
		some, err := l.trimSome(ctx, key, what)
		if err != nil {
			return went, err
		}
		went.Notifications += some.Notifications
		went.Bytes += some.Bytes
		if some.Notifications < trimStep {
			return went, nil
		}
	}
}

// trimSome makes one step. Appends wait meanwhile, as they and this one count
// what the log takes.
func (l *Log) trimSome(ctx context.Context, key string, what trimming) (went delivery.Trimmed, err error) {
	topic := topicIDOf(key)
	lock := l.db.topicLock(topic)
	lock.Lock()
	defer lock.Unlock()
	state, err := l.state(key)
	if err != nil || state.head == 0 {
		return went, err
	}
	var end uint64 // everything below it goes
	err = l.db.engine.sift(ctx, topicKey(kindHead, topic), func(at, value []byte) bool {
		seq := seqOf(at)
		if seq >= what.before || state.bytes-went.Bytes <= what.keep || went.Notifications == trimStep {
			return false
		}
		// A damaged record has no time; it goes with those around it.
		n, bodyLen, err := decodeHead(seq, value)
		if err == nil && !n.Accepted.Before(what.olderThan) {
			return false
		}
		end = seq + 1
		went.Notifications++
		went.Bytes = min(went.Bytes+sizeOf(value, bodyLen), state.bytes)
		return true
	})
	if err != nil || end == 0 {
		return delivery.Trimmed{}, err
	}
	if end > state.head {
		went.Bytes = state.bytes // what could not be read is gone as well
	}
	state.bytes -= went.Bytes
	if err := l.deleteBelow(topic, end, state); err != nil {
		return delivery.Trimmed{}, err
	}
	return went, nil
}

// deleteBelow deletes the topic's notifications below end, and stores its state,
// under the topic's lock.
func (l *Log) deleteBelow(topic topicID, end uint64, state topicState) error {
	delete(l.db.topicLock(topic).states, topic)
	b := l.db.engine.db.NewBatch()
	for _, kind := range []byte{kindHead, kindBody} {
		if err := b.DeleteRange(logKey(kind, topic, 0), logKey(kind, topic, end), nil); err != nil {
			return unavailable(err)
		}
	}
	if err := b.Set(topicKey(kindTopic, topic), encodeTopic(state), nil); err != nil {
		return unavailable(err)
	}
	return l.db.engine.lazily(b)
}

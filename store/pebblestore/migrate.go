package pebblestore

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// moveOn brings a store of layout 1 or 2 to what layout 3 has. Records of layouts 3 and 4
// are as those of layout 5.
func (e *engine) moveOn() error {
	if err := e.moveRequests(); err != nil {
		return err
	}
	return e.countLogs()
}

// moveBytes is about how much of what is moved goes into one batch.
const moveBytes = 1 << 20

// moveRequests gives the requests of layout 1 their place by shard, so that one
// shard's can be listed without all others. They are deleted when all are there:
// a move that was cut short is made again from its beginning. What cannot be
// read is lost, as it would be where it was.
func (e *engine) moveRequests() error {
	old := []byte{kindRequestByID}
	w, err := e.walk(e.db, old, keyEnd(old))
	if err != nil {
		return err
	}
	moved := 0
	b := e.db.NewBatch()
	for ok := w.first(); ok && err == nil; ok = w.next() {
		key := w.key()
		if len(key) != 1+idLen {
			e.damaged(key, ErrDamaged)
			continue
		}
		moved++
		if err = b.Set(requestKey(idOf(key)), w.value, nil); err == nil && b.Len() > moveBytes {
			err = e.commit(b)
			b = e.db.NewBatch()
		}
	}
	if err := errors.Join(err, w.close()); err != nil {
		return err
	}
	if moved == 0 {
		return b.Close()
	}
	if err := b.DeleteRange(old, keyEnd(old), nil); err != nil {
		return unavailable(err)
	}
	e.log.Info("requests were moved to their shards", "count", moved)
	return e.commit(b)
}

// countLogs adds what the logs take to the topics of layouts 1 and 2, once. Where it
// was cut short it goes on.
func (e *engine) countLogs() error {
	done, err := e.get(countedKey())
	if err != nil || done != nil {
		return err
	}
	b, counted := e.db.NewBatch(), 0
	var failed error
	err = e.sift(context.Background(), []byte{kindTopic}, func(key, record []byte) bool {
		state, err := decodeTopic(record)
		if err != nil || !uncounted(record) {
			return true // whoever reads a damaged one tells of it
		}
		counted++
		if failed = e.countLog(b, key, state); failed == nil && b.Len() > moveBytes {
			failed = e.commit(b)
			b = e.db.NewBatch()
		}
		return failed == nil
	})
	if err := errors.Join(err, failed, b.Set(countedKey(), []byte{1}, nil)); err != nil {
		return errors.Join(err, b.Close())
	}
	if counted > 0 {
		e.log.Info("what the logs of topics take was counted", "topics", counted)
	}
	return e.commit(b)
}

// countLog puts the state into the batch with what the topic's log takes.
func (e *engine) countLog(b *pebble.Batch, key []byte, state topicState) error {
	var err error
	if state.bytes, err = e.bytesOf(context.Background(), topicIDOf(state.key)); err != nil {
		return err
	}
	return b.Set(key, encodeTopic(state), nil)
}

// bytesOf adds up what the notifications of a topic take.
func (e *engine) bytesOf(ctx context.Context, topic topicID) (total int64, err error) {
	err = e.sift(ctx, topicKey(kindHead, topic), func(key, value []byte) bool {
		if _, bodyLen, err := decodeHead(seqOf(key), value); err == nil {
			total += sizeOf(value, bodyLen)
		}
		return true
	})
	return total, err
}

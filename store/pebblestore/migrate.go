package pebblestore

import (
	"errors"
)

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

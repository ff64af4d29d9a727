package pebblestore

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/notifier"
)

// forgetEvery is how much the events to let go must span, microseconds.
const forgetEvery = int64(time.Minute / time.Microsecond)

// Removed records leave markers in Pebble that reading passes, until it compacts. So bytes go key by
// key, which costs a few markers for a notification. Events go by ranges, one in forgetEvery, each
// beginning where the one before ended.

// forgetBody lets go the bytes of n.
func forgetBody(b *pebble.Batch, n *notifier.Notification) error {
	if n == nil {
		return nil
	}
	for chunk := range journalChunks(n.Size) {
		if err := b.Delete(journalBodyKey(*n, chunk), nil); err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// journalChunks is how many records the bytes of a notification have.
func journalChunks(size int64) int { return int((size + journalChunk - 1) / journalChunk) }

// forgetEvents lets go the events before n's end that are dated before keepFrom
// and that no Change List has; j.mu is held.
func (j *Journal) forgetEvents(b *pebble.Batch, n notifier.Notification, keepFrom time.Time) error {
	listed := j.lists[n.Set][0].From
	begin, end := j.gone[n.Set], min(keepFrom.UnixMicro(), n.Until.UnixMicro(), listed.UnixMicro())
	if end < begin+forgetEvery {
		return nil
	}
	from, to := journalEventKey(n.Set, begin), journalEventKey(n.Set, end)
	it, err := iterator(j.engine.db, from, to)
	if err != nil {
		return err
	}
	some := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return unavailable(err)
	}
	j.gone[n.Set] = end
	if !some {
		return nil
	}
	if err := b.DeleteRange(from, to, nil); err != nil {
		return unavailable(err)
	}
	return nil
}

// forgetStrays removes the leftovers of a process that ended in the middle: bytes of notifications
// without a record.
func (j *Journal) forgetStrays() error {
	b := j.engine.db.NewBatch()
	for set, ch := range j.channels {
		prefix := journalSetPrefix(kindJournalBody, set)
		it, err := iterator(j.engine.db, prefix, keyEnd(prefix))
		if err != nil {
			return errors.Join(err, b.Close())
		}
		for ok := it.First(); ok && err == nil; ok = it.Next() {
			if key := it.Key(); !journalKept(ch, key[len(prefix):]) {
				err = b.Delete(key, nil)
			}
		}
		if err := errors.Join(err, it.Error(), it.Close()); err != nil {
			return unavailable(errors.Join(err, b.Close()))
		}
	}
	return j.engine.lazily(b)
}

// journalKept reports whether a key of bytes, without its prefix, belongs to one of
// the channel's notifications.
func journalKept(ch *notifier.Channel, key []byte) bool {
	const size = 8 + 4
	for _, n := range []*notifier.Notification{ch.Sealed, ch.Accepted} {
		if n != nil && len(key) == size && int64(binary.BigEndian.Uint64(key)) == n.From.UnixMicro() &&
			int64(binary.BigEndian.Uint32(key[8:])) < int64(journalChunks(n.Size)) {
			return true
		}
	}
	return false
}

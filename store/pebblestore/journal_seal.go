package pebblestore

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/notifier"
)

// Seal implements notifier.Journal. The bytes are written first, then the record
// that makes them the outstanding notification: the write-ahead log keeps that
// order, so the record is never durable without all of the bytes.
func (j *Journal) Seal(ctx context.Context, n notifier.Notification, body []byte) (err error) {
	defer journalDoing(&err, "seal a notification of", n.Set)
	n = journalRounded(n)
	n.Size = int64(len(body))
	if err := j.next(n); err != nil {
		return err
	}
	if err := j.putBody(ctx, n, body); err != nil {
		return err
	}
	return j.engine.change(ctx, shrinks, &j.mu, func(b *pebble.Batch) error {
		ch := j.channels[n.Set]
		ch.Sealed, ch.Next = &n, n.Until
		// Later events are behind the interval.
		j.last = max(j.last, n.Until.UnixMicro()-1)
		if err := putLast(b, j.last); err != nil {
			return err
		}
		return putChannel(b, ch)
	})
}

// next reports whether n may be sealed now.
func (j *Journal) next(n notifier.Notification) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	ch := j.channels[n.Set]
	switch {
	case ch == nil:
		return notifier.ErrNoSet
	case ch.Sealed != nil:
		return fmt.Errorf("%w: another is outstanding", notifier.ErrOutOfOrder)
	case !n.From.Equal(ch.Next) || !n.Until.After(n.From):
		return fmt.Errorf("%w: from %s until %s, next is %s", notifier.ErrOutOfOrder, n.From, n.Until, ch.Next)
	}
	return nil
}

// putBody writes the bytes in chunks, none of them durable yet.
func (j *Journal) putBody(ctx context.Context, n notifier.Notification, body []byte) error {
	if err := j.engine.enter(ctx); err != nil {
		return err
	}
	defer j.engine.leave()
	if err := j.engine.space.check(shrinks); err != nil {
		return err
	}
	for chunk := 0; len(body) > 0; chunk++ {
		size := min(len(body), journalChunk)
		b := j.engine.db.NewBatch()
		if err := b.Set(journalBodyKey(n, chunk), body[:size], nil); err != nil {
			return unavailable(err)
		}
		if err := j.engine.lazily(b); err != nil {
			return err
		}
		body = body[size:]
	}
	return nil
}

// Accept implements notifier.Journal.
func (j *Journal) Accept(ctx context.Context, n notifier.Notification, keepFrom time.Time) (err error) {
	defer journalDoing(&err, "note an accepted notification of", n.Set)
	n = journalRounded(n)
	return j.engine.change(ctx, shrinks, &j.mu, func(b *pebble.Batch) error {
		ch := j.channels[n.Set]
		switch {
		case ch == nil:
			return notifier.ErrNoSet
		case ch.Sealed == nil && journalSame(ch.Accepted, n):
			return nil
		case !journalSame(ch.Sealed, n):
			return notifier.ErrOutOfOrder
		}
		if err := forgetBody(b, ch.Accepted); err != nil {
			return err
		}
		ch.Accepted, ch.Sealed = ch.Sealed, nil
		if err := putChannel(b, ch); err != nil {
			return err
		}
		return j.forgetEvents(b, *ch.Accepted, keepFrom)
	})
}

// Body implements notifier.Journal. The reader works on a snapshot; it holds one
// chunk at a time.
func (j *Journal) Body(ctx context.Context, n notifier.Notification) (io.ReadCloser, error) {
	n = journalRounded(n)
	if err := j.engine.enter(ctx); err != nil {
		return nil, fmt.Errorf("read a notification of %s: %w", n.Set, journalError(err))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	ch := j.channels[n.Set]
	var kept *notifier.Notification
	switch {
	case ch == nil:
	case journalSame(ch.Sealed, n):
		kept = ch.Sealed
	case journalSame(ch.Accepted, n):
		kept = ch.Accepted
	}
	if kept == nil {
		j.engine.leave()
		return nil, notifier.ErrGone
	}
	return &journalBody{engine: j.engine, snapshot: j.engine.db.NewSnapshot(), n: *kept, left: kept.Size}, nil
}

// journalBody reads a notification's chunks.
type journalBody struct {
	engine *engine

	mu       sync.Mutex       // guards the rest: Close may come while Read is running
	snapshot *pebble.Snapshot // nil once closed
	n        notifier.Notification
	chunk    int    // the next one
	buffer   []byte // the rest of the last one
	left     int64  // bytes not yet in buffer
}

func (r *journalBody) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buffer) == 0 {
		if r.left == 0 && r.snapshot != nil {
			return 0, io.EOF
		}
		if err := r.fill(); err != nil {
			return 0, journalError(err)
		}
	}
	n := copy(p, r.buffer)
	r.buffer = r.buffer[n:]
	return n, nil
}

func (r *journalBody) fill() error {
	if r.snapshot == nil {
		return unavailable(errClosed)
	}
	value, closer, err := r.snapshot.Get(journalBodyKey(r.n, r.chunk))
	if err != nil {
		return unavailable(fmt.Errorf("read a notification: %w", err))
	}
	r.buffer = append([]byte(nil), value...)
	if int64(len(r.buffer)) > r.left {
		r.buffer = r.buffer[:r.left]
	}
	r.left -= int64(len(r.buffer))
	r.chunk++
	if err := closer.Close(); err != nil {
		return unavailable(err)
	}
	return nil
}

// Close ends reading.
func (r *journalBody) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshot == nil {
		return nil
	}
	err := r.snapshot.Close()
	r.snapshot, r.buffer = nil, nil
	r.engine.leave()
	return err
}

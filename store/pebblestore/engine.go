package pebblestore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// engine is Pebble with the manners that every store here needs: it refuses
// instead of panicking when it is closed or broken, it makes changes durable,
// and it reads records back with suspicion.
type engine struct {
	db     *pebble.DB
	cache  *pebble.Cache // Pebble's; open as long as it is
	once   int           // how much of the cache is closed while something is read only once
	log    *slog.Logger
	space  *space
	unlock io.Closer // releases the directory
	fatal  func(error)

	mu     sync.RWMutex
	closed bool           // guarded by mu
	users  sync.WaitGroup // calls inside; Add only under mu and not closed

	unsynced atomic.Int64 // batches that readers see and that may not be durable yet

	begun   atomic.Bool           // Pebble is open
	opened  atomic.Bool           // from when on failing is fatal
	failure atomic.Pointer[error] // why nothing can be written any more
	broken  chan struct{}         // closed when failure is set
	found   damage
	stuck   atomic.Bool // Pebble panicked within a write: it cannot even be closed
}

// enter begins a call; leave ends it. In between Pebble stays open.
func (e *engine) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.failed(); err != nil {
		return err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return unavailable(errClosed)
	}
	e.users.Add(1)
	return nil
}

func (e *engine) leave() { e.users.Done() }

// failed is the error that ended all writing, if one did.
func (e *engine) failed() error {
	if err := e.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// ended reports whether nothing will be written any more: it is closed, or broken.
func (e *engine) ended() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.closed || e.failed() != nil
}

// fail records that Pebble cannot write any more.
func (e *engine) fail(cause error) error {
	err := unavailable(cause)
	if e.failure.CompareAndSwap(nil, &err) {
		close(e.broken)
		if e.opened.Load() {
			e.fatal(err)
		}
	}
	return e.failed()
}

// close waits for the calls that are inside and closes Pebble.
func (e *engine) close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	e.space.stop()
	e.users.Wait()
	if e.stuck.Load() {
		return fmt.Errorf("close the store: %w", e.failed())
	}
	err := e.db.Close()
	if err == nil && e.failed() == nil {
		e.testify(true)
	}
	if err := errors.Join(err, e.unlock.Close()); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// testify notes how long the files are, if it can.
func (e *engine) testify(closed bool) {
	if err := testify(e.space.fs, e.space.dir, closed); err != nil {
		e.log.Warn(
			"it cannot be noted how long the store's files are: it would not be seen if one was cut short",
			"error", err,
		)
	}
}

// change makes one change: build reads what it must and fills the batch, alone
// under the lock; the change is applied under the lock too, so that the next
// holder sees it; then, outside the lock, it waits for the sync, which changes
// that were applied meanwhile share. An empty batch waits all the same, for
// whatever build has seen.
func (e *engine) change(ctx context.Context, g growth, lock sync.Locker, build func(*pebble.Batch) error) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.leave()
	if err := e.space.check(g); err != nil {
		return err
	}
	b := e.db.NewBatch()
	if err := e.buildAndApply(b, lock, build); err != nil {
		return err
	}
	return e.sync(b)
}

func (e *engine) buildAndApply(b *pebble.Batch, lock sync.Locker, build func(*pebble.Batch) error) error {
	lock.Lock()
	defer lock.Unlock()
	if err := build(b); err != nil {
		_ = b.Close()
		return err
	}
	return e.apply(b)
}

// apply puts the batch in Pebble's write-ahead log, in order, and before the eyes of
// readers, but does not wait for the disk.
func (e *engine) apply(b *pebble.Batch) (err error) {
	// When the write-ahead log has failed, and Fatal returned, Pebble panics
	// with its own lock held: it is of no use afterwards.
	defer func() {
		if r := recover(); r != nil {
			e.stuck.Store(true)
			err = e.fail(fmt.Errorf("write-ahead log: %v", r))
		}
	}()
	if b.Empty() {
		if err := b.LogData(nil, nil); err != nil {
			return unavailable(err)
		}
	}
	e.unsynced.Add(1)
	if err := e.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
		e.unsynced.Add(-1)
		return unavailable(err)
	}
	// Pebble reports some failures to its Logger only (Fatalf); a sync would
	// then never come.
	return e.failed()
}

// sync waits until an applied batch is durable.
func (e *engine) sync(b *pebble.Batch) error {
	if err := b.SyncWait(); err != nil {
		return e.fail(fmt.Errorf("sync the write-ahead log: %w", err))
	}
	e.unsynced.Add(-1)
	if err := b.Close(); err != nil {
		return unavailable(err)
	}
	return nil
}

// commit applies a batch and waits until it is durable.
func (e *engine) commit(b *pebble.Batch) error {
	if err := e.apply(b); err != nil {
		return err
	}
	return e.sync(b)
}

// settled waits until what was read before is durable: readers see changes that a
// process which is killed now would have lost.
func (e *engine) settled() error {
	if e.unsynced.Load() == 0 {
		return nil
	}
	return e.commit(e.db.NewBatch())
}

// lazily applies a batch without making it durable.
func (e *engine) lazily(b *pebble.Batch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			e.stuck.Store(true)
			err = e.fail(fmt.Errorf("write-ahead log: %v", r))
		}
	}()
	if err := e.db.Apply(b, pebble.NoSync); err != nil {
		return unavailable(err)
	}
	if err := e.failed(); err != nil {
		return err
	}
	return b.Close()
}

// get reads one record; nil without one, and ErrDamaged if it is in a part
// of a file that is. The bytes are the caller's.
func (e *engine) get(key []byte) ([]byte, error) {
	value, closer, err := e.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, readError(err)
	}
	record := append(make([]byte, 0, len(value)), value...)
	if err := closer.Close(); err != nil {
		return nil, unavailable(err)
	}
	return record, nil
}

// iterator walks the keys from lower up to, but not including, upper.
func iterator(r pebble.Reader, lower, upper []byte) (*pebble.Iterator, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, readError(err)
	}
	return it, nil
}

// onceCache is the cache that is left for what is read only once: room for the
// indexes of the tables.
const onceCache = 4 << 20

// damaged logs, once for each key, a record that is left out, or records behind it in a block that is.
func (e *engine) damaged(key []byte, err error) {
	if count, added := e.found.add(key); added {
		e.log.Error("a stored record is left out, or those behind it", "kind", kindNames[key[0]],
			"key", hex.EncodeToString(key), "count", count, "error", err)
	}
}

// readOnce keeps the reads until its end out of memory: a start reads everything, and the process
// would have the cache's whole size from its first minute on.
func (e *engine) readOnce() (end func()) { return e.cache.Reserve(e.once) }

// scan calls each with the records whose keys begin with prefix, in order, until it returns stop; an
// unreadable record ends it. Key and value are valid within the call only.
func (e *engine) scan(ctx context.Context, prefix []byte, each func(key, value []byte) (more bool)) error {
	it, err := iterator(e.db, prefix, keyEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, it.Close())
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return readError(errors.Join(err, it.Close()))
		}
		if !each(it.Key(), value) {
			break
		}
	}
	if err := it.Close(); err != nil {
		return readError(err)
	}
	return nil
}

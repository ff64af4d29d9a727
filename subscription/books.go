package subscription

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// bookLocks is how many locks the books are split over: IDs that share one wait
// for each other's writes.
const bookLocks = 256

// books is the store together with the roster, which follows it. A change for an ID is made under that
// ID's lock, so that the roster hears of changes in the order in which they were made. A process that
// has lost a shard without knowing may still change it. A change that finds the store in another state
// reads it and informs the roster.
//
// A call of the store that failed may have been carried out all the same. The ID is then in doubt, and
// the roster may be behind the store, until a later call succeeds or reconcile looks.
type books struct {
	store  Store
	roster Roster
	// locks are channels and not mutexes so that waiting ends with a context.
	locks [bookLocks]chan struct{}

	mu     sync.Mutex
	doubts map[ID]struct{} // owned by mu
}

func newBooks(store Store, roster Roster) *books {
	b := &books{store: store, roster: roster, doubts: make(map[ID]struct{})}
	for i := range b.locks {
		b.locks[i] = make(chan struct{}, 1)
	}
	return b
}

// storable gives the time as every engine can keep it: without the reading of
// the monotonic clock, and no finer than Redis scripts count exactly.
func storable(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// lock waits for the ID's lock, at most until ctx ends.
func (b *books) lock(ctx context.Context, id ID) (unlock func(), err error) {
	l := b.locks[id[0]]
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: waiting for an earlier call: %w", ErrUnavailable, ctx.Err())
	}
}

// submit keeps the request. The caller holds the lock.
func (b *books) submit(ctx context.Context, r Request) error {
	return trouble(b.store.Submit(ctx, r))
}

// drop settles the request without touching the subscription. The caller holds the lock.
func (b *books) drop(ctx context.Context, r Request) error {
	return trouble(b.store.Drop(ctx, r))
}

// activate settles a subscribe request: the subscription begins at the request's Start,
// or is renewed. Its lease counts from asked. The caller holds the lock.
func (b *books) activate(ctx context.Context, r Request, asked time.Time) (renewed bool, err error) {
	sub := Subscription{
		ID: r.ID, Topic: r.Topic, Callback: r.Callback, Secret: r.Secret,
		Start: r.Start, Lease: r.Lease, Expires: storable(asked.Add(r.Lease)), Created: storable(asked),
	}
	switch old, err := b.store.Get(ctx, r.ID); {
	case err == nil && renews(r, old):
		// A subscription left by an earlier attempt is no renewal.
		renewed = !old.Created.Equal(sub.Created)
		sub.Start, sub.Created = old.Start, old.Created
	case err != nil && !errors.Is(err, ErrNotFound):
		return false, trouble(err)
	}
	err = b.store.Activate(ctx, r, sub)
	switch {
	case err == nil:
		b.roster.Activated(sub)
		b.certain(r.ID)
		return renewed, nil
	case errors.Is(err, ErrSuperseded):
		stored, found, lookErr := b.look(ctx, r.ID)
		if lookErr != nil {
			return false, lookErr
		}
		if found && stored.Expires.Equal(sub.Expires) && stored.Secret == sub.Secret {
			return renewed, nil // carried out by the call that seemed to fail
		}
		return false, err
	}
	b.doubt(r.ID)
	return false, trouble(err)
}

// renews reports whether the request was received while the lease of old stood. It then
// renews old, however long its verification takes. A request that replaces a renewal whose
// callback was asked is a renewal, too.
func renews(r Request, old Subscription) bool {
	received := r.Received
	if !r.Since.IsZero() && r.Since.Before(received) {
		received = r.Since
	}
	return old.Expires.After(received)
}

// unsubscribe settles an unsubscribe request. The caller holds the lock.
func (b *books) unsubscribe(ctx context.Context, r Request) error {
	err := b.store.Unsubscribe(ctx, r)
	switch {
	case err == nil:
		b.roster.Ended(r.ID)
		b.certain(r.ID)
		return nil
	case errors.Is(err, ErrSuperseded):
		inDoubt := b.doubted(r.ID)
		_, found, lookErr := b.look(ctx, r.ID)
		if lookErr != nil {
			return lookErr
		}
		if inDoubt && !found {
			return nil // carried out by the call that seemed to fail
		}
		return err
	}
	b.doubt(r.ID)
	return trouble(err)
}

// remove ends a subscription without a request. It returns ErrNotFound if it does not exist and
// ErrSuperseded if it was renewed since sub was read. The caller holds the lock.
func (b *books) remove(ctx context.Context, sub Subscription) error {
	removed, err := b.store.Remove(ctx, sub)
	switch {
	case err != nil:
		b.doubt(sub.ID)
		return trouble(err)
	case removed:
		b.roster.Ended(sub.ID)
		b.certain(sub.ID)
		return nil
	}
	inDoubt := b.doubted(sub.ID)
	_, found, err := b.look(ctx, sub.ID)
	switch {
	case err != nil:
		return err
	case found:
		return fmt.Errorf("the subscription was renewed: %w", ErrSuperseded)
	case inDoubt:
		return nil // carried out by the call that seemed to fail
	}
	return ErrNotFound
}

// look reads the subscription and gives the roster its present state. The caller holds the lock.
func (b *books) look(ctx context.Context, id ID) (sub Subscription, found bool, err error) {
	sub, err = b.store.Get(ctx, id)
	switch {
	case err == nil:
		b.roster.Activated(sub)
	case errors.Is(err, ErrNotFound):
		b.roster.Ended(id)
	default:
		return Subscription{}, false, trouble(err)
	}
	b.certain(id)
	return sub, err == nil, nil
}

// forget drops the doubts about a shard that is another process's.
func (b *books) forget(shard Shard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.doubts {
		if ShardOf(id) == shard {
			delete(b.doubts, id)
		}
	}
}

// reconcile brings the roster level with the store for every ID in doubt. It
// stops at the first trouble.
func (b *books) reconcile(ctx context.Context, timeout time.Duration) error {
	b.mu.Lock()
	ids := make([]ID, 0, len(b.doubts))
	for id := range b.doubts {
		ids = append(ids, id)
	}
	b.mu.Unlock()
	for _, id := range ids {
		if err := b.settleDoubt(ctx, id, timeout); err != nil {
			return err
		}
	}
	return nil
}

func (b *books) settleDoubt(ctx context.Context, id ID, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	unlock, err := b.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if !b.doubted(id) {
		return nil
	}
	_, _, err = b.look(ctx, id)
	return err
}

func (b *books) doubt(id ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doubts[id] = struct{}{}
}

func (b *books) certain(id ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.doubts, id)
}

func (b *books) doubted(id ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.doubts[id]
	return ok
}

// trouble makes a call that ran out of time ErrUnavailable, as an engine itself
// may not know that it did.
func trouble(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// health is whether the store works, as far as its last call says.
type health struct {
	failing atomic.Bool
	metrics *metrics
	logger  *slog.Logger
}

// failed notes trouble with the store: in the log when it begins, so that
// it is not there once for every request that waits, and in the metrics always.
func (h *health) failed(doing string, err error) {
	h.metrics.storeErrors.Inc()
	// An unknown kind of trouble may not pass by itself and is always shown.
	if h.failing.CompareAndSwap(false, true) || !errors.Is(err, ErrUnavailable) {
		h.logger.Warn("the store has trouble; trying again until it works", "doing", doing, "error", err)
	}
}

// works records that the store works.
func (h *health) works() {
	if h.failing.Load() && h.failing.CompareAndSwap(true, false) {
		h.logger.Info("the store works again")
	}
}

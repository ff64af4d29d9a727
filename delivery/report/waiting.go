package report

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"carillon/delivery"
)

// Bounds of the search for the oldest notification that a subscription waits for.
const (
	// oldestEvery is for how long it counts what was found.
	oldestEvery = 10 * time.Second
	// maxOldestReads is how many logs are read for it: of further ones it is not known yet
	// how old what waits there is. Those that stand where they stood are not read again.
	maxOldestReads = 1000
)

// waiting remembers what was found.
type waiting struct {
	mu    sync.Mutex
	asked time.Time // owned by mu
	found atomic.Pointer[time.Time]
	known map[string]waitsSince // by the topic's key. Owned by mu.
}

// latest returns the last result; zero: no subscription waits.
func (w *waiting) latest() time.Time {
	if found := w.found.Load(); found != nil {
		return *found
	}
	return time.Time{}
}

// waitsSince is from when the first notification behind a place in a log is.
type waitsSince struct {
	settled  delivery.Seq
	accepted time.Time
}

// OldestWaiting is when the oldest notification was accepted that a subscription here has still to
// get, as found within the last seconds; zero: no subscription waits. Replays do not count: their
// subscriptions had the notification before. Unreadable notifications are passed over.
func (r *Reports) OldestWaiting(ctx context.Context) time.Time {
	o := &r.waiting
	if !o.mu.TryLock() {
		return o.latest() // another search runs at this moment
	}
	defer o.mu.Unlock()
	now := time.Now()
	if !o.asked.IsZero() && now.Sub(o.asked) < oldestEvery {
		return o.latest()
	}
	o.asked = now
	var found time.Time
	known, reads := map[string]waitsSince{}, 0
	for key, settled := range r.table.Behind() {
		w, same := o.known[key]
		if same = same && w.settled == settled; !same {
			if reads++; reads > maxOldestReads || ctx.Err() != nil {
				continue
			}
			first, err := r.records.Summary(ctx, key, settled+1)
			if err != nil && !errors.Is(err, delivery.ErrEndOfLog) {
				continue
			}
			w = waitsSince{settled, first.Accepted}
		}
		known[key] = w
		if !w.accepted.IsZero() && (found.IsZero() || w.accepted.Before(found)) {
			found = w.accepted
		}
	}
	o.known = known
	o.found.Store(&found)
	return found
}

// LatestWaiting returns what OldestWaiting found last, without looking.
func (r *Reports) LatestWaiting() time.Time { return r.waiting.latest() }

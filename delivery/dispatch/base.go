package dispatch

import (
	"log/slog"
	"sync"
	"time"

	"carillon/internal/wallclock"
)

// base is what all parts share. Nothing of it changes.
type base struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	wall    *wallclock.Clock // what the schedule goes by
	kicked  chan struct{}    // a signal: the schedule changed
}

// now is the wall clock as far as it is believed, Unix nanoseconds.
func (b *base) now() int64 { return b.nowBy(time.Now()) }

// nowBy is now, given the system's time.
func (b *base) nowBy(system time.Time) int64 { return b.wall.At(system) }

// ageOf is how old something is, less than 0 where it lies ahead.
func (b *base) ageOf(accepted time.Time) time.Duration {
	return time.Duration(b.now() - accepted.UnixNano())
}

// kick wakes the schedule's loop.
func (b *base) kick() { signal(b.kicked) }

// signal leaves a signal unless one is waiting already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// trouble is a stretch of time in which calls of one kind fail. The log has one line of its
// beginning and one of its end.
type trouble struct {
	mu     sync.Mutex
	since  time.Time // guarded by mu; zero without one
	latest time.Time // guarded by mu: the latest failure
	failed int       // guarded by mu
}

// calm is how long no call has failed when a trouble is over: while a part of the engine is
// away, calls about others succeed.
const calm = 2 * engineRetryMax

// failure records a failed call and reports whether that is a new trouble.
func (t *trouble) failure() (begins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.latest = time.Now()
	t.failed++
	if begins = t.since.IsZero(); begins {
		t.since = t.latest
	}
	return begins
}

// success records that a call has succeeded, and reports whether a trouble is over, how many calls
// failed in it, and how long it took.
func (t *trouble) success() (ends bool, failed int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() || time.Since(t.latest) < calm {
		return false, 0, 0
	}
	return t.end()
}

// over ends the trouble at once.
func (t *trouble) over() (ends bool, failed int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		return false, 0, 0
	}
	return t.end()
}

// end forgets the trouble. The caller holds mu.
func (t *trouble) end() (ends bool, failed int, took time.Duration) {
	failed, took = t.failed, t.latest.Sub(t.since).Round(time.Millisecond)
	t.since, t.failed = time.Time{}, 0
	return true, failed, took
}

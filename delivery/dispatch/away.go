package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"carillon/delivery"
	"carillon/internal/await"
)

// An engine may be spread over several servers. While one of them is away, what it keeps
// waits, and everything else goes on:
//
//	ErrPartAway from a read   the deliveries of that topic rest
//	*HeadsError               those heads are read again, the others count
//	*SaveError                no attempt of those shards starts until they are saved
//
// Every other ErrUnavailable concerns the engine as a whole: then all deliveries pause.

// awayRetryMax is the longest pause between two tries to save what a part of the engine that
// is away keeps.
const awayRetryMax = time.Second

// sideline has no attempt of a shard start until its positions are saved. Its outcomes
// do not delay other shards. mu is held.
func (d *Dispatcher) sideline(sh *shardTable) {
	if !sh.away {
		sh.away = true
		d.unsaved -= sh.unsaved
	}
	signal(d.awaySoon)
}

// sidelined counts the shards whose positions are not saved, as what keeps them is away.
func (d *Dispatcher) sidelined() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, sh := range d.shards {
		if sh != nil && sh.away {
			n++
		}
	}
	return n
}

// reinstate counts a shard among the healthy ones, as its positions were saved. It is for
// the caller to resume it. mu is held.
func (d *Dispatcher) reinstate(sh *shardTable) {
	sh.away = false
	d.unsaved += sh.unsaved
	if sh.unsaved > 0 {
		signal(d.flushSoon)
	}
}

// resume has the entries of a shard looked at that were passed over while no attempt of its own
// could start. It returns false if the shard is lost.
func (d *Dispatcher) resume(sh *shardTable) (held bool) {
	now := d.now()
	held = d.eachEntry(sh, func(e *entry) {
		if e.state == idle {
			d.place(e, now)
		}
	})
	d.kick()
	return held
}

// awayLoop saves the positions of shards that are sidelined, until ctx ends.
func (d *Dispatcher) awayLoop(ctx, saves context.Context) {
	pause := enginePause()
	pause.MaxInterval = awayRetryMax
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.awaySoon:
		}
		for d.save(saves, sidelined) != nil {
			if await.For(ctx, pause.NextBackOff()) != nil {
				return
			}
		}
		pause.Reset()
		if ends, failed, took := d.parts.over(); ends {
			d.log.Info("positions of all shards are saved again", "failed", failed, "after", took)
		}
	}
}

// rest leaves an entry alone whose log could not be read, and with it all of its topic: those
// that failed together count as one. mu is held.
func (d *Dispatcher) rest(e *entry, now int64) {
	t := e.topic
	if now >= t.resting {
		t.resting = now + int64(min(engineRetryFirst<<min(t.rests, 10), engineRetryMax))
		t.rests++
	}
	d.await(e, t.resting)
}

// rests reports whether an entry waits as its log could not be read, and has it wait. One whose
// notification is in memory need not. mu is held.
func (d *Dispatcher) rests(e *entry, now int64) bool {
	if e.topic.resting <= now {
		return false
	}
	if nt, _ := e.topic.wants(e.from()); nt != nil {
		return false
	}
	d.await(e, e.topic.resting)
	return true
}

// trouble is a stretch of time in which calls of one kind fail. The log has one line of its
// beginning and one of its end.
type trouble struct {
	mu     sync.Mutex
	since  time.Time // guarded by mu; zero: there is none
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

// success notes that a call has succeeded, and reports whether a trouble is over, how many calls
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

// readFailed counts and logs a read that will be tried again: trouble with the engine when it
// begins, anything else each time.
func (d *Dispatcher) readFailed(ctx context.Context, msg, topic string, err error) {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return // the end of Run
	}
	d.metrics.readFails.Inc()
	if !errors.Is(err, delivery.ErrUnavailable) || d.reads.failure() {
		d.log.Warn(msg, "topic", topic, "error", err)
	}
}

// readWorked notes that a log could be read.
func (d *Dispatcher) readWorked() {
	if ends, failed, took := d.reads.success(); ends {
		d.log.Info("logs can be read again", "failed", failed, "after", took)
	}
}

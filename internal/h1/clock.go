package h1

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// How often a Client looks for what is due: a 32nd of the timeout, so that little
// is added to it, and not more often or seldom than these.
const (
	minTick = time.Millisecond
	maxTick = 100 * time.Millisecond
)

// keptWatches is how many watches of contexts without a request are kept until the
// next look: a caller comes back with the same one.
const keptWatches = 8

// errCancelled: the context of the request ended. Callers get the cause.
var errCancelled = errors.New("cancelled")

// longAgo is a deadline that has passed: it ends what waits.
var longAgo = time.Unix(1, 0)

// clock breaks requests off at their deadline and when their context ends, without
// a timer or a hook for each. All have the same timeout, so that a list in the order of their
// beginning is nearly in that of their deadlines: extend moves a few back. One timer
// for all looks at its head, and at the oldest idle connection. It runs only while
// there is something to look for. pool.mu guards all below tick.
type clock struct {
	mu         *sync.Mutex // pool.mu
	epoch      time.Time   // what its times are counted from
	timeout    time.Duration
	errTimeout error
	errWait    error
	sweep      func() // what the timer calls

	tick    time.Duration
	timer   *time.Timer // nil until it is needed
	ticking bool        // it goes off within a tick
	begun   bool        // something began since it last went off
	// seen is the latest time that was looked at: not after now, and near it wherever
	// much is going on. It saves a look at the clock for each connection given back.
	seen        time.Duration
	first, last *exchange // the exchanges under way
	untimed     int       // exchanges of RoundTrip under way: these have hooks of their own

	watches map[<-chan struct{}]*watch // by the Done of their contexts
	latest  *watch                     // the one asked for last, nil if it is gone
}

func newClock(mu *sync.Mutex, timeout time.Duration, sweep func()) clock {
	const late = "%s within %s: %w"
	return clock{
		mu: mu, epoch: time.Now(), timeout: timeout, sweep: sweep,
		errTimeout: fmt.Errorf(late, "no answer", timeout, context.DeadlineExceeded),
		errWait:    fmt.Errorf(late, "no connection became free", timeout, context.DeadlineExceeded),
		tick:       min(max(timeout/32, minTick), maxTick),
		watches:    map[<-chan struct{}]*watch{},
	}
}

// elapsed is the time since the Client was made: cheaper than a time.Time.
func (c *clock) elapsed() time.Duration { return time.Since(c.epoch) }

// expire breaks off what is beyond its deadline. mu is held.
func (c *clock) expire(now time.Duration) {
	c.seen = max(c.seen, now)
	for x := c.first; x != nil && x.deadline <= now; x = c.first {
		if x.waiter != nil {
			if c.extend(x.waiter); x.deadline > now {
				continue
			}
		}
		c.breakOff(x, c.errTimeout)
		c.unlink(x)
	}
}

// again sets the timer if a request or a context is still to be watched, and reports whether it did.
// It forgets the contexts without a use since the last time. mu is held.
func (c *clock) again() bool {
	for _, w := range c.watches {
		if w.users == 0 && !w.recent {
			c.unwatch(w)
		}
		w.recent = false
	}
	c.ticking = c.first != nil || c.untimed > 0 || c.begun || len(c.watches) > 0
	c.begun = false
	if c.ticking {
		c.arm(c.tick)
	}
	return c.ticking
}

// enlist records that an exchange begins. mu is held.
func (c *clock) enlist(ctx context.Context, x *exchange, now time.Duration) {
	x.deadline = now + c.timeout
	x.broken, x.conn, x.waiter = nil, nil, nil
	c.begun = true
	if !c.ticking {
		c.ticking = true
		c.arm(c.tick)
	}
	if x.untimed {
		x.deadline = math.MaxInt64
		c.untimed++
		return
	}
	c.link(x)
	if x.watch = c.watchOf(ctx); x.watch != nil {
		x.watch.users++
		x.watch.recent = true
		if x.watch.ended {
			c.breakOff(x, errCancelled)
		}
	}
}

// delist records that an exchange is over. mu is held.
func (c *clock) delist(x *exchange) {
	c.unlink(x)
	x.conn = nil
	if x.untimed {
		x.untimed = false
		c.untimed--
	}
	if w := x.watch; w != nil {
		x.watch = nil
		if w.users--; w.users == 0 && len(c.watches) > keptWatches {
			c.unwatch(w)
		}
	}
}

// link puts an exchange into the list, at its end or not far from it. mu is held.
func (c *clock) link(x *exchange) {
	x.listed = true
	before := c.last
	for before != nil && before.deadline > x.deadline {
		before = before.prev
	}
	if x.prev = before; before != nil {
		x.next, before.next = before.next, x
	} else {
		x.next, c.first = c.first, x
	}
	if x.next != nil {
		x.next.prev = x
	} else {
		c.last = x
	}
}

// extend gives a request in line back the time for which its host waited for our own processors.
// mu is held.
func (c *clock) extend(w *waiter) {
	x, inLine := w.x, w.host.lined(c.elapsed())
	more := inLine - w.inLine
	w.inLine = inLine
	if more > 0 && x.listed {
		c.unlink(x)
		x.deadline += more
		c.link(x)
	}
}

// unlink takes an exchange out of the list. mu is held.
func (c *clock) unlink(x *exchange) {
	if !x.listed {
		return
	}
	x.listed = false
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		c.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	} else {
		c.last = x.prev
	}
	x.prev, x.next = nil, nil
}

// breakOff ends an exchange that is under way, for a reason. One that dials sees
// the end of a context instead. mu is held.
func (c *clock) breakOff(x *exchange, why error) {
	if x.broken != nil {
		return
	}
	x.broken = why
	if x.conn != nil {
		_ = x.conn.nc.SetDeadline(longAgo)
	}
	if x.waiter != nil {
		if why == c.errTimeout {
			x.broken = c.errWait
		}
		x.waiter.giveUp()
	}
}

// arm sets the timer. mu is held.
func (c *clock) arm(d time.Duration) {
	if c.timer == nil {
		c.timer = time.AfterFunc(d, c.sweep)
	} else {
		c.timer.Reset(d)
	}
}

// watchOf returns the watch of a context, nil for one that never ends. mu is held.
func (c *clock) watchOf(ctx context.Context) *watch {
	done := ctx.Done()
	if done == nil {
		return nil
	}
	if c.latest != nil && c.latest.done == done {
		return c.latest
	}
	w := c.watches[done]
	if w == nil {
		w = &watch{done: done}
		w.stop = context.AfterFunc(ctx, func() { c.cancelled(w) })
		c.watches[done] = w
	}
	c.latest = w
	return w
}

// unwatch forgets a context. mu is held.
func (c *clock) unwatch(w *watch) {
	w.stop()
	delete(c.watches, w.done)
	if c.latest == w {
		c.latest = nil
	}
}

// cancelled breaks off what was begun under a context that has ended.
func (c *clock) cancelled(w *watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.ended = true
	for x := c.first; x != nil; x = x.next {
		if x.watch == w {
			c.breakOff(x, errCancelled)
		}
	}
}

// Package wallclock returns the time of the machine's clock, and does not believe at once that this
// was set forward.
//
// A process deletes by age and dates events. That cannot be undone when a clock that was wrong for a
// minute is set right. So a Clock goes on from its last time, by the monotonic clock, and believes the
// machine after Config.DoubtFor:
//
//	             set forward by more than MaxStep
//	believed ───────────────────────────────────────▶ in doubt
//	   ▲                                                  │
//	   └─ DoubtFor is over, or the clock was set back ────┘
//
// A clock that is set back is believed at once: things look younger then. So is one that returns to an
// earlier time. The clock at the start of the process is believed. A machine that was suspended has a
// clock that was set forward.
//
// A Clock never returns a later time than the machine does.
package wallclock

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxStep is the largest step forward that is believed at once: a clock that is a little wrong
	// is set right by less.
	MaxStep = time.Minute
	// drift is what an offset may change by until it is noted.
	drift = time.Millisecond
)

// Config is how a Clock works.
type Config struct {
	// Wall is the clock of the machine. Nil: time.Now.
	Wall func() time.Time
	// DoubtFor is for how long a clock that was set forward is not believed, more than 0.
	DoubtFor time.Duration
}

// Clock returns the time. Its methods may be called from any goroutine.
type Clock struct {
	cfg     Config
	epoch   time.Time
	offset  atomic.Int64 // of what is believed to the time since epoch, Unix nanoseconds
	doubted atomic.Int64 // by how much the machine's clock is ahead of that, 0: it is believed

	mu     sync.Mutex
	until  time.Duration // owned by mu: since epoch, the end of the doubt
	latest time.Duration // owned by mu: what the machine's clock was ahead by, as of the last look
	told   int64         // owned by mu: a time that was returned before, or has been, Unix nanoseconds
	toldAt time.Duration // owned by mu: when that was, since epoch
}

// New returns a Clock that believes what the machine says now.
func New(cfg Config) *Clock {
	c := &Clock{cfg: cfg, epoch: time.Now()}
	c.offset.Store(c.wall(c.epoch))
	return c
}

// wall is the machine's clock, Unix nanoseconds, given the system's time.
func (c *Clock) wall(system time.Time) int64 {
	if c.cfg.Wall != nil {
		return c.cfg.Wall().UnixNano()
	}
	return system.UnixNano()
}

// Now returns the time.
func (c *Clock) Now() time.Time { return time.Unix(0, c.At(time.Now())) }

// At returns the time in Unix nanoseconds. It takes what time.Now returned just now.
func (c *Clock) At(system time.Time) int64 {
	passed := system.Sub(c.epoch)
	wall := c.wall(system)
	if step := wall - int64(passed) - c.offset.Load(); c.doubted.Load() == 0 && -int64(drift) < step && step < int64(drift) {
		return wall
	}
	return c.look(wall, passed)
}

// look records what the machine's clock says.
func (c *Clock) look(wall int64, passed time.Duration) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	believed := c.offset.Load() + int64(passed)
	if believed < c.told && believed < wall {
		believed = min(c.told, wall) // that time has been
	}
	switch ahead := time.Duration(wall - believed); {
	case ahead <= MaxStep:
		c.reached(believed, passed)
		c.doubted.Store(0)
		believed = wall
	case c.doubted.Load() == 0, ahead-c.latest > MaxStep:
		c.until, c.latest = passed+c.cfg.DoubtFor, ahead
		c.doubted.Store(int64(ahead))
	case passed >= c.until:
		c.doubted.Store(0)
		believed = wall
	default:
		c.latest = ahead
		c.doubted.Store(int64(ahead))
	}
	c.offset.Store(believed - int64(passed))
	return believed
}

// Latest returns what the machine's clock says, or what it would say had it not been set back,
// where that is later: a clock that was set back may be wrong, and what is promised from now on must
// not end when it is set right.
func (c *Clock) Latest() time.Time {
	system := time.Now()
	c.At(system)
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Unix(0, max(c.wall(system), c.told+int64(system.Sub(c.epoch)-c.toldAt)))
}

// Reached records a time that has been, as something is dated by it. A clock that is behind it is
// believed up to there when it is set forward.
func (c *Clock) Reached(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached(t.UnixNano(), time.Since(c.epoch))
}

// reached records that a time has been. The caller holds mu.
func (c *Clock) reached(t int64, passed time.Duration) {
	if t > c.told {
		c.told, c.toldAt = t, passed
	}
}

// Ahead returns by how much the machine's clock is ahead of this one, as of the last look; 0: it is
// believed.
func (c *Clock) Ahead() time.Duration { return time.Duration(c.doubted.Load()) }

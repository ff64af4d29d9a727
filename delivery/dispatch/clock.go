package dispatch

import (
	"time"

	"carillon/internal/wallclock"
)

// The schedule goes by the wall clock, as what it owes is kept across restarts. Such a
// clock is set back and forth. One that is set forward is not believed at once, so that
// nothing goes for an age that it has not (package wallclock). Where what is believed changes,
// what was set by it moves along, so that pauses last as
// long as they were to, and not for hours more. What is stored may have been set by a
// clock that was wrong: no pause that was stored lasts longer than Config.RetryMax.

// leastStep is by how much the wall clock must have been set before anybody heeds it.
const leastStep = time.Second

// newClock returns the clock of a Dispatcher. It doubts for so long that nothing is younger than
// KeepAtLeast that was there before, and everybody has had an attempt for it.
func newClock(cfg Config) *wallclock.Clock {
	return wallclock.New(wallclock.Config{Wall: cfg.Clock, DoubtFor: max(cfg.KeepAtLeast, cfg.RetryMax)})
}

// now is the wall clock as far as it is believed, Unix nanoseconds.
func (d *Dispatcher) now() int64 { return d.nowBy(time.Now()) }

// nowBy is now, given the system's time.
func (d *Dispatcher) nowBy(system time.Time) int64 { return d.wall.At(system) }

// ageOf is how old something is, less than 0 where it lies ahead.
func (d *Dispatcher) ageOf(accepted time.Time) time.Duration {
	return time.Duration(d.now() - accepted.UnixNano())
}

// heedClock has everything that was set by the wall clock move along where that was set
// since the last look. mu is held.
func (d *Dispatcher) heedClock(clock time.Time, now int64) {
	if ahead := d.wall.Ahead(); (ahead > 0) != d.doubts {
		if d.doubts = ahead > 0; d.doubts {
			d.metrics.clockSteps.Inc()
			d.log.Warn("the clock of this machine was set forward; leases and the age of notifications go on by the time before, until it has stayed so for a while",
				"by", ahead.Round(time.Millisecond), "believed_after", max(d.cfg.KeepAtLeast, d.cfg.RetryMax))
		}
	}
	passed := clock.Sub(d.epoch)
	offset := now - int64(passed)
	step := offset - d.offset
	if -int64(leastStep) < step && step < int64(leastStep) {
		return
	}
	d.offset = offset
	d.metrics.clockSteps.Inc()
	d.log.Warn("the clock of this machine was set: leases and the age of notifications go by it", "by", time.Duration(step).Round(time.Millisecond))
	for i := range d.due {
		d.due[i].at += step
		if e := d.due[i].e; e.state == waiting && e.rare != nil && e.rare.due > 0 {
			e.rare.due += step
		}
	}
	for _, l := range []*flightList{&d.young, &d.early} {
		for f := l.oldest; f != nil; f = f.next {
			f.started += step
		}
	}
	for _, h := range d.hosts {
		h.shrunk += step
	}
	if d.readPause > 0 {
		d.readPause += step
	}
	for _, t := range d.topicList {
		if t.resting > 0 {
			t.resting += step
		}
	}
	if step < 0 {
		for _, t := range d.topicList {
			d.wake(t) // leases that were over are so no more
		}
		d.kick()
	}
}

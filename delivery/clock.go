package delivery

import "time"

// The schedule goes by the wall clock, as what it owes is kept across restarts. Such a
// clock is set back and forth; what was set by it moves along, so that pauses last as
// long as they were to, and not for hours more. What is stored may have been set by a
// clock that was wrong: no pause that was stored lasts longer than Config.RetryMax.

// leastStep is by how much the wall clock must have been set before anybody heeds it.
const leastStep = time.Second

// maxAhead is how far in the future something may have been accepted, by a clock that is
// a little ahead. What lies further has no age that is known.
const maxAhead = time.Minute

// now is the wall clock, Unix nanoseconds.
func (d *Dispatcher) now() int64 { return d.nowBy(time.Now()) }

// nowBy is now, given the system's time.
func (d *Dispatcher) nowBy(clock time.Time) int64 {
	if d.cfg.Clock != nil {
		return d.cfg.Clock().UnixNano()
	}
	return clock.UnixNano()
}

// ageOf is how old something is by the wall clock, less than 0 where it lies ahead.
func (d *Dispatcher) ageOf(accepted time.Time) time.Duration {
	if d.cfg.Clock != nil {
		return d.cfg.Clock().Sub(accepted)
	}
	return time.Since(accepted)
}

// heedClock has everything that was set by the wall clock move along where that was set
// since the last look. mu is held.
func (d *Dispatcher) heedClock(clock time.Time, now int64) {
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
	if step < 0 {
		for _, t := range d.topicList {
			d.wake(t) // leases that were over are so no more
		}
		d.kick()
	}
	if step > int64(maxAhead) {
		d.ahead = passed + d.cfg.RetryMax
	}
}

// doubtsAge tells whether the clock was set forward of late: it may be set back again, so
// that nothing goes by its age meanwhile.
func (d *Dispatcher) doubtsAge() bool {
	clock := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heedClock(clock, d.nowBy(clock))
	return clock.Sub(d.epoch) < d.ahead
}

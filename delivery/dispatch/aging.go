package dispatch

import "time"

// An attempt that is slow gives its slot back (decision 7):
//
//	young ────────────── SlowAfter ─────────────▶ slow: its host gets fewer
//	  └─ a 20th of that, if others have no slot ──▶ early ─ SlowAfter ─▶ slow
//
// early ones still count for their host, which may be merely far away.

// age turns flights early and slow for which it is time and room, and returns when
// to look again; 0: when there is a kick. mu is held.
func (s *schedule) age(now int64) (next int64) {
	slowAfter := int64(s.cfg.SlowAfter)
	s.flights.stuck = false
	for f := s.flights.early.oldest; f != nil; f = s.flights.early.oldest {
		if f.started+slowAfter > now {
			next = f.started + slowAfter
			break
		}
		s.flights.early.remove(f)
		s.turnSlow(f, now)
	}
	after := slowAfter
	if s.pressed = s.slotsShort(); s.pressed {
		after /= earlyPart
	}
	for f := s.flights.young.oldest; f != nil; {
		if at := f.started + after; at > now {
			return earlier(next, at)
		}
		following := f.next
		switch {
		case !s.flights.maySlow(f):
			s.flights.stuck = true // until another one ends
		case f.started+slowAfter <= now:
			s.flights.leaveSlot(f)
			s.turnSlow(f, now)
		default:
			s.flights.leaveSlot(f)
			s.flights.early.push(f)
		}
		if at := f.started + slowAfter; at > now {
			next = earlier(next, at)
		}
		f = following
	}
	return next
}

// earlyPart is what part of SlowAfter an attempt keeps its slot for where others have none.
const earlyPart = 20

// slotsShort reports whether a free slot would let a waiting attempt start. mu is held.
func (s *schedule) slotsShort() bool {
	return s.flights.inSlots[fresh]+s.flights.inSlots[again] >= s.cfg.MaxInFlight &&
		(s.rings[fresh].head != nil || s.rings[again].head != nil && s.flights.retriesFree())
}

// turnSlow has a flight without a slot count as slow for its host, too.
func (s *schedule) turnSlow(f *flight, now int64) {
	h := f.host
	h.young[f.lane]--
	h.shrink(f, now)
	s.rings.enter(h, fresh)
	s.rings.enter(h, again)
}

// timer says when the schedule must be looked at again, 0 if only a kick can
// change it.
func (s *schedule) timer(aging, now int64) (wait time.Duration) {
	next := aging
	for _, at := range []int64{s.due.earliest(), s.readPause} {
		if at > now {
			next = earlier(next, at)
		}
	}
	if next == 0 {
		return 0
	}
	return max(time.Duration(next-now), 1)
}

// earlier returns the earlier one of two times, 0 being none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// steps is what is known of the wall clock's steps. Guarded by table.mu.
type steps struct {
	epoch  time.Time // when the Dispatcher was made
	offset int64     // of the wall clock to the time since epoch, as of the last look
	doubts bool      // the wall clock was set forward, and is not believed yet
}

// The schedule goes by the wall clock, because its times are kept across restarts. That clock may be
// set forward or back. A jump forward is not believed at once, so that nothing is removed for an age
// that it does not have (package wallclock). When the believed time changes, the times set by it move
// along: pauses keep their length. A wrong clock may have stored a time far ahead, so no stored pause
// lasts longer than Config.RetryMax.

// leastStep is the smallest change of the wall clock that the schedule reacts to.
const leastStep = time.Second

// heedClock has everything that was set by the wall clock move along where that was set
// since the last look. mu is held.
func (s *schedule) heedClock(clock time.Time, now int64) {
	if ahead := s.wall.Ahead(); (ahead > 0) != s.steps.doubts {
		if s.steps.doubts = ahead > 0; s.steps.doubts {
			s.metrics.clockSteps.Inc()
			s.log.Warn("the clock of this machine was set forward; leases and the age of notifications go on by the time before, until it has stayed so for a while",
				"by", ahead.Round(time.Millisecond), "believed_after", max(s.cfg.KeepAtLeast, s.cfg.RetryMax))
		}
	}
	passed := clock.Sub(s.steps.epoch)
	offset := now - int64(passed)
	step := offset - s.steps.offset
	if -int64(leastStep) < step && step < int64(leastStep) {
		return
	}
	s.steps.offset = offset
	s.metrics.clockSteps.Inc()
	s.log.Warn(
		"the clock of this machine was set: leases and the age of notifications go by it",
		"by", time.Duration(step).Round(time.Millisecond),
	)
	for i := range s.due {
		s.due[i].at += step
		if e := s.due[i].e; e.state == waiting && e.rare != nil && e.rare.due > 0 {
			e.rare.due += step
		}
	}
	for _, l := range []*flightList{&s.flights.young, &s.flights.early} {
		for f := l.oldest; f != nil; f = f.next {
			f.started += step
		}
	}
	for _, h := range s.table.hosts {
		h.shrunk += step
	}
	if s.readPause > 0 {
		s.readPause += step
	}
	for _, t := range s.table.topicList {
		if t.resting > 0 {
			t.resting += step
		}
	}
	if step < 0 {
		for _, t := range s.table.topicList {
			s.walks.wake(t) // leases that were over are so no more
		}
		s.kick()
	}
}

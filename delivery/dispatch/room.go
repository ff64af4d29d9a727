package dispatch

import (
	"errors"
	"time"
)

// Bodies that attempts hold are bounded (Config.MaxBytes), in such a way that the trouble of one
// callback does not hold up others:
//
//   - Bodies of up to smallBody do not count, and never wait: the attempts that may
//     be under way bound them.
//   - A body that an attempt holds already is there for all other attempts of it. Where
//     it has been held for sharedFor, and others wait for room, further attempts of it go
//     into the line: those of callbacks that hang would hold it for ever, one after another.
//   - Any other waits, in the order of coming, until there is room for it. The first
//     one goes when nothing that counts is held, even if it is larger than all the room.
//   - Careful attempts (retries, and those to hosts that have slow ones) bring in half
//     of the room at most, or one body, and wait in a line of their own: callbacks that
//     hang hold bodies until the deadline of the attempt. While they have less than
//     their half the two lines take turns, so neither passes the other for ever.
//
// A waiting entry holds neither a slot nor a goroutine nor the body. The body is read again at its
// turn, with the room for it booked. A body that is read for the first time (maxReads) is not counted
// before its size is known.

const (
	// smallBody is the largest body that need not wait for room.
	smallBody = 64 << 10
	// sharedFor is for how long a body is there for everybody while others wait.
	sharedFor = time.Second
	// maxLooks is how many of those that wait for room are looked at in a row.
	maxLooks = 64
)

// errNoRoom: the body must wait for others to be given back.
var errNoRoom = errors.New("no room for a body")

// lines are the entries that wait for room for a body. Guarded by table.mu.
type lines struct {
	parked [lanes]queue
	turn   lane // which of these two has its turn
}

// leave takes the first one out of a line. mu is held.
func (l *lines) leave(of lane) *entry {
	e := l.parked[of].pop()
	if e.topic.parked--; e.topic.parked == 0 {
		e.topic.refused = nil
	}
	return e
}

// empty reports whether no entry waits.
func (l *lines) empty() bool { return l.parked[fresh].head == nil && l.parked[again].head == nil }

// admit counts users of a note in if there is room for it. mu is held.
func (s *schedule) admit(nt *note, users int, c claim) (*note, error) {
	if nt.users == 0 && !s.open(nt.counted(), c) {
		nt.topic.refuse(nt)
		if nt.found && !nt.spare {
			s.bodies.list(nt)
		}
		return nil, errNoRoom
	}
	s.bodies.use(nt, users, c.careful)
	return nt, nil
}

// open reports whether there is room for a body, and no earlier entry waits for it. mu is held.
func (s *schedule) open(size int64, c claim) bool {
	if size == 0 || c.look {
		return true
	}
	if !s.bodies.fits(size, c.careful) {
		return false
	}
	return c.turn || s.firstParked(s.now()) == nil && s.lines.parked[careLane(c.careful)].head == nil
}

// outstays reports whether a body has been held for long enough, as others wait. mu is held.
func (s *schedule) outstays(nt *note) bool {
	return nt != nil && nt.users > 0 && nt.counted() > 0 && time.Since(nt.since) > sharedFor &&
		!s.lines.empty()
}

// park has an entry wait for room. mu is held.
func (s *schedule) park(e *entry) {
	s.table.setState(e, ready)
	e.topic.parked++
	s.lines.parked[careLane(e.host.careful(e.lane()))].push(e)
}

// unpark returns a flight for an entry that has waited for room and now has it, else nil. mu is held.
func (s *schedule) unpark(now int64) *flight {
	for range maxLooks {
		e := s.firstParked(now)
		if e == nil {
			return nil
		}
		l, careful := e.lane(), e.host.careful(e.lane())
		nt, size := e.topic.wants(e.from())
		if !s.bodies.fits(size, careful) {
			return nil
		}
		line := careLane(careful)
		s.lines.leave(line)
		s.lines.turn = lanes - 1 - line
		if e.host.room(l) && (l == fresh || s.flights.retriesFree()) {
			f := s.flights.takeOff(e, nt, l, now)
			if f.claim.turn = true; nt == nil {
				s.bodies.book(f, size)
			}
			return f
		}
		e.host.queue[l].push(e) // asks again when its host has a slot
		s.rings.enter(e.host, l)
	}
	s.kick() // the rest is for the next call
	return nil
}

// firstParked returns who has waited for room and is the next to have it, nil if there is
// none. The lines take turns; careful ones are passed while they may bring in no
// more. mu is held.
func (s *schedule) firstParked(now int64) *entry {
	for _, l := range [...]lane{s.lines.turn, lanes - 1 - s.lines.turn} {
		e := s.front(l, now)
		if e == nil {
			continue
		}
		if _, size := e.topic.wants(e.from()); l == fresh || s.bodies.spares(size) {
			return e
		}
	}
	return nil
}

// front returns the first one of a line, nil without one: without those that may
// not start any more, or belong into the other line by now. mu is held.
func (s *schedule) front(l lane, now int64) *entry {
	for range maxLooks {
		e := s.lines.parked[l].head
		if e == nil {
			return nil
		}
		if !s.eligible(e, now) {
			s.lines.leave(l)
			continue
		}
		if careLane(e.host.careful(e.lane())) == l {
			return e
		}
		s.lines.leave(l)
		s.park(e)
	}
	s.kick() // the rest is for the next call
	return nil
}

// careLane returns which of the two lines an entry waits in.
func careLane(careful bool) lane {
	if careful {
		return again
	}
	return fresh
}

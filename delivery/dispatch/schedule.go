package dispatch

import (
	"container/heap"
	"errors"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// The schedule decides which attempt is next. table.mu guards everything in this file.
//
//	walks ──▶ topics whose entries are to be woken
//	            │ a stretch at a time
//	            ▼
//	hosts:  queue[fresh]  queue[again] ◀── heap of waiting entries, one timer
//	            │             │
//	rings:  hosts with something to send, and room for it, in turn
//	            │             │ at most a quarter of the slots
//	            ▼             ▼
//	        young attempts (MaxInFlight) ── SlowAfter ──▶ slow attempts (MaxSlow)

// schedule decides who is next. Guarded by table.mu.
type schedule struct {
	*base
	table   *table
	bodies  *bodies
	flights *flights
	ledger  *ledger
	steps   steps

	walks   walks
	due     dueHeap
	rings   rings
	lines   lines
	pressed bool // early ones give their slot back

	running    bool
	sure       *subscription.Surety // no attempt of a shard starts after
	looked     time.Time            // the latest look at the schedule
	readPause  int64                // no attempt starts before, Unix nanoseconds
	readPauses int                  // pauses in a row
}

// walkStretch is how many entries are woken under one hold of the mutex.
const walkStretch = 256

// walkSome wakes a stretch of entries and reports whether there are more.
//
// A walk goes from the end of a topic's entries to the front: an entry that is
// removed meanwhile gives its place to the last one, which was looked at
// already, and one that is added is placed by who adds it.
func (s *schedule) walkSome(now int64) (more bool) {
	for budget := walkStretch; s.walks.head != nil; {
		t := s.walks.head
		t.walk = min(t.walk, len(t.entries))
		for ; t.walk > 0 && t.idle > 0 && budget > 0; budget-- {
			t.walk--
			if e := t.entries[t.walk]; e.state == idle {
				s.place(e, now)
			}
		}
		if t.walk > 0 && t.idle > 0 {
			return true
		}
		if s.walks.head = t.next; s.walks.head == nil {
			s.walks.tail = nil
		}
		t.walking, t.next = false, nil
		if t.again {
			t.again = false
			s.walks.wake(t)
		}
		if budget--; budget <= 0 {
			break
		}
	}
	return s.walks.head != nil
}

// tell says what the head of a topic's log is. mu is held.
func (s *schedule) tell(t *followed, head delivery.Seq) {
	if head <= t.head && t.known {
		return
	}
	if head > t.head {
		t.rise(head)
	}
	t.known = true
	s.walks.wake(t)
	s.kick()
}

// resume has the entries of a shard looked at that were passed over while no attempt of its own
// could start. It returns false if the shard is lost.
func (s *schedule) resume(sh *shardTable) (held bool) {
	now := s.now()
	held = s.table.eachEntry(sh, func(e *entry) {
		if e.state == idle {
			s.place(e, now)
		}
	})
	s.kick()
	return held
}

// place puts an entry that is in no queue where it belongs now.
func (s *schedule) place(e *entry, now int64) {
	sh := s.table.shardOf(e)
	switch {
	case sh == nil || sh.loading || sh.away, e.expires <= now,
		!e.topic.known || !e.behind(), s.table.abroad[e.id] > 0:
		s.table.setState(e, idle)
	case e.failures() > 0 && e.rare.due > now:
		e.rare.due = min(e.rare.due, now+int64(s.cfg.RetryMax)) // it may be from a clock that was wrong
		s.await(e, e.rare.due)
	default:
		s.table.setState(e, ready)
		l := e.lane()
		e.host.queue[l].push(e)
		s.rings.enter(e.host, l)
	}
}

// ripen makes those ready whose time has come.
func (s *schedule) ripen(now int64) {
	for len(s.due) > 0 && s.due[0].at <= now {
		if e := heap.Pop(&s.due).(dueEntry).e; e.state == waiting {
			s.place(e, now)
		}
	}
}

// await puts an entry into the heap. A new earliest is for the timer to know.
func (s *schedule) await(e *entry, at int64) {
	s.table.setState(e, waiting)
	if len(s.due) == 0 || at < s.due[0].at {
		s.kick()
	}
	heap.Push(&s.due, dueEntry{at, e})
}

// hurry has a waiting entry be the next one of its host. mu is held.
func (s *schedule) hurry(e *entry) {
	s.due.drop(e)
	if e.failures() > 0 && e.rare.due > 0 {
		e.rare.due = -e.rare.due
	}
	s.table.setState(e, ready)
	e.host.queue[fresh].unshift(e) // other retries have lost nothing by it
	s.widen(e.host, fresh)
}

// widen allows a host one more attempt at a time if that is what keeps those of a lane
// from starting. mu is held.
func (s *schedule) widen(h *host, l lane) {
	for limit := int32(s.cfg.MaxPerHost); !h.room(l) && h.limit < limit; {
		h.limit++
	}
	s.rings.enter(h, l)
}

// pick returns the next flight, or nil if none may start now. Retries go first,
// within their share. mu is held.
func (s *schedule) pick(now int64) *flight {
	if !s.running || s.ledger.unsavable || s.ledger.unsaved >= s.cfg.FlushCount || now < s.readPause {
		return nil
	}
	if s.flights.inSlots[fresh]+s.flights.inSlots[again] >= s.cfg.MaxInFlight {
		if !s.pressed && s.slotsShort() {
			s.pressed = true
			s.kick() // the timer is to watch for those that might give theirs back
		}
		return nil
	}
	if f := s.unpark(now); f != nil {
		return f
	}
	if f := s.retry(now); f != nil {
		return f
	}
	if f := s.take(fresh, now); f != nil {
		return f
	}
	return s.retry(now) // of a host that left its last slot to fresh ones, which had all ended
}

// retry returns a flight for the next retry, or nil.
func (s *schedule) retry(now int64) *flight {
	if !s.flights.retriesFree() {
		return nil
	}
	return s.take(again, now)
}

// take returns a flight for the next entry of a lane, or nil.
func (s *schedule) take(l lane, now int64) *flight {
	r := &s.rings[l]
	for r.head != nil {
		h := r.head
		if r.head = h.ringed[l]; r.head == nil {
			r.tail = nil
		}
		h.inRing[l], h.ringed[l] = false, nil
		if !h.room(l) {
			continue // it comes back when an attempt of it ends
		}
		e, nt := s.nextOf(h, l, now)
		if e == nil {
			s.rings.enter(h, again) // its retries may have waited for the queue that is empty now
			continue
		}
		f := s.flights.takeOff(e, nt, l, now)
		s.rings.enter(h, l)
		return f
	}
	return nil
}

// nextOf takes the first entry out of a host's queue that may start, with its note
// if that is in memory; nil without one.
func (s *schedule) nextOf(h *host, l lane, now int64) (*entry, *note) {
	for e := h.queue[l].pop(); e != nil; e = h.queue[l].pop() {
		if !s.eligible(e, now) {
			continue
		}
		nt, size := e.topic.wants(e.from())
		if s.open(size, claim{careful: h.careful(l)}) && !s.outstays(nt) {
			return e, nt
		}
		s.park(e) // behind those that came before
	}
	return nil, nil
}

// eligible reports whether an entry that was in a queue may start; if not, it is in none
// any more. mu is held.
func (s *schedule) eligible(e *entry, now int64) bool {
	if e.state != ready {
		return false
	}
	switch sh := s.table.shardOf(e); {
	case e.expires <= now || sh.leaving || sh.away:
		s.table.setState(e, idle) // its lease is over (WebSub §5.3), or it is handed over, or cannot be saved
		return false
	case !s.sure.Of(sh.tenure.Shard, s.looked):
		s.table.setState(e, idle)
		sh.unsure = true
		return false
	case s.rests(e, now):
		return false
	case !e.behind():
		s.table.setState(e, idle) // it began anew in the queue, behind all that there is
		return false
	}
	return true
}

// rests reports whether an entry waits as its log could not be read, and has it wait. One whose
// notification is in memory need not. mu is held.
func (s *schedule) rests(e *entry, now int64) bool {
	if e.topic.resting <= now {
		return false
	}
	if nt, _ := e.topic.wants(e.from()); nt != nil {
		return false
	}
	s.await(e, e.topic.resting)
	return true
}

// rest leaves an entry alone whose log could not be read, and with it all of its topic: those
// that failed together count as one. mu is held.
func (s *schedule) rest(e *entry, now int64) {
	t := e.topic
	if now >= t.resting {
		t.resting = now + int64(min(engineRetryFirst<<min(t.rests, 10), engineRetryMax))
		t.rests++
	}
	s.await(e, t.resting)
}

// pauseReads leaves an entry alone whose log could not be read, and all of them
// for a while if the engine is away. mu is held.
func (s *schedule) pauseReads(e *entry, err error, now int64) {
	if errors.Is(err, delivery.ErrPartAway) {
		s.rest(e, now)
		return
	}
	s.await(e, now+int64(engineRetryMax))
	if !errors.Is(err, delivery.ErrUnavailable) || now < s.readPause {
		return // those that failed together count as one
	}
	s.readPause = now + int64(min(engineRetryFirst<<min(s.readPauses, 10), engineRetryMax))
	s.readPauses++
	s.kick()
}

// landed takes a flight that ended off the books, and lets its host go on. mu is held.
func (s *schedule) landed(f *flight) {
	s.flights.touchDown(f)
	s.rings.enter(f.host, fresh)
	s.rings.enter(f.host, again)
}

package dispatch

import (
	"time"

	"carillon/delivery"
	"carillon/delivery/send"
)

// flight is an attempt under way. When it has ended it is used for another one.
type flight struct {
	// Guarded by Dispatcher.mu.
	list       *flightList // of Dispatcher.young or early; nil: it is slow
	prev, next *flight

	// These never change from its start to its end.
	e       *entry
	host    *host
	topic   *topic
	shard   *shardTable
	lane    lane
	claim   claim
	started int64
	// The entry as it was at the start, and the topic's head and before.
	was          entry
	wasRare      rare
	head, before delivery.Seq

	// The worker's.
	attempt send.Attempt
	note    *note // nil: to be read
	begun   int64 // when the attempt itself began
	result  result
}

// flightList holds flights about in the order of their start.
type flightList struct{ oldest, youngest *flight }

func (l *flightList) push(f *flight) {
	f.list, f.prev, f.next = l, l.youngest, nil
	if l.youngest == nil {
		l.oldest = f
	} else {
		l.youngest.next = f
	}
	l.youngest = f
}

func (l *flightList) remove(f *flight) {
	if f.prev == nil {
		l.oldest = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		l.youngest = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.list, f.prev, f.next = nil, nil, nil
}

// takeOff starts a flight, with the note that it delivers if that is in memory. mu is held.
func (d *Dispatcher) takeOff(e *entry, nt *note, l lane, now int64) *flight {
	d.setState(e, flying)
	f := d.spare
	if f == nil {
		f = &flight{}
	} else {
		d.spare, f.next = f.next, nil
	}
	f.e, f.host, f.topic, f.shard, f.lane, f.started, f.begun = e, e.host, e.topic, d.shardOf(e), l, now, now
	f.claim.careful = e.host.careful(l)
	f.was = *e
	if e.rare != nil {
		f.wasRare = *e.rare
		f.was.rare = &f.wasRare
	}
	f.head, f.before = e.topic.head, e.topic.before
	a := &f.attempt
	a.Subscription, a.Number = e.id, e.failures()+1
	a.Secret, a.Shared = d.secretOf(e)
	a.Shared = a.Shared || a.Number > 1
	if f.note = nt; nt != nil {
		d.use(nt, 1, f.claim.careful)
	}
	f.result.settled = e.settled

	f.shard.flying++
	if d.young.oldest == nil {
		d.kick() // the timer has somebody to watch again
	}
	d.young.push(f)
	d.inSlots[l]++
	e.host.young[l]++
	e.host.last = l
	return f
}

// touchDown takes a flight that ended off the books. mu is held.
func (d *Dispatcher) touchDown(f *flight) {
	h := f.host
	if f.shard.flying--; f.shard.flying == 0 && f.shard.leaving {
		close(f.shard.landed)
	}
	switch f.list {
	case &d.young:
		d.young.remove(f)
		d.inSlots[f.lane]--
		h.young[f.lane]--
	case &d.early:
		d.early.remove(f)
		h.young[f.lane]--
		d.leaveSlow(f)
	default:
		d.leaveSlow(f)
	}
	d.forgetHost(h)
	d.enter(h, fresh)
	d.enter(h, again)
}

// recycle keeps a flight for another. Nobody may look at it any more. mu is held.
func (d *Dispatcher) recycle(f *flight) {
	*f = flight{next: d.spare}
	d.spare = f
}

// An attempt that is slow gives its slot back (decision 7):
//
//	young ────────────── SlowAfter ─────────────▶ slow: its host gets fewer
//	  └─ a 20th of that, if others have no slot ──▶ early ─ SlowAfter ─▶ slow
//
// early ones still count for their host, which may be merely far away.

// age turns flights early and slow for which it is time and room, and returns when
// to look again; 0: when there is a kick. mu is held.
func (d *Dispatcher) age(now int64) (next int64) {
	slowAfter := int64(d.cfg.SlowAfter)
	d.stuck = false
	for f := d.early.oldest; f != nil; f = d.early.oldest {
		if f.started+slowAfter > now {
			next = f.started + slowAfter
			break
		}
		d.early.remove(f)
		d.turnSlow(f, now)
	}
	after := slowAfter
	if d.pressed = d.slotsShort(); d.pressed {
		after /= earlyPart
	}
	for f := d.young.oldest; f != nil; {
		if at := f.started + after; at > now {
			return earlier(next, at)
		}
		following := f.next
		switch {
		case !d.maySlow(f):
			d.stuck = true // until another one ends
		case f.started+slowAfter <= now:
			d.leaveSlot(f)
			d.turnSlow(f, now)
		default:
			d.leaveSlot(f)
			d.early.push(f)
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

// slotsShort tells whether somebody could start if there were a slot. mu is held.
func (d *Dispatcher) slotsShort() bool {
	return d.inSlots[fresh]+d.inSlots[again] >= d.cfg.MaxInFlight &&
		(d.rings[fresh].head != nil || d.rings[again].head != nil && d.retriesFree())
}

// leaveSlot has a young flight count among those that have given their slot back.
func (d *Dispatcher) leaveSlot(f *flight) {
	d.young.remove(f)
	d.inSlots[f.lane]--
	d.slow[f.lane]++
	f.host.slow++
}

// turnSlow has a flight without a slot count as slow for its host, too.
func (d *Dispatcher) turnSlow(f *flight, now int64) {
	h := f.host
	h.young[f.lane]--
	h.shrink(f, now)
	d.enter(h, fresh)
	d.enter(h, again)
}

// leaveSlow counts a flight out that had given its slot back.
func (d *Dispatcher) leaveSlow(f *flight) {
	d.slow[f.lane]--
	f.host.slow--
	if d.stuck {
		d.kick()
	}
}

// maySlow tells whether a flight may leave its slot: a host may have a quarter
// of the slow attempts, and retries half of what there is.
func (d *Dispatcher) maySlow(f *flight) bool {
	all, ofHost := d.cfg.MaxSlow, d.cfg.slowPerHost()
	if f.lane == again {
		return d.slow[again] < all/2 && d.slow[fresh]+d.slow[again] < all && int(f.host.slow) < max(1, ofHost/2)
	}
	return d.slow[fresh]+d.slow[again] < all && int(f.host.slow) < ofHost
}

// shrink halves what a host may have, once for each generation of attempts:
// those that started before the last cut say nothing new.
func (h *host) shrink(f *flight, now int64) {
	if f.started >= h.shrunk {
		h.limit = max(1, h.limit/2)
		h.shrunk = now
	}
}

// adapt learns from an outcome how much the host can take. Answers that are
// about the one callback (404, a redirect) say nothing about its host.
func (d *Dispatcher) adapt(f *flight, o *send.Outcome, now int64) {
	h := f.host
	switch o.Class {
	case delivery.ClassDelivered:
		h.limit = min(h.limit+1, int32(d.cfg.MaxPerHost))
	case delivery.ClassServerError, delivery.ClassTimeout, delivery.ClassRefused, delivery.ClassDNS, delivery.ClassTLS:
		h.shrink(f, now)
	case delivery.ClassClientError:
		if o.Status == tooManyRequests {
			h.shrink(f, now)
		}
	}
}

// timer says when the schedule must be looked at again, 0 if only a kick can
// change it.
func (d *Dispatcher) timer(aging, now int64) (wait time.Duration) {
	next := aging
	for _, at := range []int64{d.earliestDue(), d.readPause} {
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

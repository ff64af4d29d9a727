package dispatch

import "container/heap"

// The schedule decides who is next. What is in this file is guarded by
// Dispatcher.mu.
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

// lane is what keeps retries apart from the rest, so that callbacks in trouble
// wait for each other and not before healthy ones.
type lane uint8

const (
	fresh lane = iota // the last attempt succeeded, or there was none
	again             // the last attempt failed
	lanes
)

// walkStretch is how many entries are woken under one hold of the mutex.
const walkStretch = 256

// queue is a list of ready entries, first in, first out.
type queue struct{ head, tail *entry }

func (q *queue) push(e *entry) {
	e.next = nil
	if q.tail == nil {
		q.head = e
	} else {
		q.tail.next = e
	}
	q.tail = e
}

func (q *queue) pop() *entry {
	e := q.head
	if e != nil {
		if q.head = e.next; q.head == nil {
			q.tail = nil
		}
		e.next = nil
	}
	return e
}

// ring is a list of the hosts that are in turn for a lane.
type ring struct{ head, tail *host }

// dueHeap holds the waiting entries, the one that is due first on top. Ended
// entries stay until they are due.
type dueHeap []dueEntry

type dueEntry struct {
	at int64
	e  *entry
}

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueEntry)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = dueEntry{}
	*h = old[:len(old)-1]
	return last
}

// wake has the idle entries of a topic looked at: O(1), whatever their number. The
// others look at the head by themselves when their turn is over: so where deliveries
// do not keep up, what is published costs no walk.
func (d *Dispatcher) wake(t *topic) {
	if t.idle == 0 {
		return
	}
	if t.walking {
		t.again = true // those that were passed already come in a second walk
		return
	}
	t.walking, t.walk, t.next = true, len(t.entries), nil
	if d.walks.tail == nil {
		d.walks.head = t
	} else {
		d.walks.tail.next = t
	}
	d.walks.tail = t
}

// walkSome wakes a stretch of entries and reports whether there are more.
//
// A walk goes from the end of a topic's entries to the front: an entry that is
// removed meanwhile gives its place to the last one, which was looked at
// already, and one that is added is placed by who adds it.
func (d *Dispatcher) walkSome(now int64) (more bool) {
	for budget := walkStretch; d.walks.head != nil; {
		t := d.walks.head
		t.walk = min(t.walk, len(t.entries))
		for ; t.walk > 0 && t.idle > 0 && budget > 0; budget-- {
			t.walk--
			if e := t.entries[t.walk]; e.state == idle {
				d.place(e, now)
			}
		}
		if t.walk > 0 && t.idle > 0 {
			return true
		}
		if d.walks.head = t.next; d.walks.head == nil {
			d.walks.tail = nil
		}
		t.walking, t.next = false, nil
		if t.again {
			t.again = false
			d.wake(t)
		}
		if budget--; budget <= 0 {
			break
		}
	}
	return d.walks.head != nil
}

// place puts an entry that is in no queue where it belongs now.
func (d *Dispatcher) place(e *entry, now int64) {
	sh := d.shardOf(e)
	switch {
	case sh == nil || sh.loading || sh.away, e.expires <= now,
		!e.topic.known || !e.behind(), d.abroad[e.id] > 0:
		d.setState(e, idle)
	case e.failures() > 0 && e.rare.due > now:
		e.rare.due = min(e.rare.due, now+int64(d.cfg.RetryMax)) // it may be from a clock that was wrong
		d.await(e, e.rare.due)
	default:
		d.setState(e, ready)
		l := e.lane()
		e.host.queue[l].push(e)
		d.enter(e.host, l)
	}
}

// await puts an entry into the heap. A new earliest is for the timer to know.
func (d *Dispatcher) await(e *entry, at int64) {
	d.setState(e, waiting)
	if len(d.due) == 0 || at < d.due[0].at {
		d.kick()
	}
	heap.Push(&d.due, dueEntry{at, e})
}

// ripen makes those ready whose time has come.
func (d *Dispatcher) ripen(now int64) {
	for len(d.due) > 0 && d.due[0].at <= now {
		if e := heap.Pop(&d.due).(dueEntry).e; e.state == waiting {
			d.place(e, now)
		}
	}
}

func (e *entry) lane() lane {
	if e.failures() > 0 {
		return again
	}
	return fresh
}

// room tells whether a host may have one more attempt in a lane. Retries get a
// quarter of its slots; where there is but one, the lanes take turns.
func (h *host) room(l lane) bool {
	free := h.limit - h.young[fresh] - h.young[again]
	if free <= 0 {
		return false
	}
	if l == fresh {
		return true
	}
	taken := free == 1 && h.last == again && h.queue[fresh].head != nil
	return !taken && h.young[again] < max(1, h.limit/4)
}

// enter puts a host into a ring if it has something to send, and room.
func (d *Dispatcher) enter(h *host, l lane) {
	if h.inRing[l] || h.queue[l].head == nil || !h.room(l) {
		return
	}
	h.inRing[l], h.ringed[l] = true, nil
	if r := &d.rings[l]; r.tail == nil {
		r.head, r.tail = h, h
	} else {
		r.tail.ringed[l] = h
		r.tail = h
	}
}

// take returns a flight for the next entry of a lane, or nil.
func (d *Dispatcher) take(l lane, now int64) *flight {
	r := &d.rings[l]
	for r.head != nil {
		h := r.head
		if r.head = h.ringed[l]; r.head == nil {
			r.tail = nil
		}
		h.inRing[l], h.ringed[l] = false, nil
		if !h.room(l) {
			continue // it comes back when an attempt of it ends
		}
		e, nt := d.nextOf(h, l, now)
		if e == nil {
			d.enter(h, again) // its retries may have waited for the queue that is empty now
			continue
		}
		f := d.takeOff(e, nt, l, now)
		d.enter(h, l)
		return f
	}
	return nil
}

// nextOf takes the first entry out of a host's queue that may start, with its note
// if that is in memory; nil if there is none.
func (d *Dispatcher) nextOf(h *host, l lane, now int64) (*entry, *note) {
	for e := h.queue[l].pop(); e != nil; e = h.queue[l].pop() {
		if !d.eligible(e, now) {
			continue
		}
		nt, size := e.topic.wants(e.from())
		if d.open(size, claim{careful: h.careful(l)}) && !d.outstays(nt) {
			return e, nt
		}
		d.park(e) // behind those that came before
	}
	return nil, nil
}

// eligible tells whether an entry that was in a queue may start; if not, it is in none
// any more. mu is held.
func (d *Dispatcher) eligible(e *entry, now int64) bool {
	if e.state != ready {
		return false
	}
	switch sh := d.shardOf(e); {
	case e.expires <= now || sh.leaving || sh.away:
		d.setState(e, idle) // its lease is over (WebSub §5.3), or it is handed over, or cannot be saved
		return false
	case !d.sure.Of(sh.tenure.Shard, d.looked):
		d.setState(e, idle)
		sh.unsure = true
		return false
	case d.rests(e, now):
		return false
	case !e.behind():
		d.setState(e, idle) // it began anew in the queue, behind all that there is
		return false
	}
	return true
}

// pick returns the next flight, or nil if none may start now. Retries go first,
// within their share. mu is held.
func (d *Dispatcher) pick(now int64) *flight {
	if !d.running || d.saveFailing || d.unsaved >= d.cfg.FlushCount || now < d.readPause {
		return nil
	}
	if d.inSlots[fresh]+d.inSlots[again] >= d.cfg.MaxInFlight {
		if !d.pressed && d.slotsShort() {
			d.pressed = true
			d.kick() // the timer is to watch for those that might give theirs back
		}
		return nil
	}
	if f := d.unpark(now); f != nil {
		return f
	}
	if f := d.retry(now); f != nil {
		return f
	}
	if f := d.take(fresh, now); f != nil {
		return f
	}
	return d.retry(now) // of a host that left its last slot to fresh ones, which had all ended
}

// retry returns a flight for the next retry, or nil.
func (d *Dispatcher) retry(now int64) *flight {
	if !d.retriesFree() {
		return nil
	}
	return d.take(again, now)
}

// retriesFree tells whether there is a slot that a retry may have.
func (d *Dispatcher) retriesFree() bool {
	return d.inSlots[again] < max(1, d.cfg.MaxInFlight/4)
}

func (d *Dispatcher) earliestDue() int64 {
	if len(d.due) == 0 {
		return 0
	}
	return d.due[0].at
}

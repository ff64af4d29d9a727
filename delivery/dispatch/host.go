package dispatch

import "carillon/delivery/send"

// host is what callbacks with one scheme, name and port share.
type host struct {
	send.Host
	queue   [lanes]queue
	ringed  [lanes]*host // the next in each ring
	shrunk  int64        // when limit was last cut, Unix nanoseconds
	entries int32
	young   [lanes]int32 // attempts under way that are not slow
	slow    int32        // attempts under way that have given their slot back
	limit   int32        // how many may be young
	inRing  [lanes]bool
	last    lane // of the latest attempt
	trouble hostTrouble
}

// room reports whether a host may have one more attempt in a lane. Retries get a
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

// careful reports whether an attempt may hold its body for long.
func (h *host) careful(l lane) bool { return l == again || h.slow > 0 }

// shrink halves what a host may have, once for each generation of attempts:
// those that started before the last cut say nothing new.
func (h *host) shrink(f *flight, now int64) {
	if f.started >= h.shrunk {
		h.limit = max(1, h.limit/2)
		h.shrunk = now
	}
}

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

// unshift puts an entry before all others.
func (q *queue) unshift(e *entry) {
	e.next = q.head
	if q.head = e; q.tail == nil {
		q.tail = e
	}
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

// rings are the hosts that are in turn, by lane.
type rings [lanes]ring

// enter puts a host into a ring if it has something to send, and room.
func (all *rings) enter(h *host, l lane) {
	if h.inRing[l] || h.queue[l].head == nil || !h.room(l) {
		return
	}
	h.inRing[l], h.ringed[l] = true, nil
	if r := &all[l]; r.tail == nil {
		r.head, r.tail = h, h
	} else {
		r.tail.ringed[l] = h
		r.tail = h
	}
}

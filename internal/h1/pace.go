package h1

import (
	"cmp"
	"slices"
	"time"
)

// A TLS handshake costs a millisecond of a processor, a request over an open connection a twentieth of
// that. So a request over TLS waits for a connection of its host if that is expected to be free before
// another one could be opened, and connections are opened only as fast as the processors can compute:
//
//	request ──▶ idle connection? ──▶ go
//	              │ no
//	              ▼
//	   host.waiting ◀── a connection is given back ──▶ go
//	        │ waiting is expected to cost more than opening, or has taken too long
//	        ▼
//	   pace.hosts ──── a slot is free, no handshake wants it ──▶ dial ──▶ handshake ──▶ go
//
// A handshake holds its slot while it computes and gives it back while it waits for the network.
// Handshakes that have begun go first, so one that has begun also ends. Far hosts lose nothing by
// that: the network takes most of their time.

// dialHold is how long connecting holds a slot where hosts are nearby. Most have answered by
// then, and the handshake goes on, so no more are begun than the processors can compute.
const dialHold = 200 * time.Microsecond

// nearby is the longest time in which a nearby host accepts a connection. A request to an unknown
// host waits that long for the first connection, which costs less than a second handshake.
const nearby = 5 * time.Millisecond

// longPatience is the longest time that a request waits before it asks for a connection again.
const longPatience = 250 * time.Millisecond

// pace decides when connections are opened, and hands out slots to their handshakes. clock.mu
// guards it.
type pace struct {
	clock    *clock
	perHost  int // Config.MaxConnsPerHost
	conns    int // connections that are open or being opened
	slots    slots
	connects time.Duration // time of a TCP connect: a moving average over all hosts
	hosts    []*host       // that need a connection, oldest first
}

func newPace(k *clock, cfg *Config) pace {
	return pace{
		clock: k, perHost: cfg.MaxConnsPerHost,
		slots: newSlots(k, cmp.Or(cfg.HandshakeTimeout, cfg.Timeout)),
	}
}

// enqueue has a request wait for a connection of its host. mu is held.
func (p *pace) enqueue(x *exchange, h *host, fresh bool) *waiter {
	inLine := h.lined(p.clock.elapsed())
	w := &waiter{x: x, host: h, inLine: inLine, fresh: fresh, got: make(chan grant, 1)}
	x.waiter = w
	if h.key.secure {
		w.patience, w.known = p.patienceFor(h), h.known()
		w.due = p.clock.elapsed() + w.patience
		if len(h.waiting) == 0 || w.due < h.nagAt {
			p.setNag(h, w.due, w.patience)
		}
	}
	h.waiting = append(h.waiting, w)
	if fresh {
		h.urgent++
	}
	return w
}

// openingTime estimates how long it takes now to open a connection to a host: the average of late,
// and the processor time of the handshakes ahead. mu is held.
func (p *pace) openingTime(h *host) time.Duration {
	ahead := time.Duration(p.slots.begun + len(p.hosts))
	return h.opens + ahead*p.slots.cost/time.Duration(p.slots.total)
}

// tenth bounds the delay by waiting for a connection: a request may end later by this part than
// with a connection of its own.
const tenth = 10

// wants reports whether a host needs another connection. It does if its connections cannot serve
// all waiting requests before a new connection would have served one, and a tenth later.
// mu is held.
func (p *pace) wants(h *host) bool {
	switch {
	case len(h.waiting) == 0 || h.conns >= p.perHost:
		return false
	case h.conns == 0 || h.urgent > 0 || !h.key.secure:
		return true
	case !h.known():
		return false
	}
	// By the shortest answers: longer ones mean busy processors, which another connection
	// does not help.
	opens := p.openingTime(h)
	more := (opens + h.quick) / tenth
	// Each open connection carries a request already; each that is being opened has one.
	carried := (h.conns-h.opening)*int((opens+more)/h.quick) + h.opening*int(more/h.quick)
	return len(h.waiting) > carried
}

// patienceFor returns how long one more request waits before it asks for a connection. mu is held.
func (p *pace) patienceFor(h *host) time.Duration {
	if !h.known() {
		return nearby + time.Millisecond
	}
	opens := p.openingTime(h)
	expected := h.answer * time.Duration(len(h.waiting)+1) / time.Duration(max(h.conns-h.opening, 1))
	return max(min(expected, opens)+h.answer+(opens+h.answer)/tenth, time.Millisecond)
}

// busyAnswer is how many times as long as the shortest an answer takes where processors are busy.
const busyAnswer = 3

// overdue reports whether a host should open another connection for a request that has waited for
// its patience. It should not where our own processors delay the first one. mu is held.
func (p *pace) overdue(h *host) bool {
	now := p.clock.elapsed()
	switch {
	case h.known():
		// Busy processors delay answers, and another handshake delays them further.
		busy := len(p.hosts) >= p.slots.total || h.answer > busyAnswer*h.quick
		return !busy || now-h.used > 3*(h.opens+h.answer)
	case h.connect >= nearby:
		return true
	case h.connect == 0:
		return h.opening > 0 && now-h.begun >= nearby
	case h.conns == h.opening:
		return now-h.begun >= longPatience
	}
	return now-h.opened >= p.openingTime(h) // answering takes longer than opening
}

// want opens a connection for a host that needs one. Over TLS the host waits for a slot.
// mu is held.
func (p *pace) want(h *host) {
	switch {
	case !p.wants(h):
	case !h.key.secure:
		p.letOpen(h, nil)
	case !h.queued:
		p.queue(h)
		p.share()
	}
}

// queue enqueues a host for a slot. mu is held.
func (p *pace) queue(h *host) {
	h.queued, h.queuedAt = true, p.clock.elapsed()
	p.hosts = append(p.hosts, h)
}

// share hands out the free slots: to handshakes that can go on, then to hosts. mu is held.
func (p *pace) share() {
	p.slots.forget(p.clock.elapsed())
	for p.slots.free > 0 {
		switch {
		case len(p.slots.ready) > 0:
			s := p.slots.ready[0]
			p.slots.ready[0], p.slots.ready = nil, p.slots.ready[1:]
			p.slots.take(s)
			s.got <- struct{}{}
		case len(p.hosts) > 0 && !p.slots.full():
			h := p.hosts[0]
			p.hosts[0], p.hosts = nil, p.hosts[1:]
			h.inLine, h.queued = h.lined(p.clock.elapsed()), false
			if !p.wants(h) {
				continue
			}
			h.urgent = max(h.urgent-1, 0)
			s := &slot{got: make(chan struct{}, 1)}
			p.slots.take(s)
			p.letOpen(h, s)
			if p.wants(h) {
				p.queue(h)
			}
		default:
			return
		}
	}
}

// letOpen has a waiting request open a connection: the last in line, as other connections serve
// those before it. A request that needs a fresh connection goes first. mu is held.
func (p *pace) letOpen(h *host, s *slot) {
	if h.opening == 0 {
		h.begun = p.clock.elapsed()
	}
	h.conns++
	h.opening++
	p.conns++
	i := len(h.waiting) - 1
	if j := slices.IndexFunc(h.waiting, func(w *waiter) bool { return w.fresh }); j >= 0 {
		i = j
	}
	p.clock.extend(h.waiting[i])
	h.hand(i, grant{open: true, slot: s})
}

// serve gives a connection to the request that has waited longest for one, and reports whether
// there was any. mu is held.
func (p *pace) serve(cn *conn) bool {
	i := slices.IndexFunc(cn.host.waiting, func(w *waiter) bool { return !w.fresh })
	if i >= 0 {
		p.clock.extend(cn.host.waiting[i])
		cn.host.hand(i, grant{conn: cn})
	}
	return i >= 0
}

// nag asks for connections for the requests of a host whose patience is over. One timer calls it for
// all of them.
func (p *pace) nag(h *host) {
	p.clock.mu.Lock()
	defer p.clock.mu.Unlock()
	now, asking := p.clock.elapsed(), 0
	next := never
	for _, w := range h.waiting {
		switch {
		case h.known() && !w.known: // the host was measured since
			w.known, w.patience = true, p.patienceFor(h)
			w.due = now + w.patience
		case w.due <= now:
			asking++
			w.patience = min(2*w.patience, max(w.patience, longPatience))
			w.due = now + w.patience
		}
		next = min(next, w.due)
	}
	if asking > 0 && p.overdue(h) {
		if h.urgent += asking; !h.known() {
			h.urgent = len(h.waiting) // the host is far: each needs its own
		}
		h.urgent = min(h.urgent, len(h.waiting))
		p.want(h)
	}
	if len(h.waiting) > 0 {
		p.setNag(h, next, next-now)
	}
}

// setNag sets the timer that calls nag: to a time, which is in so long. mu is held.
func (p *pace) setNag(h *host, at, in time.Duration) {
	h.nagAt = at
	if h.nagging == nil {
		h.nagging = time.AfterFunc(in, func() { p.nag(h) })
	} else {
		h.nagging.Reset(in)
	}
}

// release frees the slot of a handshake that waits for the network.
func (p *pace) release(s *slot) {
	if s != nil {
		p.clock.mu.Lock()
		p.slots.give(s)
		p.share()
		p.clock.mu.Unlock()
	}
}

// finish frees the slot of a handshake that has succeeded or failed.
func (p *pace) finish(s *slot) {
	if s != nil {
		p.clock.mu.Lock()
		p.slots.give(s)
		s.left = never
		if s.counts {
			p.slots.begun--
		}
		average(&p.slots.cost, min(s.spent, maxCost*p.slots.cost))
		p.share()
		p.clock.mu.Unlock()
	}
}

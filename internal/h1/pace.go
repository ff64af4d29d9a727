package h1

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// A TLS handshake costs a millisecond of a processor, a request over a connection that is
// open a twentieth of that. So a request over TLS waits for a connection of its host if that
// is expected to be free before another one could be opened, and connections are opened
// only as fast as the processors can compute:
//
//	request ──▶ idle connection? ──▶ go
//	              │ no
//	              ▼
//	   host.waiting ◀── a connection is given back ──▶ go
//	        │ waiting is expected to cost more than opening, or has taken too long
//	        ▼
//	   pace.hosts ──── a slot is free, no handshake wants it ──▶ dial ──▶ handshake ──▶ go
//
// A handshake holds its slot while it computes and gives it back while it waits for the
// network. Handshakes that have begun go first, so one that has begun also ends. Far hosts
// lose nothing by that: what takes long there is the network.

// dialHold is how long connecting holds a slot where hosts are nearby. Most have answered by
// then, and the handshake goes on, so no more are begun than the processors can compute.
const dialHold = 200 * time.Microsecond

// nearby is the longest time in which a nearby host accepts a connection. A request to an unknown
// host waits that long for the first connection, which costs less than a second handshake.
const nearby = 5 * time.Millisecond

// longPatience is the longest time that a request waits before it asks for a connection again.
const longPatience = 250 * time.Millisecond

// Handshakes that have begun share the slots. Only as many begin as can compute within an eighth
// of the time limit, so that none times out. A handshake that has waited for the network for
// that eighth does not count: its host may be dead.
const (
	begunPart = 8
	// firstCost is the estimate of pace.cost until a handshake has been measured.
	firstCost = 5 * time.Millisecond
	// maxCost bounds how much one host can raise pace.cost: its sample counts as so many times
	// the average at most.
	maxCost = 4
)

// pace hands out slots to handshakes, one for each processor. Guarded by Client.mu.
type pace struct {
	slots, free int
	limit       time.Duration // of a handshake
	begun       int           // handshakes under way that count
	waiting     []absence     // handshakes that wait for the network, oldest first
	connects    time.Duration // time of a TCP connect: a moving average over all hosts
	cost        time.Duration // processor time of a handshake: a moving average
	ready       []*slot       // of handshakes under way that can go on, oldest first
	hosts       []*host       // that need a connection, oldest first
}

func newPace(limit time.Duration) pace {
	slots := runtime.GOMAXPROCS(0)
	return pace{slots: slots, free: slots, limit: limit, cost: firstCost}
}

// absence records that a handshake gave its slot back at a time, to wait for the network. It is
// out of date once the handshake has gone on or ended.
type absence struct {
	of    *slot
	since time.Duration
}

// grace returns how long a handshake may wait for the network and still count.
func (p *pace) grace() time.Duration { return p.limit / begunPart }

// forget stops counting the handshakes that have waited for the network for too long.
func (p *pace) forget(now time.Duration) {
	for len(p.waiting) > 0 {
		a := p.waiting[0]
		current := a.of.left == a.since && !a.of.held
		if current && a.of.waited+now-a.since < p.grace() {
			return
		}
		if current && a.of.counts {
			a.of.counts = false
			p.begun--
		}
		p.waiting[0], p.waiting = absence{}, p.waiting[1:]
	}
}

// full reports whether no further handshake may begin.
func (p *pace) full() bool {
	return p.begun >= max(1, int(p.grace()/p.cost))*p.slots
}

// pacing is the part of a host that pace owns.
type pacing struct {
	queued   bool // in pace.hosts
	queuedAt time.Duration
	inLine   time.Duration // how long it was in pace.hosts before
	urgent   int           // requests that have waited for longer than expected
	nagging  *time.Timer   // calls nag at nagAt while requests wait; nil before the first
	nagAt    time.Duration
	begun    time.Duration // when it began to open the oldest connection that is not open yet
	opened   time.Duration // when the latest connection was open
}

// slot is the right of one handshake to compute. Guarded by Client.mu.
type slot struct {
	held   bool
	counts bool          // among pace.begun
	since  time.Duration // when it was taken
	left   time.Duration // since when its handshake waits for the network; never: it does not
	spent  time.Duration // how long it was held before
	waited time.Duration // how long its handshake waited for the network before
	got    chan struct{} // receives when acquire gets the slot
}

// waiter is a request that waits for a connection, or for the right to open one.
type waiter struct {
	x        *exchange
	host     *host
	due      time.Duration // when it asks for another connection
	patience time.Duration // how long it waits until then
	known    bool          // patience was computed from measured times (habits.known)
	inLine   time.Duration // host.lined when it began to wait, or its deadline was last extended
	fresh    bool          // it needs a connection that was not used before
	got      chan grant
}

// grant is what a waiter receives: a connection, or the right to open one, over TLS with a slot.
// It is empty if the request was broken off.
type grant struct {
	conn *conn
	open bool
	slot *slot
}

// wait enqueues a request for a connection of its host, and has one opened if need be. mu is held.
func (c *Client) wait(x *exchange, h *host) *waiter {
	w := c.line(x, h, false)
	c.want(h)
	return w
}

// line enqueues a request for a connection of its host. mu is held.
func (c *Client) line(x *exchange, h *host, fresh bool) *waiter {
	w := &waiter{x: x, host: h, inLine: h.lined(c), fresh: fresh, got: make(chan grant, 1)}
	x.waiter = w
	if h.key.secure {
		w.patience, w.known = c.patience(h), h.known()
		w.due = c.now() + w.patience
		if len(h.waiting) == 0 || w.due < h.nagAt {
			c.nagAt(h, w.due, w.patience)
		}
	}
	h.waiting = append(h.waiting, w)
	if fresh {
		h.urgent++
	}
	return w
}

// known reports whether both times of a host were measured: to open a connection, and to answer.
func (h *habits) known() bool { return h.opens > 0 && h.answer > 0 }

// answered records how long an answer took. mu is held.
func (h *host) answered(took time.Duration) {
	if h.answer == 0 {
		// Nothing was known when the waiting requests became urgent.
		h.urgent = 0
		for _, w := range h.waiting {
			if w.fresh {
				h.urgent++
			}
		}
	}
	average(&h.answer, took)
	if took = max(took, 1); h.quick == 0 || took < h.quick {
		h.quick = took
	} else {
		h.quick += (took - h.quick) / 16
	}
}

// openingTime estimates how long it takes now to open a connection to a host: the average of late,
// and the processor time of the handshakes ahead. mu is held.
func (c *Client) openingTime(h *host) time.Duration {
	p := &c.pace
	return h.opens + time.Duration(p.begun+len(p.hosts))*p.cost/time.Duration(p.slots)
}

// tenth bounds the delay by waiting for a connection: a request may end later by this part than
// with a connection of its own.
const tenth = 10

// wants reports whether a host needs another connection. It does if its connections cannot serve
// all waiting requests before a new connection would have served one, and a tenth later.
// mu is held.
func (c *Client) wants(h *host) bool {
	switch {
	case len(h.waiting) == 0 || h.conns >= c.cfg.MaxConnsPerHost:
		return false
	case h.conns == 0 || h.urgent > 0 || !h.key.secure:
		return true
	case !h.known():
		return false
	}
	// By the shortest answers: longer ones mean busy processors, which another connection
	// does not help.
	opens := c.openingTime(h)
	more := (opens + h.quick) / tenth
	// Each open connection carries a request already; each that is being opened has one.
	carried := (h.conns-h.opening)*int((opens+more)/h.quick) + h.opening*int(more/h.quick)
	return len(h.waiting) > carried
}

// patience returns how long one more request waits before it asks for a connection. mu is held.
func (c *Client) patience(h *host) time.Duration {
	if !h.known() {
		return nearby + time.Millisecond
	}
	opens := c.openingTime(h)
	expected := h.answer * time.Duration(len(h.waiting)+1) / time.Duration(max(h.conns-h.opening, 1))
	return max(min(expected, opens)+h.answer+(opens+h.answer)/tenth, time.Millisecond)
}

// busyAnswer is how many times as long as the shortest an answer takes where processors are busy.
const busyAnswer = 3

// overdue reports whether a host should open another connection for a request that has waited for
// its patience. It should not where our own processors delay the first one. mu is held.
func (c *Client) overdue(h *host) bool {
	now := c.now()
	switch {
	case h.known():
		// Busy processors delay answers, and another handshake delays them further.
		busy := len(c.pace.hosts) >= c.pace.slots || h.answer > busyAnswer*h.quick
		return !busy || now-h.used > 3*(h.opens+h.answer)
	case h.connect >= nearby:
		return true
	case h.connect == 0:
		return h.opening > 0 && now-h.begun >= nearby
	case h.conns == h.opening:
		return now-h.begun >= longPatience
	}
	return now-h.opened >= c.openingTime(h) // answering takes longer than opening
}

// want opens a connection for a host that needs one. Over TLS the host waits for a slot.
// mu is held.
func (c *Client) want(h *host) {
	switch {
	case !c.wants(h):
	case !h.key.secure:
		c.open(h, nil)
	case !h.queued:
		c.queue(h)
		c.share()
	}
}

// queue enqueues a host for a slot. mu is held.
func (c *Client) queue(h *host) {
	h.queued, h.queuedAt = true, c.now()
	c.pace.hosts = append(c.pace.hosts, h)
}

// lined returns how long the host has been in pace.hosts, in all. mu is held.
func (h *host) lined(c *Client) time.Duration {
	if !h.queued {
		return h.inLine
	}
	return h.inLine + c.now() - h.queuedAt
}

// share hands out the free slots: to handshakes that can go on, then to hosts. mu is held.
func (c *Client) share() {
	p := &c.pace
	p.forget(c.now())
	for p.free > 0 {
		switch {
		case len(p.ready) > 0:
			s := p.ready[0]
			p.ready[0], p.ready = nil, p.ready[1:]
			c.take(s)
			s.got <- struct{}{}
		case len(p.hosts) > 0 && !p.full():
			h := p.hosts[0]
			p.hosts[0], p.hosts = nil, p.hosts[1:]
			h.inLine, h.queued = h.lined(c), false
			if !c.wants(h) {
				continue
			}
			h.urgent = max(h.urgent-1, 0)
			s := &slot{got: make(chan struct{}, 1)}
			c.take(s)
			c.open(h, s)
			if c.wants(h) {
				c.queue(h)
			}
		default:
			return
		}
	}
}

// open has a waiting request open a connection: the last in line, as other connections serve those
// before it. A request that needs a fresh connection goes first. mu is held.
func (c *Client) open(h *host, s *slot) {
	if h.opening == 0 {
		h.begun = c.now()
	}
	h.conns++
	h.opening++
	c.conns++
	i := len(h.waiting) - 1
	if j := slices.IndexFunc(h.waiting, func(w *waiter) bool { return w.fresh }); j >= 0 {
		i = j
	}
	c.hand(h, i, grant{open: true, slot: s})
}

// serve gives a connection to the request that has waited longest for one, and reports whether
// there was any. mu is held.
func (c *Client) serve(cn *conn) bool {
	i := slices.IndexFunc(cn.host.waiting, func(w *waiter) bool { return !w.fresh })
	if i >= 0 {
		c.hand(cn.host, i, grant{conn: cn})
	}
	return i >= 0
}

// hand ends the wait of a request with a grant. mu is held.
func (c *Client) hand(h *host, i int, g grant) {
	w := h.waiting[i]
	if g.conn != nil || g.open {
		c.extend(w)
	}
	h.waiting = slices.Delete(h.waiting, i, i+1)
	h.urgent = min(h.urgent, len(h.waiting))
	if len(h.waiting) == 0 && h.nagging != nil {
		h.nagging.Stop()
	}
	w.x.waiter = nil
	w.got <- g
}

// giveUp ends the wait of a request that is broken off. mu is held.
func (c *Client) giveUp(w *waiter) {
	c.hand(w.host, slices.Index(w.host.waiting, w), grant{})
}

// nag asks for connections for the requests of a host whose patience is over. One timer calls it for
// all of them.
func (c *Client) nag(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, asking := c.now(), 0
	next := never
	for _, w := range h.waiting {
		switch {
		case h.known() && !w.known: // the host was measured since
			w.known, w.patience = true, c.patience(h)
			w.due = now + w.patience
		case w.due <= now:
			asking++
			w.patience = min(2*w.patience, max(w.patience, longPatience))
			w.due = now + w.patience
		}
		next = min(next, w.due)
	}
	if asking > 0 && c.overdue(h) {
		if h.urgent += asking; !h.known() {
			h.urgent = len(h.waiting) // the host is far: each needs its own
		}
		h.urgent = min(h.urgent, len(h.waiting))
		c.want(h)
	}
	if len(h.waiting) > 0 {
		c.nagAt(h, next, next-now)
	}
}

// nagAt sets the timer that calls nag: to a time, which is in so long. mu is held.
func (c *Client) nagAt(h *host, at, in time.Duration) {
	h.nagAt = at
	if h.nagging == nil {
		h.nagging = time.AfterFunc(in, func() { c.nag(h) })
	} else {
		h.nagging.Reset(in)
	}
}

// take holds a free slot. mu is held.
func (c *Client) take(s *slot) {
	c.pace.free--
	s.held, s.since = true, c.now()
	if s.left == 0 { // it begins
		s.counts = true
		c.pace.begun++
	}
}

// give frees a slot, if it is held. mu is held.
func (c *Client) give(s *slot) {
	if s.held {
		s.held, s.left = false, c.now()
		s.spent += s.left - s.since
		c.pace.free++
		c.pace.waiting = append(c.pace.waiting, absence{s, s.left})
	}
}

// release frees the slot of a handshake that waits for the network.
func (c *Client) release(s *slot) {
	if s != nil {
		c.mu.Lock()
		c.give(s)
		c.share()
		c.mu.Unlock()
	}
}

// finish frees the slot of a handshake that has succeeded or failed.
func (c *Client) finish(s *slot) {
	if s != nil {
		c.mu.Lock()
		c.give(s)
		s.left = never
		if s.counts {
			c.pace.begun--
		}
		average(&c.pace.cost, min(s.spent, maxCost*c.pace.cost))
		c.share()
		c.mu.Unlock()
	}
}

// acquire waits for a slot for a handshake that can go on, unless it holds one. Its error is the
// cause of the context's end.
func (c *Client) acquire(ctx context.Context, s *slot) error {
	if s == nil {
		return nil
	}
	c.mu.Lock()
	if !s.held {
		s.waited += c.now() - s.left
		s.left = never
	}
	if s.held || len(c.pace.ready) == 0 && c.pace.free > 0 {
		if !s.held {
			c.take(s)
		}
		c.mu.Unlock()
		return nil
	}
	c.pace.ready = append(c.pace.ready, s)
	c.mu.Unlock()
	select {
	case <-s.got:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	if i := slices.Index(c.pace.ready, s); i >= 0 {
		c.pace.ready = slices.Delete(c.pace.ready, i, i+1)
	} else {
		<-s.got // else the next acquire would take this word for its own
	}
	c.mu.Unlock()
	return context.Cause(ctx) // finish frees a slot that came at the last moment
}

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

// nearby is what connecting to a host takes that is no further away than this: to wait until its
// first handshake has shown more costs less than a handshake. In that time nothing is known of
// hosts that are further away.
const nearby = 5 * time.Millisecond

// longPatience is how long a request waits at most before it asks again for another connection.
const longPatience = 250 * time.Millisecond

// Handshakes that have begun share the slots. So that none takes too long by that, for us or for
// its server, no more are begun than can compute in an eighth of the time limit. Those that have
// waited for the network for as long do not count: their hosts may be dead.
const (
	begunPart = 8
	// firstCost is what a handshake is taken to compute before one has shown it.
	firstCost = 5 * time.Millisecond
)

// pace hands out the slots of the processors. Guarded by Client.mu.
type pace struct {
	slots, free int
	limit       time.Duration // of a handshake
	begun       int           // handshakes under way that count
	waiting     []absence     // those that wait for the network, the longest first
	connects    time.Duration // what connecting takes: a moving average over all hosts
	cost        time.Duration // what one computes: a moving average
	ready       []*slot       // of those under way that have something to compute
	hosts       []*host       // that want a connection
}

func newPace(limit time.Duration) pace {
	slots := runtime.GOMAXPROCS(0)
	return pace{slots: slots, free: slots, limit: limit, cost: firstCost}
}

// absence is that a handshake has waited for the network since then, unless it has gone on or ended.
type absence struct {
	of    *slot
	since time.Duration
}

// grace is how long a handshake that waits for the network counts.
func (p *pace) grace() time.Duration { return p.limit / begunPart }

// forget counts out those that have waited for the network for too long.
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

// full tells whether no more handshakes should begin.
func (p *pace) full() bool {
	return p.begun >= max(1, int(p.grace()/p.cost))*p.slots
}

// pacing is the part of a host that pace owns.
type pacing struct {
	queued   bool // in pace.hosts
	queuedAt time.Duration
	urgent   int         // so many requests have waited for longer than was expected
	nagging  *time.Timer // runs while requests wait, until nagAt; nil before the first
	nagAt    time.Duration
	begun    time.Duration // when the first of the connections was begun that are being opened
	opened   time.Duration // when the latest was open
}

// slot is the right of one handshake to compute. Guarded by Client.mu.
type slot struct {
	held   bool
	counts bool          // among pace.begun
	since  time.Duration // when it was taken
	left   time.Duration // since when it waits for the network; never: it does not
	spent  time.Duration // how long it was held before that
	waited time.Duration // how long it waited for the network before that
	got    chan struct{}
}

// waiter is a request that waits for a connection, or for the right to open one.
type waiter struct {
	x        *exchange
	host     *host
	due      time.Duration // when it asks for another connection
	patience time.Duration // how long it waits until then
	known    bool          // what the host takes was known when that was set
	since    time.Duration // from when its time in line counts
	fresh    bool          // a connection that was used before will not do
	got      chan grant
}

// grant is what a waiter gets: a connection, or the right to open one, with a slot where it
// needs one. Neither: the request was broken off.
type grant struct {
	conn *conn
	open bool
	slot *slot
}

// wait has a request wait for a connection of its host. mu is held.
func (c *Client) wait(x *exchange, h *host) *waiter {
	w := c.line(x, h, false)
	c.want(h)
	return w
}

// line puts a request into the line of its host. mu is held.
func (c *Client) line(x *exchange, h *host, fresh bool) *waiter {
	w := &waiter{x: x, host: h, since: c.now(), fresh: fresh, got: make(chan grant, 1)}
	x.waiter = w
	if h.key.secure {
		w.patience, w.known = c.patience(h), h.known()
		w.due = w.since + w.patience
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

// known tells whether the host has shown how long it takes to open a connection to it, and to
// answer.
func (h *habits) known() bool { return h.opens > 0 && h.answer > 0 }

// answered notes how long an answer took. mu is held.
func (h *host) answered(took time.Duration) {
	if h.answer == 0 {
		// What waits may be served sooner than was to be feared while nothing was known.
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

// openingTime is how long it would take now to open a connection to a host: as long as it took of
// late, and the time that the handshakes ahead compute. mu is held.
func (c *Client) openingTime(h *host) time.Duration {
	p := &c.pace
	return h.opens + time.Duration(p.begun+len(p.hosts))*p.cost/time.Duration(p.slots)
}

// tenth is by how much a request may be later, for having waited for a connection, than it
// would be with one of its own.
const tenth = 10

// wants tells whether a host should have another connection opened: because those that it has
// cannot carry all that wait in the time in which one that opens a connection has its answer,
// and a tenth. mu is held.
func (c *Client) wants(h *host) bool {
	switch {
	case len(h.waiting) == 0 || h.conns >= c.cfg.MaxConnsPerHost:
		return false
	case h.conns == 0 || h.urgent > 0 || !h.key.secure:
		return true
	case !h.known():
		return false
	}
	// Where answers take longer than they could, the processors are busy, and another connection
	// would not help.
	opens := c.openingTime(h)
	more := (opens + h.quick) / tenth
	// Each that is open carries one already, and each that is being opened will.
	carried := (h.conns-h.opening)*int((opens+more)/h.quick) + h.opening*int(more/h.quick)
	return len(h.waiting) > carried
}

// patience is how long one more request waits before it asks for another connection. mu is held.
func (c *Client) patience(h *host) time.Duration {
	if !h.known() {
		return nearby + time.Millisecond
	}
	opens := c.openingTime(h)
	expected := h.answer * time.Duration(len(h.waiting)+1) / time.Duration(max(h.conns-h.opening, 1))
	return max(min(expected, opens)+h.answer+(opens+h.answer)/tenth, time.Millisecond)
}

// overdue tells whether a request that has lost its patience should have another connection
// opened: not where the first one is held up by our own processors. mu is held.
func (c *Client) overdue(h *host) bool {
	now := c.now()
	switch {
	case h.known() || h.connect >= nearby:
		return true
	case h.connect == 0:
		return h.opening > 0 && now-h.begun >= nearby
	case h.conns == h.opening:
		return now-h.begun >= longPatience
	}
	return now-h.opened >= c.openingTime(h) // answering takes longer than opening
}

// want has a connection opened for a host that should have one, in its turn. mu is held.
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

// queue has a host wait for a slot. mu is held.
func (c *Client) queue(h *host) {
	h.queued, h.queuedAt = true, c.now()
	c.pace.hosts = append(c.pace.hosts, h)
}

// share gives away the slots that are free. mu is held.
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
			h.queued = false
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

// open has one of the waiting requests open a connection: the last in line, as the others are
// served before it by the connections that there are. One that can use no other goes first.
// mu is held.
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
	if s != nil {
		c.extend(h.waiting[i].x)
	}
	c.hand(h, i, grant{open: true, slot: s})
}

// serve gives a connection to the request that waits longest, if there is one that can use it.
// mu is held.
func (c *Client) serve(cn *conn) bool {
	i := slices.IndexFunc(cn.host.waiting, func(w *waiter) bool { return !w.fresh })
	if i >= 0 {
		c.hand(cn.host, i, grant{conn: cn})
	}
	return i >= 0
}

// hand gives a waiting request something. mu is held.
func (c *Client) hand(h *host, i int, g grant) {
	w := h.waiting[i]
	h.waiting = slices.Delete(h.waiting, i, i+1)
	h.urgent = min(h.urgent, len(h.waiting))
	if len(h.waiting) == 0 && h.nagging != nil {
		h.nagging.Stop()
	}
	w.x.waiter = nil
	w.got <- g
}

// giveUp takes a request that is broken off out of the line. mu is held.
func (c *Client) giveUp(w *waiter) {
	c.hand(w.host, slices.Index(w.host.waiting, w), grant{})
}

// nag asks for other connections for the requests that have lost their patience. One timer does so
// for all that wait for a host.
func (c *Client) nag(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, asking := c.now(), 0
	next := never
	for _, w := range h.waiting {
		switch {
		case h.known() && !w.known: // it began to wait while nothing was known
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
			h.urgent = len(h.waiting) // what is true for one is true for all
		}
		h.urgent = min(h.urgent, len(h.waiting))
		c.want(h)
	}
	if len(h.waiting) > 0 {
		c.nagAt(h, next, next-now)
	}
}

// nagAt has nag called at a time, which is so far away. mu is held.
func (c *Client) nagAt(h *host, at, in time.Duration) {
	h.nagAt = at
	if h.nagging == nil {
		h.nagging = time.AfterFunc(in, func() { c.nag(h) })
	} else {
		h.nagging.Reset(in)
	}
}

// take takes a slot that is free. mu is held.
func (c *Client) take(s *slot) {
	c.pace.free--
	s.held, s.since = true, c.now()
	if s.left == 0 { // it begins
		s.counts = true
		c.pace.begun++
	}
}

// give gives a slot back, if it is held. mu is held.
func (c *Client) give(s *slot) {
	if s.held {
		s.held, s.left = false, c.now()
		s.spent += s.left - s.since
		c.pace.free++
		c.pace.waiting = append(c.pace.waiting, absence{s, s.left})
	}
}

// release gives a slot back, for a handshake that waits for the network.
func (c *Client) release(s *slot) {
	if s != nil {
		c.mu.Lock()
		c.give(s)
		c.share()
		c.mu.Unlock()
	}
}

// finish notes that a handshake is over, whatever came of it.
func (c *Client) finish(s *slot) {
	if s != nil {
		c.mu.Lock()
		c.give(s)
		s.left = never
		if s.counts {
			c.pace.begun--
		}
		average(&c.pace.cost, s.spent)
		c.share()
		c.mu.Unlock()
	}
}

// acquire takes a slot for a handshake that goes on, unless it holds one.
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
	}
	c.mu.Unlock()
	return context.Cause(ctx) // a slot that it got at the last moment goes with it
}

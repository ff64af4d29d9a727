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

// dialHold is how long connecting holds a slot. Within that time a host nearby has
// answered, and the handshake goes on; longer waits are the network's.
const dialHold = 200 * time.Microsecond

// unknownPatience is how long a request waits for a connection before it has another one
// opened, where it is not known how long the host takes to answer.
const unknownPatience = 250 * time.Millisecond

// Handshakes that have begun share the slots. So that none takes too long by that, for us or for
// its server, no more are begun than can compute in an eighth of the time limit.
const (
	begunPart = 8
	// firstCost is what a handshake is taken to compute before one has shown it.
	firstCost = 5 * time.Millisecond
)

// pace hands out the slots of the processors. Guarded by Client.mu.
type pace struct {
	slots, free int
	limit       time.Duration // of a handshake
	begun       int           // handshakes under way
	cost        time.Duration // what one computes: a moving average
	ready       []*slot       // of those under way that have something to compute
	hosts       []*host       // that want a connection
}

func newPace(limit time.Duration) pace {
	slots := runtime.GOMAXPROCS(0)
	return pace{slots: slots, free: slots, limit: limit, cost: firstCost}
}

// full tells whether no more handshakes should begin.
func (p *pace) full() bool {
	return p.begun >= max(p.slots, int(p.limit/begunPart/p.cost)*p.slots)
}

// pacing is the part of a host that pace owns.
type pacing struct {
	queued   bool // in pace.hosts
	queuedAt time.Duration
	urgent   bool // a request has waited for longer than was expected
}

// slot is the right of one handshake to compute. Guarded by Client.mu.
type slot struct {
	held  bool
	since time.Duration // when it was taken
	spent time.Duration // how long it was held before that
	got   chan struct{}
}

// waiter is a request that waits for a connection, or for the right to open one.
type waiter struct {
	x        *exchange
	host     *host
	patience time.Duration // 0: for ever
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
	if h.key.secure {
		w.patience = c.patience(h)
	}
	h.urgent = h.urgent || fresh
	x.waiter = w
	h.waiting = append(h.waiting, w)
	return w
}

// openingTime is how long it would take now to open a connection to a host, 0 where that is not
// known: as long as it took of late, and the time that the handshakes ahead compute.
func (c *Client) openingTime(h *host) time.Duration {
	if h.opens == 0 || h.answer == 0 {
		return 0
	}
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
	opens := c.openingTime(h)
	switch {
	case len(h.waiting) == 0 || h.conns >= c.cfg.MaxConnsPerHost:
		return false
	case h.conns == 0 || h.urgent || !h.key.secure || opens == 0:
		return true
	}
	more := (opens + h.answer) / tenth
	// Each that is open carries one already, and each that is being opened will.
	carried := (h.conns-h.opening)*int((opens+more)/h.answer) + h.opening*int(more/h.answer)
	return len(h.waiting) > carried
}

// patience is how long one more request waits before it has another connection opened whatever
// was expected. mu is held.
func (c *Client) patience(h *host) time.Duration {
	opens := c.openingTime(h)
	if opens == 0 {
		return unknownPatience
	}
	expected := h.answer * time.Duration(len(h.waiting)+1) / time.Duration(max(h.conns-h.opening, 1))
	return max(min(expected, opens)+h.answer+(opens+h.answer)/tenth, time.Millisecond)
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
			h.urgent = false
			p.begun++
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
	w.x.waiter = nil
	w.got <- g
}

// giveUp takes a request that is broken off out of the line. mu is held.
func (c *Client) giveUp(w *waiter) {
	c.hand(w.host, slices.Index(w.host.waiting, w), grant{})
}

// await returns what the waiter gets.
func (c *Client) await(w *waiter) grant {
	if w.patience == 0 {
		return <-w.got
	}
	timer := time.NewTimer(w.patience)
	defer timer.Stop()
	for {
		select {
		case g := <-w.got:
			return g
		case <-timer.C:
			c.hurry(w)
			timer.Reset(max(w.patience, unknownPatience))
		}
	}
}

// hurry has another connection opened: the waiter has waited for longer than was expected.
func (c *Client) hurry(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.x.waiter == w {
		w.host.urgent = true
		c.want(w.host)
	}
}

// take takes a slot that is free. mu is held.
func (c *Client) take(s *slot) {
	c.pace.free--
	s.held, s.since = true, c.now()
}

// give gives a slot back, if it is held. mu is held.
func (c *Client) give(s *slot) {
	if s.held {
		s.held = false
		s.spent += c.now() - s.since
		c.pace.free++
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
		c.pace.begun--
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

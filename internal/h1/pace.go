package h1

import (
	"context"
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

// pace hands out the slots of the processors. Guarded by Client.mu.
type pace struct {
	free  int
	ready []*slot // of handshakes under way that have something to compute
	hosts []*host // that want a connection
}

// pacing is the part of a host that pace owns.
type pacing struct {
	queued   bool // in pace.hosts
	queuedAt time.Duration
	urgent   bool // a request has waited for longer than was expected
}

// slot is the right of one handshake to compute.
type slot struct {
	held bool // guarded by Client.mu
	got  chan struct{}
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
		w.patience = h.patience()
	}
	h.urgent = h.urgent || fresh
	x.waiter = w
	h.waiting = append(h.waiting, w)
	return w
}

// expected is how long the last of the waiting requests waits for one of the connections that
// there are, and of those that are being opened. 0 where that is not known.
func (h *host) expected() time.Duration {
	return h.answer * time.Duration(len(h.waiting)) / time.Duration(max(h.conns, 1))
}

// patience is how long one more request waits before it has another connection opened whatever
// was expected: a tenth longer than what opening and answering take together.
func (h *host) patience() time.Duration {
	if h.answer == 0 || h.opens == 0 {
		return unknownPatience
	}
	return max(min(h.expected()+h.answer, h.opens)+(h.opens+h.answer)/10, time.Millisecond)
}

// wants tells whether a host should have another connection opened. mu is held.
func (c *Client) wants(h *host) bool {
	switch {
	case len(h.waiting) == 0 || h.conns >= c.cfg.MaxConnsPerHost:
		return false
	case h.conns == 0 || h.urgent || !h.key.secure || h.answer == 0 || h.opens == 0:
		return true
	}
	return h.expected() > h.opens
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
			p.free--
			s.held = true
			s.got <- struct{}{}
		case len(p.hosts) > 0:
			h := p.hosts[0]
			p.hosts[0], p.hosts = nil, p.hosts[1:]
			h.queued = false
			if !c.wants(h) {
				continue
			}
			p.free--
			h.urgent = false
			c.extend(h.waiting[0].x)
			c.open(h, &slot{held: true, got: make(chan struct{}, 1)})
			if c.wants(h) {
				c.queue(h)
			}
		default:
			return
		}
	}
}

// open has the request that waits longest open a connection. mu is held.
func (c *Client) open(h *host, s *slot) {
	h.conns++
	c.conns++
	c.hand(h, grant{open: true, slot: s})
}

// hand gives the request that waits longest something, and tells whether there was one to
// take it. mu is held.
func (c *Client) hand(h *host, g grant) bool {
	for i, w := range h.waiting {
		if g.conn != nil && w.fresh {
			continue
		}
		h.waiting = slices.Delete(h.waiting, i, i+1)
		w.x.waiter = nil
		w.got <- g
		return true
	}
	return false
}

// giveUp takes a request that is broken off out of the line. mu is held.
func (c *Client) giveUp(w *waiter) {
	i := slices.Index(w.host.waiting, w)
	w.host.waiting = slices.Delete(w.host.waiting, i, i+1)
	w.x.waiter = nil
	w.got <- grant{}
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

// release gives a slot back, if it is held. Nil is none.
func (c *Client) release(s *slot) {
	if s == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.held {
		s.held = false
		c.pace.free++
		c.share()
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
			s.held = true
			c.pace.free--
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
	return context.Cause(ctx) // a slot that it got at the last moment is released with it
}

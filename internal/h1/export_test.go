package h1

import (
	"context"
	"slices"
	"time"
)

// ParseSimple runs the fast parser: whether it takes the answer, and what it makes
// of it.
func ParseSimple(b []byte) (simpleAnswer, needsMore bool, a Answer, closes bool, length, end int) {
	h := newHead()
	v := h.parse(b)
	return v == simple, v == incomplete, Answer{h.status, string(h.retryAfter)}, h.close, h.length, h.end
}

// ParseDripped does so for bytes that come one at a time, and reports how many were
// parsed until it was clear. Lines that were parsed are spoiled in b.
func ParseDripped(b []byte) (simpleAnswer bool, status int, closes bool, length, end, parsed int) {
	h := newHead()
	v := incomplete
	for parsed < len(b) && v == incomplete {
		parsed++
		if v = h.parse(b[:parsed]); b[parsed-1] == '\n' {
			clear(b[:parsed])
		}
	}
	return v == simple, h.status, h.close, h.length, h.end, parsed
}

// Watching reports whether the clock still ticks, and how many contexts are watched.
func (c *Client) Watching() (ticking bool, watches int) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.clock.ticking, len(c.pool.clock.watches)
}

// Hear judges all idle connections as if something had come on each, and returns when each was
// given back by a request, before and after.
func (c *Client) Hear() (before, after map[string]time.Duration) {
	since := func() map[string]time.Duration {
		times := map[string]time.Duration{}
		for _, cn := range c.pool.idle.all {
			times[cn.host.key.authority] = cn.since
		}
		return times
	}
	c.pool.mu.Lock()
	before = since()
	all := slices.Clone(c.pool.idle.all)
	for _, cn := range all {
		c.pool.idle.remove(cn)
	}
	c.pool.mu.Unlock()
	c.pool.hear(all)
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return before, since()
}

// LookAround looks at all idle connections, as is done in parts by and by.
func (c *Client) LookAround() {
	for range lookPart {
		c.pool.mu.Lock()
		c.pool.idle.lookAt = 0
		spoken := c.pool.idle.look(c.pool.clock.elapsed())
		c.pool.mu.Unlock()
		c.pool.hear(spoken)
	}
}

// Paced returns how many slots are free, how many handshakes count as begun, and how many wait for a
// slot.
func (c *Client) Paced() (free, begun, ready int) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	s := &c.pool.pace.slots
	return s.free, s.begun, len(s.ready)
}

// Slots is how many slots a client has.
func (c *Client) Slots() int { return c.pool.pace.slots.total }

// EndAsItGetsASlot has a handshake wait for a slot, which it gets just after its context has ended,
// and ask for one once more, when all slots are held again. wait returns
// when all goroutines wait.
func (c *Client) EndAsItGetsASlot(wait func()) {
	p := &c.pool.pace
	others := make([]*slot, p.slots.total)
	hold := func() {
		for i := range others {
			others[i] = &slot{got: make(chan struct{}, 1)}
			_ = p.slots.acquire(context.Background(), others[i])
		}
	}
	hold()
	s := &slot{got: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.slots.acquire(ctx, s) }()
	wait()
	p.clock.mu.Lock()
	cancel() // it goes on by that, as far as mu
	p.slots.give(others[0])
	p.share()
	p.clock.mu.Unlock()
	<-ended
	p.release(s)
	again := &slot{got: make(chan struct{}, 1)}
	_ = p.slots.acquire(context.Background(), again)
	_ = p.slots.acquire(ctx, s)
	p.finish(s)
	p.finish(again)
	for _, o := range others {
		p.finish(o)
	}
}

// IdleSince returns how long each idle connection has been idle.
func (c *Client) IdleSince() (since []time.Duration) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	for cn := c.pool.idle.first; cn != nil; cn = cn.next {
		since = append(since, cn.since)
	}
	return since
}

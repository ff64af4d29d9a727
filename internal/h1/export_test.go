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

// ParseDripped does so for bytes that come one at a time, and tells how many were
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

// Tells tells what is still there of what looks at the clock and at contexts.
func (c *Client) Tells() (ticking bool, watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ticking, len(c.watches)
}

// Hear judges all idle connections as if something had come on each, and returns when each was
// given back by a request, before and after.
func (c *Client) Hear() (before, after map[string]time.Duration) {
	since := func() map[string]time.Duration {
		times := map[string]time.Duration{}
		for _, cn := range c.idle.all {
			times[cn.host.key.authority] = cn.since
		}
		return times
	}
	c.mu.Lock()
	before = since()
	all := slices.Clone(c.idle.all)
	for _, cn := range all {
		c.idle.remove(cn)
	}
	c.mu.Unlock()
	c.hear(all)
	c.mu.Lock()
	defer c.mu.Unlock()
	return before, since()
}

// LookAround looks at all idle connections, as is done in parts by and by.
func (c *Client) LookAround() {
	for range lookPart {
		c.mu.Lock()
		c.lookAt = 0
		spoken := c.look(c.now())
		c.mu.Unlock()
		c.hear(spoken)
	}
}

// Paced tells how many slots nobody holds, how many handshakes count as begun, and how many wait
// for a slot.
func (c *Client) Paced() (free, begun, ready int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pace.free, c.pace.begun, len(c.pace.ready)
}

// Slots is how many slots a client has.
func (c *Client) Slots() int { return c.pace.slots }

// EndAsItGetsASlot has a handshake wait for a slot, which it gets just after its context has ended,
// and ask for one once more, when all slots are held again. wait returns
// when all goroutines wait.
func (c *Client) EndAsItGetsASlot(wait func()) {
	others := make([]*slot, c.pace.slots)
	hold := func() {
		for i := range others {
			others[i] = &slot{got: make(chan struct{}, 1)}
			_ = c.acquire(context.Background(), others[i])
		}
	}
	hold()
	s := &slot{got: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.acquire(ctx, s) }()
	wait()
	c.mu.Lock()
	cancel() // it goes on by that, as far as mu
	c.give(others[0])
	c.share()
	c.mu.Unlock()
	<-ended
	c.release(s)
	again := &slot{got: make(chan struct{}, 1)}
	_ = c.acquire(context.Background(), again)
	_ = c.acquire(ctx, s)
	c.finish(s)
	c.finish(again)
	for _, o := range others {
		c.finish(o)
	}
}

// IdleSince tells from when on each idle connection has been so.
func (c *Client) IdleSince() (since []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cn := c.idle.first; cn != nil; cn = cn.next {
		since = append(since, cn.since)
	}
	return since
}

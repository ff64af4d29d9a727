package h1

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

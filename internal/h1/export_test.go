package h1

import "time"

// ParseSimple runs the fast parser: whether it takes the answer, and what it makes
// of it.
func ParseSimple(b []byte) (simpleAnswer, needsMore bool, a Answer, closes bool, length, end int) {
	var h head
	v := h.parse(b)
	return v == simple, v == incomplete, Answer{h.status, string(h.retryAfter)}, h.close, h.length, h.end
}

// Age makes the idle connections older.
func (c *Client) Age(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cn := c.idle.first; cn != nil; cn = cn.next {
		cn.since -= d
	}
}

// Tells tells what is still there of what looks at the clock and at contexts.
func (c *Client) Tells() (ticking bool, watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ticking, len(c.watches)
}

package h1

// ParseSimple runs the fast parser: whether it takes the answer, and what it makes
// of it.
func ParseSimple(b []byte) (simpleAnswer, needsMore bool, a Answer, closes bool, length, end int) {
	var h head
	v := h.parse(b)
	return v == simple, v == incomplete, Answer{h.status, string(h.retryAfter)}, h.close, h.length, h.end
}

// Tells tells what is still there of what looks at the clock and at contexts.
func (c *Client) Tells() (ticking bool, watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ticking, len(c.watches)
}

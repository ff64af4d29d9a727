package h1

import "time"

// Servers close idle connections, most after a minute or less. A connection that its server has
// closed takes a file and memory until the Client closes it. So the Client looks at each idle
// connection every lookEvery, at 1/lookPart of them at a time.
const (
	lookEvery = 30 * time.Second
	lookPart  = 16
)

// look removes from the pool the idle connections on which something has come, and returns them.
// It looks at a part of all, and continues there the next time. mu is held.
func (c *Client) look(now time.Duration) (spoken []*conn) {
	if now < c.lookAt {
		return nil
	}
	c.lookAt = now + lookEvery/lookPart
	for n := len(c.idle.all)/lookPart + 1; n > 0 && len(c.idle.all) > 0; n-- {
		if c.looked++; c.looked >= len(c.idle.all) {
			c.looked = 0
		}
		if cn := c.idle.all[c.looked]; cn.hasSomething() {
			c.idle.remove(cn)
			spoken = append(spoken, cn)
		}
	}
	return spoken
}

// hear returns a connection to the pool if crypto/tls alone was addressed, as with a ticket. It
// closes all others. No server makes its connections last, or seem used, by tickets.
func (c *Client) hear(spoken []*conn) {
	for _, cn := range spoken {
		// crypto/tls may answer by a few bytes: at once or not at all.
		well := cn.socket != nil && cn.nc.SetWriteDeadline(time.Now().Add(lookTime)) == nil &&
			cn.quietTLS() && cn.nc.SetWriteDeadline(time.Time{}) == nil
		c.mu.Lock()
		dropped := []*conn{cn}
		if well && cn.since+c.cfg.IdleTimeout > c.seen {
			dropped = c.offer(cn)
		} else {
			c.lose(cn.host)
		}
		c.mu.Unlock()
		abortAll(dropped)
	}
}

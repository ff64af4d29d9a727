package h1

import "time"

// Servers close connections that they have kept for long enough, most after a minute or
// less. Such a connection takes a file and memory here until somebody looks at it. So each
// idle one is looked at every lookEvery: a lookPart of them at a time.
const (
	lookEvery = 30 * time.Second
	lookPart  = 16
)

// look returns the idle connections on which something has come, taken out of the pool. It
// goes on where it stopped the last time. mu is held.
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

// hear has the connections on which something came judged: over TLS it may be a ticket, which is
// none of our business. All others are closed.
func (c *Client) hear(spoken []*conn) {
	for _, cn := range spoken {
		// An answer to what came is a few bytes: it is written at once or not at all.
		well := cn.socket != nil && cn.nc.SetWriteDeadline(time.Now().Add(lookTime)) == nil &&
			cn.quietTLS() && cn.nc.SetWriteDeadline(time.Time{}) == nil
		c.mu.Lock()
		dropped := cn
		if well {
			dropped = c.giveBack(cn)
		} else {
			c.lose(cn.host)
		}
		c.mu.Unlock()
		dropped.abort()
	}
}

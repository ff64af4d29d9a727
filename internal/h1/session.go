package h1

import (
	"crypto/tls"
	"math"
	"time"
)

// session is the latest TLS session of a host, which its next connection resumes. Guarded by
// Client.mu.
type session struct {
	resume *tls.ClientSessionState
	bytes  int64 // of memory, by estimate
	excess int64 // of that, socket.excess of the handshake that it is from
	// remembered: the host is in Client.remembered, at place.
	remembered bool
	place      int
}

// sessionBytes estimates the memory of a session and of the host that is remembered for it, and
// returns the size of its ticket. Measured: certificates take most of it, and its encoding
// includes them.
func sessionBytes(resume *tls.ClientSessionState) (bytes int64, ticket int) {
	t, state, err := resume.ResumptionState()
	if err != nil {
		return 0, math.MaxInt
	}
	encoded, err := state.Bytes()
	if err != nil {
		return 0, math.MaxInt
	}
	return sessionBase + int64(len(t)) + 2*int64(len(encoded)), len(t)
}

// sessionBase is the memory of a session without ticket and certificates.
const sessionBase = 4 << 10

// maxTicket is the size of the largest ticket that is kept, in bytes. A client sends its ticket in
// each handshake. A ticket of nearly 64 KiB makes that message longer than TLS allows, so that
// each further handshake with the host would fail.
const maxTicket = 16 << 10

// sessions is the session cache of one host, for one connection. It ignores the key that
// crypto/tls makes of the name: no other name or port uses this cache.
type sessions struct {
	client *Client
	host   *host
	socket *socket // of the connection that it is for
}

// Get returns the session that the host gave last.
func (s sessions) Get(string) (*tls.ClientSessionState, bool) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	// A connection that resumes the session keeps the messages of the first handshake, too.
	s.socket.excess = max(s.socket.excess, s.host.excess)
	return s.host.resume, s.host.resume != nil
}

// Put stores a session for the next connection; nil removes it. It drops sessions of hosts without
// connections while all exceed Config.SessionBytes, and else the new one.
func (s sessions) Put(_ string, resume *tls.ClientSessionState) {
	bytes, excess := int64(0), int64(0)
	if resume != nil {
		var ticket int
		bytes, ticket = sessionBytes(resume)
		excess = s.socket.excess
		if bytes += excess; ticket > maxTicket {
			resume, bytes, excess = nil, 0, 0
		}
	}
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessionBytes += bytes - s.host.bytes
	s.host.resume, s.host.bytes, s.host.excess = resume, bytes, excess
	for c.sessionBytes > c.cfg.SessionBytes && len(c.remembered) > 0 {
		c.drop(c.leastNeeded(c.seen))
	}
	if c.sessionBytes > c.cfg.SessionBytes {
		c.sessionBytes -= s.host.bytes
		s.host.resume, s.host.bytes, s.host.excess = nil, 0, 0
	}
}

// leastNeeded returns a host without connections that is expected late or never. mu is held.
func (c *Client) leastNeeded(now time.Duration) *host {
	return latest(c.remembered, func(h *host) time.Duration { return h.nextUse(h.used, now) })
}

// remember keeps a host without connections for its session. mu is held.
func (c *Client) remember(h *host) {
	h.remembered, h.place = true, len(c.remembered)
	c.remembered = append(c.remembered, h)
}

// recall returns a remembered host to use. mu is held.
func (c *Client) recall(h *host) {
	last := len(c.remembered) - 1
	moved := c.remembered[last]
	c.remembered[h.place], moved.place = moved, h.place
	c.remembered[last], c.remembered = nil, c.remembered[:last]
	h.remembered = false
}

// drop forgets a remembered host. mu is held.
func (c *Client) drop(h *host) {
	c.recall(h)
	c.sessionBytes -= h.bytes
	delete(c.hosts, h.key)
}

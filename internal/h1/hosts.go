package h1

import (
	"crypto/tls"
	"math"
	"strings"
	"time"
)

// hosts is the table of the hosts with connections or requests, and of those that are remembered
// for their TLS session. clock.mu guards it.
type hosts struct {
	clock      *clock
	limit      int64 // Config.SessionBytes
	all        map[hostKey]*host
	remembered []*host // those without connections, in no order
	bytes      int64   // of all sessions, by estimate
}

// hostOf returns the host of a key, a new one if it is not known. mu is held.
func (t *hosts) hostOf(key hostKey) (*host, error) {
	h := t.all[key]
	if h == nil {
		key.authority = strings.Clone(key.authority) // not to keep the whole URL
		var err error
		if h, err = newHost(key); err != nil {
			return nil, err
		}
		t.all[key] = h
	} else if h.remembered {
		t.recall(h)
	}
	return h, nil
}

// forget drops a host without connections and requests, or remembers it for its session.
// mu is held.
func (t *hosts) forget(h *host) {
	switch {
	case !h.unused() || t.all[h.key] != h:
	case h.resume != nil:
		if !h.remembered {
			t.remember(h)
		}
	default:
		delete(t.all, h.key)
	}
}

// leastNeeded returns a host without connections that is expected late or never. mu is held.
func (t *hosts) leastNeeded(now time.Duration) *host {
	return latest(t.remembered, func(h *host) time.Duration { return h.nextUse(h.used, now) })
}

// remember keeps a host without connections for its session. mu is held.
func (t *hosts) remember(h *host) {
	h.remembered, h.place = true, len(t.remembered)
	t.remembered = append(t.remembered, h)
}

// recall returns a remembered host to use. mu is held.
func (t *hosts) recall(h *host) {
	last := len(t.remembered) - 1
	moved := t.remembered[last]
	t.remembered[h.place], moved.place = moved, h.place
	t.remembered[last], t.remembered = nil, t.remembered[:last]
	h.remembered = false
}

// drop forgets a remembered host. mu is held.
func (t *hosts) drop(h *host) {
	t.recall(h)
	t.bytes -= h.bytes
	delete(t.all, h.key)
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
	hosts  *hosts
	host   *host
	socket *socket // of the connection that it is for
}

// Get returns the session that the host gave last.
func (s sessions) Get(string) (*tls.ClientSessionState, bool) {
	s.hosts.clock.mu.Lock()
	defer s.hosts.clock.mu.Unlock()
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
	t := s.hosts
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.bytes += bytes - s.host.bytes
	s.host.resume, s.host.bytes, s.host.excess = resume, bytes, excess
	for t.bytes > t.limit && len(t.remembered) > 0 {
		t.drop(t.leastNeeded(t.clock.seen))
	}
	if t.bytes > t.limit {
		t.bytes -= s.host.bytes
		s.host.resume, s.host.bytes, s.host.excess = nil, 0, 0
	}
}

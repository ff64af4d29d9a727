package program

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Bounds on the connections of a listener.
const (
	maxConnections = 16_384
	// defaultShare leaves half of the files that the process may open to the store,
	// to the other listeners and to what goes out.
	defaultShare = 2
	// What one client may have of them, an IPv4 address or an IPv6 network of 64
	// bits: a quarter. So nobody locks the others out by himself.
	clientShare = 4
)

// limits bound the connections that a listener has open at a time.
type limits struct {
	most      int
	perClient int
	exempt    func(netip.Addr) bool // who may take all there are
}

// bounds are those of a listener that may have one file in share of those that the
// process may open.
func bounds(share int) limits {
	most := max(clientShare, min(maxConnections, OpenFiles()/share))
	return limits{most: most, perClient: most / clientShare}
}

// limiter is a listener with few connections at a time. Beyond a bound the
// connection that has waited longest for a request, or for the rest of its header
// or handshake, is closed for the new one. If none waits, the client that has too many
// is refused; where there are too many in all, Accept waits.
//
// mu guards all that the connections have in common, and their fields without an
// owner of their own.
type limiter struct {
	net.Listener
	limits

	mu      sync.Mutex
	room    sync.Cond // something may have changed for who waits in admit
	open    int
	clients map[netip.Prefix]*client
	waiting queue // of all clients
	closed  bool

	idleCut counter // closed to make room
	refused counter // for having too many
}

// client is who has a share of the connections.
type client struct {
	open    int
	waiting queue
}

type counter struct{ atomic.Int64 }

func newLimiter(ln net.Listener, bounds limits) *limiter {
	l := &limiter{Listener: ln, limits: bounds, clients: map[netip.Prefix]*client{}}
	l.room.L = &l.mu
	return l
}

// Accept waits for a connection for which there is room.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
		_ = raw.Close() // refused
	}
}

// Close closes the listener, and ends the wait of Accept.
func (l *limiter) Close() error {
	l.mu.Lock()
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// admit counts a connection, or returns nil if there is no room for it.
func (l *limiter) admit(raw net.Conn) *conn {
	key := l.clientOf(raw.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		theirs := l.clients[key]
		switch {
		case l.closed:
			return nil
		case key.IsValid() && theirs != nil && theirs.open >= l.perClient:
			if theirs.waiting.front == nil {
				l.refused.Add(1)
				return nil
			}
			l.cut(theirs.waiting.front)
		case l.open < l.most:
			return l.enter(raw, key)
		case l.waiting.front != nil:
			l.cut(l.waiting.front)
		default:
			l.room.Wait()
		}
	}
}

// enter counts the connection, which waits for its first request. The caller holds mu.
func (l *limiter) enter(raw net.Conn, key netip.Prefix) *conn {
	theirs := l.clients[key]
	if theirs == nil {
		theirs = &client{}
		l.clients[key] = theirs
	}
	c := &conn{Conn: raw, limiter: l, key: key, client: theirs}
	l.open++
	theirs.open++
	l.waits(c)
	return c
}

// cut closes a connection that waits. The caller holds mu.
func (l *limiter) cut(c *conn) {
	l.idleCut.Add(1)
	l.leave(c)
	_ = c.Conn.Close() // whoever serves it finds it closed
}

// leave gives the connection's room back. The caller holds mu.
func (l *limiter) leave(c *conn) {
	if c.left {
		return
	}
	l.works(c)
	c.left = true
	l.open--
	if c.client.open--; c.client.open == 0 {
		delete(l.clients, c.key)
	}
	l.room.Signal()
}

// waits notes that the connection waits from now on. The caller holds mu.
func (l *limiter) waits(c *conn) {
	if !c.left && !c.waiting {
		c.waiting = true
		l.waiting.push(c, ofAll)
		c.client.waiting.push(c, ofClient)
		l.room.Signal()
	}
}

// works notes that the connection does not wait any more. The caller holds mu.
func (l *limiter) works(c *conn) {
	if c.waiting {
		c.waiting = false
		l.waiting.remove(c, ofAll)
		c.client.waiting.remove(c, ofClient)
	}
}

// track follows a connection of a server: from the end of a request's header to the end of
// its answer it is active, and else it waits (http.StateNew, http.StateIdle).
func (l *limiter) track(c *conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive:
		l.works(c)
	case http.StateIdle:
		l.waits(c)
	}
}

// clientOf is the client that an address counts for; the zero Prefix is nobody in particular.
func (l *limiter) clientOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if l.exempt != nil && l.exempt(addr) {
		return netip.Prefix{}
	}
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// queue is connections in the order in which they began to wait. Each has a place
// in two, ofAll and ofClient, so that nothing is allocated for it.
type queue struct{ front, back *conn }

type place struct{ before, behind *conn }

const (
	ofAll = iota
	ofClient
)

func (q *queue) push(c *conn, which int) {
	c.places[which] = place{before: q.back}
	if q.back == nil {
		q.front = c
	} else {
		q.back.places[which].behind = c
	}
	q.back = c
}

func (q *queue) remove(c *conn, which int) {
	at := c.places[which]
	if at.before == nil {
		q.front = at.behind
	} else {
		at.before.places[which].behind = at.behind
	}
	if at.behind == nil {
		q.back = at.before
	} else {
		at.behind.places[which].before = at.before
	}
	c.places[which] = place{}
}

// count returns how many connections are open.
func (l *limiter) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

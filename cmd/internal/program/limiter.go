package program

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"carillon/internal/machine"
)

// Bounds on the connections of a listener.
const (
	maxConnections = 16_384
	// The share of one client, an IPv4 address or an IPv6 network of 64 bits, is an eighth. The share of
	// the IPv6 network of 48 bits around it, which a provider may give to one customer, is a quarter. So
	// one line cannot lock all others out.
	clientShare  = 8
	networkShare = 4
	// silence is how long a body may have sent nothing when its connection is cut because
	// no connection waits and there is no room for a new one.
	silence = 2 * time.Second
)

// limits bound the connections that a listener has open at a time.
type limits struct {
	most       int
	perClient  int
	perNetwork int
	exempt     func(netip.Addr) bool // clients without a limit
}

// bounds are those of a listener that may have so many connections. 0: half of the files that
// the process may open.
func bounds(most int) limits {
	most = max(clientShare, min(maxConnections, cmp.Or(most, machine.OpenFiles()/2)))
	return limits{most: most, perClient: most / clientShare, perNetwork: most / networkShare}
}

// limiter is a listener with few connections at a time. Beyond a bound the
// connection that has waited longest for a request, or for the rest of its header
// or handshake, is closed for the new one. If none waits, the client that has too many
// is refused; where there are too many in all, the one whose body has been silent for
// longest is closed, or Accept waits until one is silent for too long.
//
// mu guards all that the connections have in common, and their fields without an
// owner of their own.
type limiter struct {
	net.Listener
	limits

	mu      sync.Mutex
	room    sync.Cond // something may have changed for who waits in admit
	open    int
	clients map[netip.Prefix]*client // and networks around them
	waiting queue                    // of all clients
	silent  queue                    // that are in the middle of a body, and asked for more of it
	closed  bool

	idleCut counter // closed to make room
	refused counter // for having too many
}

// client is who has a share of the connections: a client, or a network around some.
type client struct {
	key     netip.Prefix
	most    int
	open    int
	waiting queue
}

// shares are those that a connection counts for: nil for no client.
type shares [2]*client

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
	keys := l.clientOf(raw.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		crowd := l.crowded(keys)
		switch {
		case l.closed:
			return nil
		case crowd != nil && crowd.waiting.front == nil:
			l.refused.Add(1)
			return nil
		case crowd != nil:
			l.cut(crowd.waiting.front)
		case l.open < l.most:
			return l.enter(raw, keys)
		case l.waiting.front != nil:
			l.cut(l.waiting.front)
		case l.silent.front != nil:
			l.cutSilent(l.silent.front)
		default:
			l.room.Wait()
		}
	}
}

// crowded returns the client, or the network, that has as many connections as it may. The
// caller holds mu.
func (l *limiter) crowded(keys prefixes) *client {
	for _, key := range keys {
		if c := l.clients[key]; c != nil && c.open >= c.most {
			return c
		}
	}
	return nil
}

// enter counts the connection, which waits for its first request. The caller holds mu.
func (l *limiter) enter(raw net.Conn, keys prefixes) *conn {
	c := &conn{Conn: raw, limiter: l}
	for i, key := range keys {
		if !key.IsValid() {
			continue
		}
		theirs := l.clients[key]
		if theirs == nil {
			theirs = &client{key: key, most: [...]int{l.perClient, l.perNetwork}[i]}
			l.clients[key] = theirs
		}
		theirs.open++
		c.shares[i] = theirs
	}
	l.open++
	l.waits(c)
	return c
}

// cutSilent closes a connection in the middle of a body if it is silent for too long, and
// else waits until it is, or anything else has happened. The caller holds mu.
func (l *limiter) cutSilent(c *conn) {
	left := silence - time.Since(c.silentSince)
	if left <= 0 {
		l.cut(c)
		return
	}
	wake := time.AfterFunc(left, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.room.Broadcast()
	})
	defer wake.Stop()
	l.room.Wait()
}

// cut closes a connection that waits, or is silent. The caller holds mu.
func (l *limiter) cut(c *conn) {
	l.idleCut.Add(1)
	l.leave(c)
	_ = c.Conn.Close() // its server finds it closed
}

// leave gives the connection's room back. The caller holds mu.
func (l *limiter) leave(c *conn) {
	if c.left {
		return
	}
	l.works(c)
	l.heard(c)
	c.left = true
	l.open--
	for _, theirs := range c.shares {
		if theirs == nil {
			continue
		}
		if theirs.open--; theirs.open == 0 {
			delete(l.clients, theirs.key)
		}
	}
	l.room.Signal()
}

// waits records that the connection waits from now on. The caller holds mu.
func (l *limiter) waits(c *conn) {
	if !c.left && !c.waiting {
		c.waiting = true
		l.waiting.push(c, ofAll)
		for i, theirs := range c.shares {
			if theirs != nil {
				theirs.waiting.push(c, ofShares+i)
			}
		}
		l.room.Signal()
	}
}

// works records that the connection does not wait any more. The caller holds mu.
func (l *limiter) works(c *conn) {
	if c.waiting {
		c.waiting = false
		l.waiting.remove(c, ofAll)
		for i, theirs := range c.shares {
			if theirs != nil {
				theirs.waiting.remove(c, ofShares+i)
			}
		}
	}
}

// listens records that more of the connection's body is asked for. The caller holds mu.
func (l *limiter) listens(c *conn) {
	if !c.left && !c.silent {
		c.silent, c.silentSince = true, time.Now()
		l.silent.push(c, ofSilent)
		l.room.Signal()
	}
}

// heard records that something came, or nothing is asked for. The caller holds mu.
func (l *limiter) heard(c *conn) {
	if c.silent {
		c.silent = false
		l.silent.remove(c, ofSilent)
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
		c.inBody.Store(false)
		l.waits(c)
	}
}

// prefixes are a client and the network around it; the zero Prefix is no client.
type prefixes [2]netip.Prefix

// clientOf is the client that an address counts for.
func (l *limiter) clientOf(address net.Addr) (keys prefixes) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return keys
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !addr.IsValid() || l.exempt != nil && l.exempt(addr) {
		return keys
	}
	// An address has as many bits, so there is no error.
	if addr.Is4() {
		keys[0], _ = addr.Prefix(32)
		return keys
	}
	keys[0], _ = addr.Prefix(64)
	keys[1], _ = addr.Prefix(48)
	return keys
}

// queue is connections in the order in which they began to wait. Each has a place
// in several, so that nothing is allocated for it.
type queue struct{ front, back *conn }

type place struct{ before, behind *conn }

const (
	ofAll = iota
	ofSilent
	ofShares
	queues = ofShares + len(shares{})
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

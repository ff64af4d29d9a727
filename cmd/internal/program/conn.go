package program

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A client must take writePiece bytes of an answer within writeStall: one that does not
// read, or a byte at a time, is given up.
const (
	writePiece = 64 << 10
	writeStall = 30 * time.Second
)

// conn is a connection that a limiter counts.
type conn struct {
	net.Conn
	limiter *limiter
	shares  shares

	// Under limiter.mu:
	left        bool // is counted no more
	waiting     bool // is in the queues of those that wait
	silent      bool // is in that of the silent ones
	silentSince time.Time
	places      [queues]place

	// inBody: a request's body has not come to its end. Cleared under limiter.mu, so that what
	// is read after that does not count as silence.
	inBody atomic.Bool

	writing  sync.Mutex
	deadline time.Time // as it was set from outside; under writing
}

// Read notes how long it waits in the middle of a body.
func (c *conn) Read(p []byte) (int, error) {
	if !c.inBody.Load() {
		return c.Conn.Read(p)
	}
	c.limiter.mu.Lock()
	if c.inBody.Load() {
		c.limiter.listens(c)
	}
	c.limiter.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.limiter.heard(c)
	return n, err
}

// Close closes the connection and gives its room back.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.limiter.leave(c)
	return err
}

// CloseWrite lets a server say that nothing more comes, and still take in what was
// under way: the client would lose the answer otherwise (RFC 9112 §9.6).
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetWriteDeadline sets the end of all writing. Each piece has one of its own as well.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

// Write writes piece by piece.
func (c *conn) Write(p []byte) (n int, err error) {
	for {
		if err := c.nextPiece(); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[n:min(len(p), n+writePiece)])
		if n += m; err != nil || n >= len(p) {
			return n, err
		}
	}
}

// nextPiece gives the next piece its time, within what was set from outside.
func (c *conn) nextPiece() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	end := time.Now().Add(writeStall)
	if !c.deadline.IsZero() && c.deadline.Before(end) {
		end = c.deadline
	}
	return c.Conn.SetWriteDeadline(end)
}

// counted is the limiter's connection below one that a server has.
func counted(c net.Conn) (*conn, bool) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	ours, ok := c.(*conn)
	return ours, ok
}

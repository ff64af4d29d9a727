package h1

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"syscall"
	"time"
)

// conn is a connection. It belongs to one exchange at a time, or to the pool.
type conn struct {
	host *host
	nc   net.Conn
	// raw is nc's socket where bytes may go past nc, else nil.
	raw syscall.RawConn
	// socket is what is under TLS, nil where there is no TLS.
	socket *socket
	bytes  int64 // what it takes while it is idle, about

	// Guarded by Client.mu:
	used         bool // it was in the pool
	since        time.Duration
	place        int   // in idleSet.all
	prev, next   *conn // in idleSet
	above, below *conn // among the idle ones of its host
}

// What an idle connection takes in memory, without what the kernel has for it: measured, and a
// third more for the collector. With TLS the certificates that the host sent come on top: for each
// CertificateBytes and twice its size.
const (
	PlainBytes       = 2 << 10
	TLSBytes         = 14 << 10
	CertificateBytes = 2 << 10
)

// dial makes a connection, TLS included. It gives its slot back whenever it waits for the
// network for long.
func (c *Client) dial(ctx context.Context, h *host, s *slot) (*conn, error) {
	begin := c.now()
	nc, err := c.reach(ctx, h, s)
	if err != nil {
		return nil, err
	}
	cn := &conn{host: h, nc: nc, bytes: PlainBytes}
	// Only a socket as net gives it: what wraps one may have something to say to
	// its bytes.
	if tcp, ok := nc.(*net.TCPConn); ok && canStep {
		if cn.raw, err = tcp.SyscallConn(); err != nil {
			_ = nc.Close()
			return nil, err
		}
	}
	resumed := false
	if h.key.secure {
		if resumed, err = c.secure(ctx, cn, s); err != nil {
			_ = nc.Close()
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.opened = c.now()
	average(&h.opens, h.opened-begin)
	switch {
	case resumed:
		c.counts.Resumed++
	case h.key.secure:
		c.counts.Handshakes++
	default:
		c.counts.Opened++
	}
	return cn, nil
}

// reach connects to a host. It holds the slot for a moment.
func (c *Client) reach(ctx context.Context, h *host, s *slot) (net.Conn, error) {
	if s == nil {
		return c.cfg.Dial(ctx, "tcp", h.address)
	}
	begin := c.now()
	if c.connectsFast() {
		defer time.AfterFunc(dialHold, func() { c.release(s) }).Stop()
	} else {
		c.release(s)
	}
	nc, err := c.cfg.Dial(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	took := c.now() - begin
	if tcp, ok := nc.(*net.TCPConn); ok {
		// The kernel knows it without the time for which we did not look.
		took = min(took, distance(tcp, took))
	}
	c.mu.Lock()
	average(&h.connect, took)
	average(&c.pace.connects, took)
	c.mu.Unlock()
	return nc, nil
}

func (c *Client) connectsFast() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pace.connects < nearby
}

// secure puts TLS over a connection. It computes while it holds the slot.
func (c *Client) secure(ctx context.Context, cn *conn, s *slot) (resumed bool, err error) {
	if c.cfg.HandshakeTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.HandshakeTimeout)
		defer cancel()
	}
	if err := c.acquire(ctx, s); err != nil {
		return false, err
	}
	cn.socket = &socket{Conn: cn.nc, raw: cn.raw}
	cn.socket.wait = func(io func()) error {
		c.release(s)
		io()
		return c.acquire(ctx, s)
	}
	secured := tls.Client(cn.socket, c.tlsConfig(cn))
	if err := secured.HandshakeContext(ctx); err != nil {
		return false, err
	}
	cn.socket.wait = nil
	cn.raw, cn.nc = nil, secured
	state := secured.ConnectionState()
	cn.bytes = TLSBytes + cn.socket.excess
	for _, certificate := range state.PeerCertificates {
		cn.bytes += CertificateBytes + 2*int64(len(certificate.Raw))
	}
	return state.DidResume, nil
}

func (c *Client) tlsConfig(cn *conn) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.cfg.TLS != nil {
		cfg = c.cfg.TLS.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = cn.host.name
	}
	cfg.NextProtos = []string{"http/1.1"}
	cfg.ClientSessionCache = sessions{c, cn.host, cn.socket}
	return cfg
}

// close closes a connection that is well.
func (cn *conn) close() { _ = cn.nc.Close() }

// abort closes a connection on which something may hang: without the farewell of
// TLS, which waits for whoever does not read. Nil is none.
func (cn *conn) abort() {
	if cn == nil {
		return
	}
	if secured, ok := cn.nc.(*tls.Conn); ok {
		_ = secured.NetConn().Close()
		return
	}
	_ = cn.nc.Close()
}

func closeAll(conns []*conn) {
	for _, cn := range conns {
		cn.close()
	}
}

package h1

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"syscall"
	"time"
)

// conn is a connection. One exchange at a time owns it, or the pool.
type conn struct {
	host *host
	nc   net.Conn
	// raw is the socket of nc if requests may bypass nc, else nil.
	raw syscall.RawConn
	// socket is the connection under TLS, nil without TLS.
	socket *socket
	bytes  int64 // of memory while it is idle, by estimate

	// Guarded by Client.mu:
	used         bool          // it was given back before
	since        time.Duration // when it was last given back
	place        int           // in idleSet.all
	prev, next   *conn         // in idleSet
	above, below *conn         // among the idle ones of its host
}

// Memory of an idle connection, without that of the kernel: measured, and a third more for the
// garbage collector. With TLS each certificate of the host adds CertificateBytes and twice its
// size, and a handshake of more than usualHandshake adds the rest.
const (
	PlainBytes       = 2 << 10
	TLSBytes         = 14 << 10
	CertificateBytes = 2 << 10
)

// dial opens a connection, TLS included. It frees its slot while it waits for the network.
func (c *Client) dial(ctx context.Context, h *host, s *slot) (*conn, error) {
	begin := c.now()
	nc, err := c.reach(ctx, h, s)
	if err != nil {
		return nil, err
	}
	cn := &conn{host: h, nc: nc, bytes: PlainBytes}
	// Only a plain socket: a wrapper may change the bytes.
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

// reach connects to a host. It holds the slot for up to dialHold if hosts are nearby.
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
		// The kernel's measure is without the time until this goroutine ran again.
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

// secure makes the TLS handshake on a connection. It computes only while it holds the slot.
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

// close closes an idle connection, with the farewell of TLS.
func (cn *conn) close() { _ = cn.nc.Close() }

// abort closes a connection without the farewell of TLS, which would wait for a server that does
// not read. It does nothing for nil.
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

func abortAll(conns []*conn) {
	for _, cn := range conns {
		cn.abort()
	}
}

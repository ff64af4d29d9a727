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
	// socket is the socket under TLS, nil where there is no TLS or no socket.
	socket *socket

	// Guarded by Client.mu:
	used         bool // it was in the pool
	since        time.Duration
	prev, next   *conn // in idleList
	above, below *conn // among the idle ones of its host
}

// dial makes a connection, TLS included.
func (c *Client) dial(ctx context.Context, h *host) (*conn, error) {
	nc, err := c.cfg.Dial(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	cn := &conn{host: h, nc: nc}
	// Only a socket as net gives it: what wraps one may have something to say to
	// its bytes.
	if tcp, ok := nc.(*net.TCPConn); ok && canStep {
		if cn.raw, err = tcp.SyscallConn(); err != nil {
			_ = nc.Close()
			return nil, err
		}
	}
	if !h.key.secure {
		return cn, nil
	}
	if cn.raw != nil {
		cn.socket = &socket{Conn: nc, raw: cn.raw}
		cn.raw, nc = nil, cn.socket
	}
	if cn.nc, err = c.handshake(ctx, h, nc); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return cn, nil
}

func (c *Client) handshake(ctx context.Context, h *host, nc net.Conn) (net.Conn, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.cfg.TLS != nil {
		cfg = c.cfg.TLS.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = h.name
	}
	cfg.NextProtos = []string{"http/1.1"}
	if c.cfg.HandshakeTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.HandshakeTimeout)
		defer cancel()
	}
	secured := tls.Client(nc, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secured, nil
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

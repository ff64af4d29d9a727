package h1

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// dialer opens connections: TCP, and TLS where the host wants it.
type dialer struct {
	cfg   *Config
	clock *clock
	pace  *pace
	hosts *hosts

	counts Counts // guarded by clock.mu
}

// dial opens a connection, TLS included. It frees its slot while it waits for the network.
func (d *dialer) dial(ctx context.Context, h *host, s *slot) (*conn, error) {
	begin := d.clock.elapsed()
	nc, err := d.reach(ctx, h, s)
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
		if resumed, err = d.secureConn(ctx, cn, s); err != nil {
			_ = nc.Close()
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
	}
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	h.opened = d.clock.elapsed()
	average(&h.opens, h.opened-begin)
	switch {
	case resumed:
		d.counts.Resumed++
	case h.key.secure:
		d.counts.Handshakes++
	default:
		d.counts.Opened++
	}
	return cn, nil
}

// reach connects to a host. It holds the slot for up to dialHold if hosts are nearby.
func (d *dialer) reach(ctx context.Context, h *host, s *slot) (net.Conn, error) {
	if s == nil {
		return d.cfg.Dial(ctx, "tcp", h.address)
	}
	begin := d.clock.elapsed()
	if d.connectsFast() {
		defer time.AfterFunc(dialHold, func() { d.pace.release(s) }).Stop()
	} else {
		d.pace.release(s)
	}
	nc, err := d.cfg.Dial(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	took := d.clock.elapsed() - begin
	if tcp, ok := nc.(*net.TCPConn); ok {
		// The kernel's measure is without the time until this goroutine ran again.
		took = min(took, distance(tcp, took))
	}
	d.clock.mu.Lock()
	average(&h.connect, took)
	average(&d.pace.connects, took)
	d.clock.mu.Unlock()
	return nc, nil
}

func (d *dialer) connectsFast() bool {
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	return d.pace.connects < nearby
}

// secureConn makes the TLS handshake on a connection. It computes only while it holds the slot.
func (d *dialer) secureConn(ctx context.Context, cn *conn, s *slot) (resumed bool, err error) {
	if d.cfg.HandshakeTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.cfg.HandshakeTimeout)
		defer cancel()
	}
	if err := d.pace.slots.acquire(ctx, s); err != nil {
		return false, err
	}
	cn.socket = &socket{Conn: cn.nc, raw: cn.raw}
	cn.socket.wait = func(io func()) error {
		d.pace.release(s)
		io()
		return d.pace.slots.acquire(ctx, s)
	}
	secured := tls.Client(cn.socket, d.tlsConfig(cn))
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

func (d *dialer) tlsConfig(cn *conn) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.cfg.TLS != nil {
		cfg = d.cfg.TLS.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = cn.host.name
	}
	cfg.NextProtos = []string{"http/1.1"}
	cfg.ClientSessionCache = sessions{d.hosts, cn.host, cn.socket}
	return cfg
}

package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// Config is how a Client goes out. All but TLS and HandshakeTimeout is required.
type Config struct {
	// Dial connects to host:port. It judges where connections may go.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is what https connections start from; ServerName and the protocols
	// offered are set for each. Nil: the system's roots and Go's defaults.
	TLS *tls.Config
	// Timeout bounds a request, from its beginning to the last byte of the
	// answer. It is the same for all, so that the oldest is always due first.
	Timeout time.Duration
	// HandshakeTimeout bounds a TLS handshake within that; Timeout if 0.
	HandshakeTimeout time.Duration
	// MaxHeaderBytes bounds the header of an answer, interim ones included.
	MaxHeaderBytes int64
	// MaxConnsPerHost bounds the connections to one host and port, in use and
	// idle together. A request beyond it waits for one.
	MaxConnsPerHost int
	// MaxConns bounds the open connections, as each takes a file: while there are more, idle
	// ones are closed. It delays no request.
	MaxConns int
	// IdlePerHost bounds the connections to one host that are kept without a request.
	IdlePerHost int
	// IdleBytes bounds the memory of all idle connections, by estimate: PlainBytes for one without
	// TLS, TLSBytes and CertificateBytes for one with TLS.
	IdleBytes int64
	// IdleTimeout is how long a connection is kept without a request.
	IdleTimeout time.Duration
	// SessionBytes bounds the memory of TLS sessions, by estimate. Each host has one at most.
	SessionBytes int64
}

func (c Config) validate() error {
	switch {
	case c.Dial == nil:
		return errors.New("h1: field Dial is missing")
	case c.Timeout <= 0 || c.IdleTimeout <= 0 || c.HandshakeTimeout < 0:
		return errors.New("h1: a time limit is not positive")
	case c.MaxHeaderBytes <= 0 || c.MaxConnsPerHost <= 0 || c.MaxConns <= 0 ||
		c.IdlePerHost <= 0 || c.IdleBytes <= 0 || c.SessionBytes <= 0:
		return errors.New("h1: a limit is not positive")
	}
	return nil
}

// Errors of requests that had no answer. Those of dialing, TLS and the
// connection come as they are, those of answers as http.ReadResponse gives them.
var (
	// ErrHeaderTooLarge: the answer's header is beyond MaxHeaderBytes.
	ErrHeaderTooLarge = errors.New("the header of the answer is too large")
	// ErrBadHost: no request could be made to a host of that name.
	ErrBadHost = errors.New("not a host that a request can be made to")
)

// Stats is what a Client holds at the moment, and what it has done.
type Stats struct {
	// Hosts is the number of hosts with connections or requests, Remembered that of the others
	// that gave a TLS session.
	Hosts, Remembered int
	// Conns is the number of connections, those being opened included, Idle that of the idle
	// ones, IdleBytes what these take, by estimate.
	Conns, Idle int
	IdleBytes   int64
	// SessionBytes is what the TLS sessions take, by estimate.
	SessionBytes int64
	// UnderWay is the number of requests that were begun and have not timed out. One of
	// RoundTrip counts until its body ends.
	UnderWay int
	Counts
}

// Counts are what a Client has done since it was made.
type Counts struct {
	// Opened counts the connections without TLS, Handshakes those with a full handshake, Resumed
	// those that resumed a session.
	Opened, Handshakes, Resumed uint64
	// Dropped counts the idle connections that were closed for want of files or memory.
	Dropped uint64
}

package h1

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
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

// Request is a POST. The Message is shared with others and never changed.
type Request struct {
	// Secure: https.
	Secure bool
	// Authority is the host, with a port if it has one, as the URL spells it.
	Authority string
	// Target stands in the request line as it is: it must not hold controls,
	// spaces or what is not ASCII.
	Target string
	// Message is the body and the fields that all its recipients get.
	Message *Message
	// Lines are fields of this request alone, each ended by CRLF, nil for none. They
	// are sent as they are.
	Lines []byte
}

// Answer is what is of interest in a final answer.
type Answer struct {
	Status int
	// RetryAfter is the header's first value, empty where there is none.
	RetryAfter string
}

// Client keeps connections and makes requests. All its methods may be called from
// any goroutine. It needs no closing: what it holds ends by itself after
// IdleTimeout.
type Client struct {
	cfg        Config
	epoch      time.Time // what its times are counted from
	errTimeout error
	errWait    error
	exchanges  sync.Pool
	joined     sync.Pool // of *[]byte: requests while they are written in one piece

	mu           sync.Mutex // guards everything below
	hosts        map[hostKey]*host
	conns        int // open ones and those being opened
	idle         idleSet
	looked       int           // at which of the idle ones the last look was
	lookAt       time.Duration // when the next is
	remembered   []*host       // those without connections, in no order
	sessionBytes int64
	pace         pace
	counts       Counts
	clock
}

// New returns a Client, or an error that says what is wrong with the Config.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, epoch: time.Now(),
		errTimeout: fmt.Errorf("no answer within %s: %w", cfg.Timeout, context.DeadlineExceeded),
		errWait:    fmt.Errorf("no connection became free within %s: %w", cfg.Timeout, context.DeadlineExceeded),
		hosts:      map[hostKey]*host{},
		pace:       newPace(cmp.Or(cfg.HandshakeTimeout, cfg.Timeout)),
		clock:      newClock(cfg.Timeout),
	}
	c.exchanges.New = func() any { return newExchange(c) }
	c.joined.New = func() any { return new([]byte) }
	return c, nil
}

// now is the time since the Client was made: cheaper than a time.Time.
func (c *Client) now() time.Duration { return time.Since(c.epoch) }

// Post sends the request and returns its final answer. An error that is the
// context's own comes as its cause; one at the deadline is a
// context.DeadlineExceeded.
func (c *Client) Post(ctx context.Context, r *Request) (Answer, error) {
	if ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	x := c.exchanges.Get().(*exchange)
	h, cn, w, err := c.begin(ctx, x, r.Secure, r.Authority)
	if err == nil && cn == nil {
		cn, err = c.connect(ctx, x, h, w)
	}
	if err != nil {
		return Answer{}, c.end(ctx, x, h, nil, err)
	}
	x.prepare(h, r)
	repeated := false
	for {
		err = x.exchange(cn)
		again := err == errStale
		if err != nil && !again && cn.used && x.n == 0 && !repeated && c.mayRepeat(x) {
			again, repeated = true, true
		}
		if !again {
			break
		}
		// Where something was sent, only a new connection is sure not to be stale too.
		if cn, err = c.another(ctx, x, h, cn, !repeated); err != nil {
			break
		}
	}
	a := x.answer
	if err = c.end(ctx, x, h, cn, err); err != nil {
		return Answer{}, err
	}
	return a, nil
}

// mayRepeat tells whether an exchange failed of itself: not by its deadline or the
// end of its context.
func (c *Client) mayRepeat(x *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return x.broken == nil
}

// CloseIdleConnections closes the connections that no request uses.
func (c *Client) CloseIdleConnections() {
	c.mu.Lock()
	var closing []*conn
	for cn := c.idle.oldest(); cn != nil; cn = c.idle.oldest() {
		closing = append(closing, c.dropIdle(cn))
	}
	c.mu.Unlock()
	closeAll(closing)
}

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

// Stats counts what is held.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{
		Hosts: len(c.hosts) - len(c.remembered), Remembered: len(c.remembered),
		Conns: c.conns, Idle: len(c.idle.all), IdleBytes: c.idle.bytes, SessionBytes: c.sessionBytes,
		UnderWay: c.untimed, Counts: c.counts,
	}
	for x := c.first; x != nil; x = x.next {
		s.UnderWay++
	}
	return s
}

// appendLength appends the Content-Length line.
func appendLength(b []byte, n int) []byte {
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n"...)
}

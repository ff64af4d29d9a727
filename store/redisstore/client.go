package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The limits of one exchange with a server. A server that says nothing holds a
// call for these times at most; a great body takes as long as it makes progress, and what the
// system still holds of it when all is written as long as it takes at slowestRate.
const (
	dialTime     = 2 * time.Second
	silenceTime  = 5 * time.Second
	exchangeTime = time.Minute
	slowestRate  = 256 << 10 // bytes a second
	poolTime     = 4 * time.Second
	// connections bounds those to one server, so that a burst of requests does
	// not become one of connections.
	connections = 64
	// redirects is how often a call follows a slot to another node of a Cluster.
	redirects = 1
)

// newClient makes the client; it does not connect.
func newClient(u *URL, process string) redis.UniversalClient {
	hush()
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:            u.addrs,
		ClientName:       "carillon-" + process,
		DB:               u.database,
		Dialer:           u.dial,
		Protocol:         2,
		Username:         u.user,
		Password:         u.password,
		SentinelUsername: u.sentinelUser,
		SentinelPassword: u.sentinelPassword,
		MasterName:       u.master,
		IsClusterMode:    u.kind == cluster,

		MaxRetries:            -1, // a script whose answer was lost may have run
		MaxRedirects:          redirects,
		DialTimeout:           dialTime,
		DialerRetries:         1,
		ReadTimeout:           silenceTime,
		WriteTimeout:          silenceTime,
		PoolTimeout:           poolTime,
		PoolSize:              connections,
		MaxActiveConns:        connections,
		PipelinePoolSize:      -1, // everything is a pipeline
		ContextTimeoutEnabled: true,

		DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	})
	return client
}

// hush keeps the client from writing to standard error: its messages come back as errors, too. It has
// one logger for the whole process.
var hush = sync.OnceFunc(func() { redis.SetLogger(mute{}) })

type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

// dial connects to a server, by TLS where the URL says so.
func (u *URL) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if u.socket != "" {
		network, addr = "unix", u.socket
	}
	dialer := net.Dialer{KeepAlive: 15 * time.Second}
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if u.tls == nil {
		if raw, ok := conn.(syscall.Conn); ok {
			return &plain{steady{Conn: conn}, raw}, nil
		}
		return &steady{Conn: conn}, nil
	}
	config := u.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr) // the handshake refuses an empty one
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // it is of no use in any case
		return nil, &handshakeError{addr, err}
	}
	return &steady{Conn: secure}, nil
}

// handshakeError is a TLS connection that was not made, though a server listens.
type handshakeError struct {
	addr string
	err  error
}

func (e *handshakeError) Error() string {
	if errors.Is(e.err, context.DeadlineExceeded) {
		return fmt.Sprintf("TLS handshake with %s: no answer in time; a server without TLS gives none", e.addr)
	}
	return fmt.Sprintf("TLS handshake with %s: %v", e.addr, e.err)
}

func (e *handshakeError) Unwrap() error { return e.err }

// steady is a connection whose time limits are on silence: a limit moves on by as
// much as it was given for whenever something got through, up to exchangeTime
// in all. So a body of 50 MB takes what it takes, and a server that has gone is
// found out soon. The first answer after something was written may be as much later
// as that takes at slowestRate, because the system sends it after Write has returned. Limits that are shorter than silenceTime are those of a caller's
// context, and do not move.
type steady struct {
	net.Conn
	reading, writing moving
	unanswered       atomic.Int64 // bytes written since something was read
}

// writeChunk is how many bytes are written at once: each chunk counts as progress.
const writeChunk = 128 << 10

// moving is the limit of one direction's; it is used by one goroutine at a time, as go-redis does.
type moving struct {
	mu   sync.Mutex
	last time.Time     // guarded by mu: when no more is waited in any case
	step time.Duration // guarded by mu; 0: the limit does not move
}

// set takes the limit t, moved on by more if it is one that moves, and returns it.
func (l *moving) set(t time.Time, more time.Duration) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step = 0
	// A rest a little below silenceTime was silenceTime when it was computed.
	if left := time.Until(t); !t.IsZero() && left > silenceTime-100*time.Millisecond {
		l.step = left
		l.last = time.Now().Add(max(left, exchangeTime))
		if t = t.Add(more); t.After(l.last) {
			t = l.last
		}
	}
	return t
}

// next is the limit after progress, if it moves.
func (l *moving) next() (t time.Time, moves bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.step == 0 {
		return time.Time{}, false
	}
	t = time.Now().Add(l.step)
	if t.After(l.last) {
		t = l.last
	}
	return t, true
}

func (c *steady) SetDeadline(t time.Time) error {
	c.reading.set(t, 0)
	c.writing.set(t, 0)
	return c.Conn.SetDeadline(t)
}

func (c *steady) SetReadDeadline(t time.Time) error {
	way := min(exchangeTime, time.Duration(c.unanswered.Load()/(slowestRate/1000))*time.Millisecond)
	return c.Conn.SetReadDeadline(c.reading.set(t, way))
}

func (c *steady) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(c.writing.set(t, 0))
}

func (c *steady) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && err == nil {
		c.unanswered.Store(0)
		if t, moves := c.reading.next(); moves {
			err = c.Conn.SetReadDeadline(t)
		}
	}
	return n, err
}

func (c *steady) Write(b []byte) (written int, err error) {
	for err == nil && written < len(b) {
		var n int
		n, err = c.Conn.Write(b[written:min(written+writeChunk, len(b))])
		written += n
		c.unanswered.Add(int64(n))
		if t, moves := c.writing.next(); moves && err == nil && written < len(b) {
			err = c.Conn.SetWriteDeadline(t)
		}
	}
	return written, err
}

// plain lets the client look whether the server has closed an idle connection.
type plain struct {
	steady
	raw syscall.Conn
}

func (c *plain) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

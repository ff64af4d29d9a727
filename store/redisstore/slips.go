package redisstore

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// EvictionError is the refusal of a server that throws keys away when its memory is
// full, which Config.AllowEviction would accept.
type EvictionError struct{ Policy string }

// Error reports the fault, and what to do.
func (e EvictionError) Error() string {
	return fmt.Sprintf("maxmemory-policy is %s: Redis would throw away subscriptions and notifications when its memory "+
		"is full; set it by CONFIG SET maxmemory-policy noeviction and in redis.conf, or allow eviction and lose them", e.Policy)
}

// evicts reports whether the settings were read, and the policy is refused.
func evicts(err error) bool {
	_, ok := errors.AsType[EvictionError](err)
	return ok
}

// slip recognizes a URL that names another kind of server than the one that is
// there, which waiting does not mend; nil where it is something else.
func (e *engine) slip(ctx context.Context, err error) error {
	if evicts, ok := errors.AsType[EvictionError](err); ok {
		return evicts
	}
	if e.url.kind == sentinel && strings.Contains(err.Error(), "unknown command 'sentinel'") {
		return refuse("%s is Redis itself and no Sentinel: name the Sentinels, which listen on port %s unless set otherwise, "+
			"or, without Sentinel, begin the URL with redis:// and leave out the name of the master",
			strings.Join(e.url.addrs, ","), defaultSentinelPort)
	}
	if e.url.tls != nil {
		return e.url.secureSlip(ctx, err)
	}
	return e.url.plainSlip(ctx, err)
}

// secureSlip recognizes a server without TLS, and one to which this client's
// certificate is not enough. The latter may come after the handshake (TLS 1.3): as an
// answer to what was sent first.
func (u *URL) secureSlip(ctx context.Context, err error) error {
	addrs := u.addrs // where the client does not say: of the Sentinels it does not
	if handshake, ok := errors.AsType[*handshakeError](err); ok {
		addrs = []string{handshake.addr}
	}
	_, foreign := errors.AsType[tls.RecordHeaderError](err)
	if (foreign || errors.Is(err, context.DeadlineExceeded)) && ctx.Err() == nil {
		if i := slices.IndexFunc(addrs, func(addr string) bool { return speaksPlain(ctx, addr) }); i >= 0 {
			return refuse(
				"%s does not speak TLS: begin the URL with redis in the place of rediss, or set up TLS there",
				addrs[i],
			)
		}
	}
	told := err.Error()
	if alerted(err) && (strings.Contains(told, "certificate") || strings.Contains(told, "handshake failure") ||
		strings.Contains(told, "protocol version")) {
		return refuse("Redis refuses the TLS connection (cert= and key= name this client's certificate): %s", told)
	}
	return nil
}

// plainSlip recognizes a server that hung up on a connection without TLS since it
// speaks nothing else.
func (u *URL) plainSlip(ctx context.Context, err error) error {
	if u.tls != nil || u.socket != "" {
		return nil
	}
	if _, answered := errors.AsType[redis.Error](err); answered {
		return nil
	}
	// A refused connection, and silence, have reasons of their own.
	if operation, ok := errors.AsType[*net.OpError](err); ok && operation.Op == "dial" {
		return nil
	}
	if trouble, ok := errors.AsType[net.Error](err); ok && trouble.Timeout() || ctx.Err() != nil {
		return nil
	}
	i := slices.IndexFunc(u.addrs, func(addr string) bool { return speaksTLS(ctx, addr) })
	if i < 0 {
		return nil
	}
	return refuse("%s speaks TLS: begin the URL with rediss in the place of redis", u.addrs[i])
}

// greetingTime bounds the wait for what a server says unasked.
const greetingTime = 300 * time.Millisecond

// greeting returns the text that a server sends before it closes a connection without a request: why
// it takes none from here, or none now. A client that had written to it already got a broken pipe
// instead. It is empty where err has another reason.
func (u *URL) greeting(ctx context.Context, err error) (said string) {
	_, answered := errors.AsType[redis.Error](err)
	operation, broken := errors.AsType[*net.OpError](err)
	if u.tls != nil || u.socket != "" || answered || ctx.Err() != nil ||
		broken && (operation.Op == "dial" || operation.Timeout()) || !broken && !errors.Is(err, io.EOF) {
		return ""
	}
	for _, addr := range u.addrs {
		probe(ctx, addr, func(conn net.Conn) bool {
			if conn.SetReadDeadline(time.Now().Add(greetingTime)) != nil {
				return false
			}
			line, _ := bufio.NewReader(io.LimitReader(conn, 2<<10)).ReadString('\n') // or what there is of it
			if text, refused := strings.CutPrefix(strings.TrimSpace(line), "-"); refused {
				said = text
			}
			return said != ""
		})
	}
	return said
}

// alerted reports whether the other side sent its reason by a TLS alert.
func alerted(err error) bool {
	operation, ok := errors.AsType[*net.OpError](err)
	return ok && operation.Op == "remote error"
}

// probe connects for a look, which dialTime bounds.
func probe(ctx context.Context, addr string, look func(net.Conn) bool) bool {
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	return conn.SetDeadline(time.Now().Add(dialTime)) == nil && look(conn)
}

// speaksPlain: Redis answers there without TLS. It gets no secret.
func speaksPlain(ctx context.Context, addr string) bool {
	return probe(ctx, addr, func(conn net.Conn) bool {
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			return false
		}
		var first [1]byte
		_, err := io.ReadFull(conn, first[:])
		return err == nil && (first[0] == '+' || first[0] == '-')
	})
}

// speaksTLS: a server answers a TLS handshake there. Its identity is not verified, as it gets no
// secret.
func speaksTLS(ctx context.Context, addr string) bool {
	return probe(ctx, addr, func(conn net.Conn) bool {
		err := tls.Client(
			conn, &tls.Config{InsecureSkipVerify: true},
		).HandshakeContext(ctx) //nolint:gosec // a look, nothing is sent
		return err == nil || alerted(err)
	})
}

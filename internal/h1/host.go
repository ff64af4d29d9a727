package h1

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"
)

// hostKey is a server as URLs spell it. Two spellings of one are two: each gets
// the Host header that its callers wrote.
type hostKey struct {
	secure    bool
	authority string
}

// host is a server. One with https is remembered for a while after its last
// connection has closed. All fields below waiting are guarded by Client.mu, as
// that is.
type host struct {
	key     hostKey
	address string // what is dialed
	name    string // whom its certificate is for
	line    []byte // the end of the request line, and the Host header

	conns   int   // open ones and those being opened
	opening int   // those being opened
	idle    *conn // the one used last; the others follow
	idleN   int
	waiting []*waiter // for a connection, the longest first

	habits
	pacing
	session
}

// habits are what the requests to a host have shown. Guarded by Client.mu.
type habits struct {
	// used is when a connection of the host was last given back.
	used time.Duration
	// away is how long the host went without a request before it was used again: the
	// longest time of late. 0: not known.
	away      time.Duration
	awayUntil time.Duration // up to when a shorter one does not replace it
	// connect is how long connecting to the host takes, opens the same with the handshake, and
	// answer how long it takes to answer: moving averages, 0 where not known.
	connect, opens, answer time.Duration
	// quick is how long an answer takes if nothing holds it up: about the shortest of late.
	quick time.Duration
}

// unknownAway stands for habits.away where that is not known.
const unknownAway = 45 * time.Second

// begins notes that a request finds the host with no other under way.
func (h *habits) begins(now time.Duration) {
	if gap := now - h.used; h.used > 0 && (gap >= h.away || now > h.awayUntil) {
		h.away, h.awayUntil = gap, now+2*gap
	}
}

// nextUse forecasts when a host whose connection has been idle since then will be used
// again. A host that has stayed away for twice as long as before is not expected at all.
func (h *habits) nextUse(since, now time.Duration) time.Duration {
	away := h.away
	if away == 0 {
		away = unknownAway
	}
	if now-since > 2*away {
		return never
	}
	return since + away
}

// never is later than any forecast.
const never = time.Duration(1<<63 - 1)

// average moves a moving average a quarter of the way to a sample.
func average(of *time.Duration, sample time.Duration) {
	if *of == 0 {
		*of = max(sample, 1)
		return
	}
	*of += (sample - *of) / 4
}

// newHost reads an authority as net/http does.
func newHost(key hostKey) (*host, error) {
	u := url.URL{Host: key.authority}
	name, port := u.Hostname(), u.Port()
	if port == "" {
		if port = "80"; key.secure {
			port = "443"
		}
	}
	header, err := httpguts.PunycodeHostPort(key.authority)
	if err != nil || name == "" || !httpguts.ValidHostHeader(header) {
		return nil, fmt.Errorf("%w: %q", ErrBadHost, key.authority)
	}
	if ascii, err := idna.Lookup.ToASCII(name); err == nil && !isASCII(name) {
		name = ascii
	}
	return &host{
		key: key, address: net.JoinHostPort(name, port), name: name,
		line: []byte(" HTTP/1.1\r\nHost: " + withoutZone(header) + "\r\n"),
	}, nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// withoutZone takes the zone out of an IPv6 address: it means nothing to others
// (RFC 6874 §4).
func withoutZone(host string) string {
	end := strings.LastIndexByte(host, ']')
	if !strings.HasPrefix(host, "[") || end < 0 {
		return host
	}
	zone := strings.LastIndexByte(host[:end], '%')
	if zone < 0 {
		return host
	}
	return host[:zone] + host[end:]
}

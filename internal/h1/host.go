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

// hostKey is a server as URLs spell it. Two spellings are two hosts: each request gets the Host
// header that its caller wrote.
type hostKey struct {
	secure    bool
	authority string
}

// host is a server. A host with https is remembered after its last connection has closed, while
// its session is kept. Client.mu guards all fields below line.
type host struct {
	key     hostKey
	address string // what is dialed
	name    string // what its certificate must be for
	line    []byte // the end of the request line, and the Host header

	conns   int   // connections that are open or being opened
	opening int   // connections that are being opened
	idle    *conn // the idle connection used last; conn.below leads to the others
	idleN   int
	waiting []*waiter // requests that wait for a connection, oldest first

	habits
	pacing
	session
}

// habits are what was measured with the requests to a host. Guarded by Client.mu.
type habits struct {
	// used is when a connection of the host was last given back.
	used time.Duration
	// away is the longest time of late between two uses of the host. 0: not known.
	away      time.Duration
	awayUntil time.Duration // until then a shorter time does not replace away
	// connect is the time of a TCP connect, opens that of a connect and handshake, answer that of
	// an answer: moving averages, 0 where not known.
	connect, opens, answer time.Duration
	// quick is the time of an answer that nothing delays: about the shortest of late.
	quick time.Duration
}

// unknownAway replaces habits.away where that is not known.
const unknownAway = 45 * time.Second

// begins records that a request finds no other request to the host under way.
func (h *habits) begins(now time.Duration) {
	if gap := now - h.used; h.used > 0 && (gap >= h.away || now > h.awayUntil) {
		h.away, h.awayUntil = gap, now+2*gap
	}
}

// nextUse forecasts when a host is used again whose connection has been idle since a time. The
// forecast is never for a host that was away for more than twice as long as before.
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

// withoutZone removes the zone of an IPv6 address, which means nothing to others (RFC 6874 §4).
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

package h1

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"
)

// hostKey is a server as URLs spell it. Two spellings of one are two: each gets
// the Host header that its callers wrote.
type hostKey struct {
	secure    bool
	authority string
}

// host is a server with connections. It is forgotten with the last of them. All
// fields below waiting are guarded by Client.mu, as that is.
type host struct {
	key     hostKey
	address string // what is dialed
	name    string // whom its certificate is for
	line    []byte // the end of the request line, and the Host header

	conns   int   // open ones and those being dialed
	idle    *conn // the one used last; the others follow
	idleN   int
	waiting []*waiter // for a connection, the longest first
}

// waiter waits for a connection to be handed on, or for the right to dial one: a
// nil.
type waiter struct{ got chan *conn }

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

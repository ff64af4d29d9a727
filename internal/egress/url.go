package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CheckURL refuses, without touching the network, what can be refused at once: a
// URL that no request should be made to (ErrBadURL), or whose host is an
// address or a name that would be refused when dialed (ErrForbidden). Nil is
// no promise: the names that it leaves are judged when they are dialed.
//
// The message says what is wrong, fit for the one who sent the URL.
func (d *Dialer) CheckURL(raw string) error {
	u, err := parseURL(raw)
	if err != nil {
		return err
	}
	if localhost(u.Hostname()) {
		if !d.cfg.AllowLoopback {
			return fmt.Errorf("%w: %s is this machine", ErrForbidden, u.Hostname())
		}
		return nil
	}
	addr, ok := literal(u.Hostname())
	if !ok {
		return nil
	}
	if err := d.guard.SafeAddr(addr); err != nil {
		return fmt.Errorf("%w: %s is in a private or special network", ErrForbidden, addr)
	}
	return nil
}

// parseURL takes absolute http and https URLs without userinfo and fragment.
func parseURL(raw string) (*url.URL, error) {
	if strings.ContainsFunc(raw, unfit) {
		return nil, fmt.Errorf("%w: it contains spaces, control characters, quotes or angle brackets", ErrBadURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be parsed", ErrBadURL)
	}
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%w: it is not absolute with the scheme http or https", ErrBadURL)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: it has no host", ErrBadURL)
	case u.User != nil:
		return nil, fmt.Errorf("%w: it contains a user name or password", ErrBadURL)
	case strings.Contains(raw, "#"):
		return nil, fmt.Errorf("%w: it has a fragment", ErrBadURL)
	case port != "" && !validPort(port):
		return nil, fmt.Errorf("%w: its port is not between 1 and 65535", ErrBadURL)
	}
	return u, nil
}

// unfit tells the characters that no URL holds (RFC 3986 §2). Angle brackets and
// quotes would end the Link value that names a topic (RFC 8288 §3).
func unfit(r rune) bool {
	return r <= ' ' || r == 0x7f || r == utf8.RuneError || strings.ContainsRune(`<>"`, r)
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// literal reads a host that is an address, as it would be dialed: an
// IPv4-mapped IPv6 address is dialed as IPv4.
func literal(host string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(host, "."))
	return addr.Unmap(), err == nil
}

// localhost tells the names that always mean this machine (RFC 6761 §6.3).
func localhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// LoopbackURL tells whether the host of the URL is this machine itself:
// localhost, 127.0.0.0/8 or ::1. Names are not resolved.
func LoopbackURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	if localhost(u.Hostname()) {
		return true
	}
	addr, ok := literal(u.Hostname())
	return ok && addr.IsLoopback()
}

package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// BadURL is the ErrBadURL that says what is wrong.
type BadURL struct {
	// Rule says which rule is broken, fit to stand behind a name of the URL:
	// "must not have a fragment".
	Rule string
}

// Error tells the rule.
func (e *BadURL) Error() string { return ErrBadURL.Error() + ": it " + e.Rule }

// Unwrap returns ErrBadURL.
func (e *BadURL) Unwrap() error { return ErrBadURL }

// CheckURL refuses, without touching the network, what can be refused at once: a
// URL that no request should be made to (a *BadURL), or whose host is an
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
		return nil, &BadURL{"contains spaces, control characters, quotes or angle brackets; they must be percent-encoded"}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, &BadURL{"is not a URL: it cannot be parsed"}
	}
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, &BadURL{"must be an absolute URL with the scheme http or https"}
	case u.User != nil:
		return nil, &BadURL{"must not contain a user name or password"}
	case strings.Contains(raw, "#"):
		return nil, &BadURL{"must not have a fragment"}
	case port != "" && !validPort(port):
		return nil, &BadURL{"must have a port between 1 and 65535, or none"}
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

package egress

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrBadURL: not a URL that a request could be made to.
var ErrBadURL = errors.New("bad URL")

// BadURL is the ErrBadURL that reports the fault.
type BadURL struct {
	// Rule says which rule is broken, fit to stand behind a name of the URL:
	// "must not have a fragment".
	Rule string
}

// Error returns the rule.
func (e *BadURL) Error() string { return ErrBadURL.Error() + ": it " + e.Rule }

// Unwrap returns ErrBadURL.
func (e *BadURL) Unwrap() error { return ErrBadURL }

// CheckURL refuses, without touching the network, what can be refused at once: a
// URL that no request should be made to (a *BadURL), or whose host is an
// address or a name that would be refused when dialed (ErrForbidden), or whose port
// would (ErrPort as well). Nil is no promise: the names that it leaves are judged
// when they are dialed.
//
// The message reports the fault, fit for the one who sent the URL.
func (d *Dialer) CheckURL(raw string) error {
	u, err := parseURL(raw)
	if err != nil {
		return err
	}
	host := u.Hostname()
	addr, isAddr := literal(host)
	switch {
	case !ascii(host):
		return &BadURL{"must have its host in ASCII: write international names as xn--\u2026"}
	case !isAddr && !validName(host):
		return &BadURL{
			"must have a host that is a name, an IPv4 address as four decimal numbers, or an IPv6 address in brackets",
		}
	case !isAddr && localhost(host) && !d.cfg.AllowLoopback:
		return d.cfg.Metrics.refused(reasonAddress, fmt.Errorf("%w: %s is this machine", ErrForbidden, host))
	case isAddr:
		if err := judge(d.guard, addr); err != nil {
			return d.cfg.Metrics.refused(reasonAddress, err)
		}
	}
	if err := judgePort(portOf(u), d.cfg.AllowPorts); err != nil {
		return d.cfg.Metrics.refused(reasonPort, err)
	}
	return nil
}

// portOf is the port of a URL that parseURL took.
func portOf(u *url.URL) uint16 {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case err == nil:
		return uint16(port)
	case u.Scheme == "https":
		return 443
	}
	return 80
}

// parseURL takes absolute http and https URLs without userinfo and fragment.
func parseURL(raw string) (*url.URL, error) {
	if strings.ContainsFunc(raw, unfit) {
		return nil, &BadURL{
			"contains spaces, control characters, quotes or angle brackets; they must be percent-encoded",
		}
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

// unfit recognizes the characters that no URL holds (RFC 3986 §2). Angle brackets and quotes would end
// the Link value that names a topic (RFC 8288 §3).
func unfit(r rune) bool {
	return r <= ' ' || r == 0x7f || r == utf8.RuneError || strings.ContainsRune(`<>"`, r)
}

// LoopbackURL reports whether the host of the URL is this machine itself:
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

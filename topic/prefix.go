package topic

import (
	"errors"
	"net/url"
	"strings"

	"carillon/internal/dots"
)

// Errors of ParsePrefix. Each reads well behind the URL.
var (
	errNotHTTP   = errors.New("must be an absolute URL with the scheme http or https, and a host")
	errUser      = errors.New("must not contain a user name or password")
	errFragment  = errors.New("must not have a fragment")
	errBackslash = errors.New("must not contain a backslash")
	errDots      = errors.New("must not have . or .. as a part of its path, encoded or not")
	errQuery     = errors.New("must not have a query: it covers every query of what it covers")
)

// Prefix is a URL in the form by which it is compared with topics: scheme and host in lower case,
// no default port, the path Canonical, and "/" for an empty path (RFC 3986 §6.2.2, §6.2.3). The
// zero Prefix covers nothing.
type Prefix struct{ server, path string }

// ParsePrefix reads a Prefix. The error reports the faults of the URL, and reads well behind it.
func ParsePrefix(raw string) (Prefix, error) {
	p, query, err := parsePlace(raw)
	if err == nil && query {
		err = errQuery
	}
	if err != nil {
		return Prefix{}, err
	}
	return p, nil
}

// Covers reports whether the topic is at the prefix or below it: both have the same server, and
// the topic's path equals the prefix's or continues it at a slash.
//
//	https://a.example/x covers /x, /x/…, /x?… and not /xy
//	https://a.example/x/ covers /x/, /x/…, /x/?… and not /x
//
// A topic that some server may take for another place than it looks like is covered by no prefix.
func (p Prefix) Covers(a Address) bool { return Covers([]Prefix{p}, a) }

// Covers reports whether one of the prefixes covers the topic.
func Covers(prefixes []Prefix, a Address) bool {
	t, _, err := parsePlace(a.spelling)
	if err != nil {
		return false
	}
	for _, p := range prefixes {
		rest, ok := strings.CutPrefix(t.path, p.path)
		if ok && t.server == p.server &&
			(rest == "" || strings.HasSuffix(p.path, "/") || rest[0] == '/') {
			return true
		}
	}
	return false
}

// parsePlace reads a URL, and reports whether it has a query. A URL that some server may take for
// another place than it looks like is an error.
func parsePlace(raw string) (p Prefix, query bool, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		strings.ContainsFunc(raw, control):
		return p, false, errNotHTTP
	case u.User != nil:
		return p, false, errUser
	case strings.Contains(raw, "#"):
		return p, false, errFragment
	}
	// The path is read as it was spelled: url.URL may spell it otherwise.
	_, rest, _ := strings.Cut(raw, "://")
	tail := ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		tail = rest[i:]
	}
	path, _, query := strings.Cut(tail, "?")
	path = Canonical(path)
	switch {
	case strings.Contains(path, `\`):
		return p, query, errBackslash
	case dots.Hidden(path):
		return p, query, errDots
	case path == "":
		path = "/"
	}
	return Prefix{Server(u), path}, query, nil
}

func control(r rune) bool { return r <= ' ' || r == 0x7f }

// Server returns scheme, host and port of a URL in the form by which permissions are compared:
// ASCII letters in lower case, and without the default port. Unlike Origin it takes no two hosts
// for one that are spelled otherwise: another address of IPv6, zone or last dot makes another host.
func Server(u *url.URL) string {
	port := ":443"
	if u.Scheme == "http" {
		port = ":80"
	}
	return u.Scheme + "://" + strings.TrimSuffix(strings.TrimSuffix(Lower(u.Host), ":"), port)
}

package source

import (
	"errors"
	"net/url"
	"strings"

	"carillon/internal/dots"
	"carillon/subscription"
)

// place is a URL in the form to compare by: scheme and host in lower case, without the
// port that goes without saying; the path with unreserved characters decoded
// (subscription.Key), other escapes in upper case, and "/" for none (RFC 3986 §6.2.2, §6.2.3).
type place struct{ origin, path string }

// Errors of placeOf, fit to stand behind the URL.
var (
	errNotHTTP   = errors.New("must be an absolute URL with the scheme http or https, and a host")
	errUser      = errors.New("must not contain a user name or password")
	errFragment  = errors.New("must not have a fragment")
	errBackslash = errors.New("must not contain a backslash")
	errDots      = errors.New("must not have . or .. as a part of its path, encoded or not")
	errQuery     = errors.New("must not have a query: it covers every query of what it covers")
	errTooLong   = errors.New("is longer than 2048 bytes")
)

// placeOf tells where a URL is, and whether it has a query. What servers might
// understand as another place than it looks like is an error.
func placeOf(raw string) (p place, query bool, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.ContainsFunc(raw, control):
		return p, false, errNotHTTP
	case u.User != nil:
		return p, false, errUser
	case strings.Contains(raw, "#"):
		return p, false, errFragment
	}
	// As it was sent: what url.URL makes of it may be another spelling.
	_, rest, _ := strings.Cut(raw, "://")
	tail := ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		tail = rest[i:]
	}
	path, _, query := strings.Cut(tail, "?")
	path = subscription.Key(path)
	switch {
	case strings.Contains(path, `\`):
		return p, query, errBackslash
	case dots.Hidden(path):
		return p, query, errDots
	}
	p.origin = u.Scheme + "://" + hostOf(u)
	p.path = upperEscapes(path)
	if p.path == "" {
		p.path = "/"
	}
	return p, query, nil
}

func control(r rune) bool { return r <= ' ' || r == 0x7f }

// hostOf is the host and port to compare by. ASCII letters are folded and no others: what
// a name in other letters means is not for us to say.
func hostOf(u *url.URL) string {
	host := []byte(u.Host)
	for i, c := range host {
		if 'A' <= c && c <= 'Z' {
			host[i] = c + 'a' - 'A'
		}
	}
	text := strings.TrimSuffix(string(host), ":")
	if u.Scheme == "http" {
		return strings.TrimSuffix(text, ":80")
	}
	return strings.TrimSuffix(text, ":443")
}

// upperEscapes writes the digits of percent-encodings in upper case (RFC 3986 §6.2.2.1).
func upperEscapes(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToUpper(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// CheckPrefix refuses what is no prefix of topics. The error is fit to stand behind it.
func CheckPrefix(raw string) error {
	if len(raw) > MaxPrefix {
		return errTooLong
	}
	_, query, err := placeOf(raw)
	if err == nil && query {
		err = errQuery
	}
	return err
}

// covers tells whether the topic is at the prefix or below it: their origins are the same,
// and the topic's path is the prefix's or goes on at a slash.
func (p place) covers(topic place) bool {
	rest, ok := strings.CutPrefix(topic.path, p.path)
	return ok && topic.origin == p.origin && (rest == "" || strings.HasSuffix(p.path, "/") || rest[0] == '/')
}

// placesOf reads prefixes. One that is none covers nothing.
func placesOf(prefixes []string) (places []place) {
	for _, raw := range prefixes {
		if p, query, err := placeOf(raw); err == nil && !query {
			places = append(places, p)
		}
	}
	return places
}

// Covers tells whether one of the Source's prefixes covers the topic.
//
//	https://a.example/x covers /x, /x/…, /x?… and not /xy
//	https://a.example/x/ covers /x/, /x/…, /x/?… and not /x
func (s Source) Covers(topic string) bool { return coveredBy(placesOf(s.Prefixes), topic) }

func coveredBy(places []place, topic string) bool {
	t, _, err := placeOf(topic)
	if err != nil {
		return false
	}
	for _, p := range places {
		if p.covers(t) {
			return true
		}
	}
	return false
}

package lists

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"carillon/internal/legible"
)

// address reads an address that a caller gave.
func address(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || !isWeb(u) || u.User != nil {
		return nil, fmt.Errorf("%q is not an absolute http or https URL without a user name", Cut(raw))
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

func isWeb(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// lead returns where a document leads by ref, and refuses what the reading must
// not ask: another host than the one at which it began or those of Config.Hosts.
//
// From http to https of the same host it goes; what came by https and leads to
// http of the same host is asked for by https too, so that nobody on the way can
// take part.
func (r *reading) lead(from *url.URL, ref string) (*url.URL, error) {
	u, err := from.Parse(strings.TrimSpace(ref))
	if err != nil || !isWeb(u) || u.User != nil {
		return nil, fmt.Errorf("%w: %s leads to %q, which is no http or https URL without a user name", ErrAnswer, from, Cut(ref))
	}
	u.Fragment, u.RawFragment = "", ""
	if from.Scheme == "https" && u.Scheme == "http" && sameName(from, u) && port(from) == "443" && port(u) == "80" {
		u.Scheme, u.Host = from.Scheme, from.Host
	}
	if SameServer(r.start, u) || r.c.trusts(u) {
		return u, nil
	}
	return nil, fmt.Errorf("%w: %s leads to %q, which is neither %s nor a host that is trusted", ErrOtherHost, from, Cut(u.Host), r.start.Host)
}

// Trusts reports whether what begins at start may ask u: it is at the same server, or at one of
// Config.Hosts. The error says why not.
func (c *Client) Trusts(start, u *url.URL) error {
	if SameServer(start, u) || c.trusts(u) {
		return nil
	}
	return fmt.Errorf("%w: %q is neither %s nor a host that is trusted", ErrOtherHost, Cut(u.Host), start.Host)
}

// Transport is what carries the Client's requests.
func (c *Client) Transport() http.RoundTripper { return c.cfg.Transport }

// SameServer reports whether u is at the server of start, or at the same host by
// https where that was http.
func SameServer(start, u *url.URL) bool {
	if !sameName(start, u) {
		return false
	}
	return start.Scheme == u.Scheme && port(start) == port(u) ||
		start.Scheme == "http" && u.Scheme == "https" && port(start) == "80" && port(u) == "443"
}

// trusts tells whether the host is one of Config.Hosts.
func (c *Client) trusts(u *url.URL) bool {
	for _, h := range c.cfg.Hosts {
		t := &url.URL{Scheme: u.Scheme, Host: h}
		if sameName(t, u) && (t.Port() == "" || t.Port() == port(u)) {
			return true
		}
	}
	return false
}

func sameName(a, b *url.URL) bool { return hostname(a) == hostname(b) }

func hostname(u *url.URL) string {
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// port is the port that u is asked at.
func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// maxCut is how much of a stranger's text is repeated, bytes.
const maxCut = 300

// Cut makes a stranger's text short, at most 300 bytes, and fit for one line.
func Cut(s string) string {
	if len(s) > maxCut {
		end := maxCut
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "…"
	}
	return legible.Line(s)
}

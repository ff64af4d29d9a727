package lists

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"carillon/internal/fetch"
	"carillon/internal/legible"
)

// address reads an address that a caller gave.
func address(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || !fetch.Web(u) {
		return nil, fmt.Errorf("%q is not an absolute http or https URL without a user name", legible.Cut(raw))
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// lead returns where a document leads by ref, and refuses what allow refuses.
func (r *reading) lead(from *url.URL, ref string) (*url.URL, error) {
	u, err := from.Parse(strings.TrimSpace(ref))
	if err != nil || !fetch.Web(u) {
		return nil, fmt.Errorf(
			"%w: %s leads to %q, which is no http or https URL without a user name", ErrAnswer,
			from, legible.Cut(ref),
		)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, r.allow(from, u)
}

// allow refuses an address that the reading must not ask: at another host than the one at which it
// began and those of Config.Hosts.
//
// It goes from http to https of the same host. An https document that leads to http of the same host
// is followed by https too, so that no one on the way can take part.
func (r *reading) allow(from, to *url.URL) error {
	if fetch.SameServer(to, from) && from.Scheme != to.Scheme {
		to.Scheme, to.Host = from.Scheme, from.Host
	}
	if fetch.SameServer(r.start, to) || r.c.trusts(to) {
		return nil
	}
	return fmt.Errorf(
		"%w: %s leads to %q, which is neither %s nor a host that is trusted", ErrOtherHost, from,
		legible.Cut(to.Host), r.start.Host,
	)
}

// Trusts reports whether what begins at start may ask u: it is at the same server, or at one of
// Config.Hosts. The error gives the reason why not.
func (c *Client) Trusts(start, u *url.URL) error {
	if fetch.SameServer(start, u) || c.trusts(u) {
		return nil
	}
	return fmt.Errorf("%w: %q is neither %s nor a host that is trusted", ErrOtherHost, legible.Cut(u.Host), start.Host)
}

// Transport is what carries the Client's requests.
func (c *Client) Transport() http.RoundTripper { return c.cfg.Transport }

// trusts reports whether the host is one of Config.Hosts.
func (c *Client) trusts(u *url.URL) bool {
	for _, h := range c.cfg.Hosts {
		t := &url.URL{Scheme: u.Scheme, Host: h}
		if fetch.Hostname(t) == fetch.Hostname(u) && (t.Port() == "" || t.Port() == fetch.Port(u)) {
			return true
		}
	}
	return false
}

// reading is one call of a Client. It is for one goroutine.
type reading struct {
	c *Client
	// start is where it began, whose host is trusted.
	start     *url.URL
	documents int
	// seen are the addresses that were read.
	seen map[string]bool
}

func (c *Client) begin(uri string) (*reading, *url.URL, error) {
	u, err := address(uri)
	if err != nil {
		return nil, nil, err
	}
	return &reading{c: c, start: u, seen: map[string]bool{}}, u, nil
}

// count counts a request.
func (r *reading) count() error {
	if r.documents++; r.documents > r.c.cfg.Limits.Documents {
		return fmt.Errorf("%w: more than %d", ErrLoop, r.c.cfg.Limits.Documents)
	}
	return nil
}

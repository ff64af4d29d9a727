package check

import (
	"errors"
	"net/url"
	"strings"

	"carillon/internal/fetch"
)

// AtServers returns a Config.Allow that allows the servers of places alone: the same host and
// port, or the same host by http and https at their default ports. Names of files are passed
// over.
func AtServers(places []string) func(*url.URL) error {
	known := map[string]bool{}
	for _, place := range places {
		if u, err := url.Parse(place); err == nil && fetch.Web(u) {
			known[server(u)] = true
		}
	}
	return func(to *url.URL) error {
		if known[server(to)] {
			return nil
		}
		return errors.New("it is at another host than the places")
	}
}

// server is what the addresses of one server have in common.
func server(u *url.URL) string {
	p := plain(u)
	if p.Port() == "" {
		return p.Host
	}
	return p.Scheme + "://" + p.Host
}

// plain is an address without its fragment, in the form by which addresses are compared: scheme
// and host in lower case, no default port, and a path (RFC 3986 §6.2).
func plain(u *url.URL) *url.URL {
	p := *u
	p.Fragment, p.RawFragment = "", ""
	p.Host = strings.ToLower(p.Host)
	if port := p.Port(); port == "" || p.Scheme == "http" && port == "80" || p.Scheme == "https" && port == "443" {
		p.Host = strings.TrimSuffix(p.Host, ":"+port)
	}
	if p.Path == "" {
		p.Path = "/"
	}
	return &p
}

// isWebPlace reports whether a place is an address and not the name of a file.
func isWebPlace(place string) bool {
	scheme, _, found := strings.Cut(place, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

package check

import (
	"errors"
	"net/url"

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

// Package standing remembers how the servers behave that strangers have the hub ask. A site that has
// failed so often in a row as a Book allows is in bad standing: the holder of the Book asks it seldom
// then. So a stranger cannot have the hub send a stream of requests to a server that wants none. One
// success restores it.
//
// Package topic defines a site (topic.Site), and Network that of a bare address.
//
// Package subscription asks callbacks by it, package hub topics. It knows nothing of requests and
// makes none.
package standing

import (
	"net/netip"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Defaults of Config.
const (
	DefaultFailures = 20
	DefaultEvery    = time.Second
	DefaultSites    = 16_384
)

// Config says what bad standing is. A field that is zero takes its default.
type Config struct {
	// Failures is how many in a row bring a site into bad standing. Default 20.
	Failures int
	// Every is how often a site in bad standing is asked. Default 1 s.
	Every time.Duration
	// Sites bounds how many are remembered, some 200 bytes each: those that failed
	// longest ago are forgotten first, and then begin anew. Default 16,384.
	Sites int
}

// Book holds the standing of sites. Its owner guards it with a mutex.
type Book struct {
	cfg   Config
	sites *simplelru.LRU[string, *record] // the one that failed last leads
}

type record struct {
	failures int
	away     bool
	next     time.Time // not before this it is asked again, by those who use Turn
}

// NewBook returns an empty Book.
func NewBook(cfg Config) *Book {
	if cfg.Failures == 0 {
		cfg.Failures = DefaultFailures
	}
	if cfg.Every == 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.Sites == 0 {
		cfg.Sites = DefaultSites
	}
	sites, _ := simplelru.NewLRU[string, *record](cfg.Sites, nil) // it refuses only what is below 1
	return &Book{cfg: cfg, sites: sites}
}

// Every is how often a site in bad standing is asked.
func (b *Book) Every() time.Duration { return b.cfg.Every }

// Succeeded records that the site did what it was asked for.
func (b *Book) Succeeded(site string) {
	b.sites.Remove(site)
}

// Failed records that it did not: it refused, or it was away and did not answer at all.
func (b *Book) Failed(site string, away bool) {
	r, ok := b.sites.Get(site)
	if !ok {
		r = &record{}
		b.sites.Add(site, r)
	}
	r.failures = min(r.failures+1, b.cfg.Failures)
	r.away = away
}

// Bad reports whether the site is in bad standing.
func (b *Book) Bad(site string) bool {
	r, ok := b.sites.Peek(site)
	return ok && r.failures >= b.cfg.Failures
}

// Away reports whether the site did not answer when it was asked last.
func (b *Book) Away(site string) bool {
	r, ok := b.sites.Peek(site)
	return ok && r.away
}

// Turn takes the site's turn to be asked. Where it must wait, as it is in bad standing
// and was asked within Config.Every, no turn is taken and Turn reports how long.
func (b *Book) Turn(site string, now time.Time) (wait time.Duration) {
	r, ok := b.sites.Peek(site)
	if !ok {
		return 0
	}
	if wait = r.next.Sub(now); wait > 0 && r.failures >= b.cfg.Failures {
		return wait
	}
	r.next = now.Add(b.cfg.Every)
	return 0
}

// Len is how many sites are remembered.
func (b *Book) Len() int { return b.sites.Len() }

// Network returns what counts as one of an address: an IPv4 address itself, also
// where it is mapped into IPv6, and otherwise the /64, which is the least that a
// provider gives to one customer.
func Network(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, err := addr.Prefix(64)
	if err != nil {
		return ""
	}
	return network.String()
}

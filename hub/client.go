package hub

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"carillon/internal/standing"
	"carillon/subscription"
)

// clients names the client of each request, and bounds how much each may send of the requests that
// make the hub ask other servers. Beyond the bound the answer has the time to come again. It knows a
// bounded number of clients; a forgotten one begins anew.
type clients struct {
	trusted []netip.Prefix
	every   time.Duration // for one request
	burst   time.Duration // for as many as may come at once
	hints   hints
	logger  *slog.Logger

	mu    sync.Mutex
	known *simplelru.LRU[string, *client] // Owned by mu.
}

type client struct {
	// paid is until when the requests so far are paid for, if each takes its time.
	paid time.Time
}

func newClients(cfg Config, logger *slog.Logger) *clients {
	every := time.Second / time.Duration(cfg.ClientRate)
	known, _ := simplelru.NewLRU[string, *client](cfg.Clients, nil) // it refuses only what is below 1
	return &clients{
		trusted: cfg.TrustedProxies, logger: logger, known: known,
		every: every, burst: every * time.Duration(cfg.ClientBurst),
	}
}

// admit takes n requests of who sends r. The error says when there will be room for them.
// The client is empty for one that has no limits.
func (c *clients) admit(r *http.Request, n int) (client string, err error) {
	client = c.of(r)
	if client == "" {
		return "", nil
	}
	if wait := c.take(client, n, time.Now()); wait > 0 {
		return client, &subscription.Later{Err: errTooFast, After: wait}
	}
	return client, nil
}

// aroundFactor is how many times as much as one client the /48 network of IPv6 around it
// may send: a provider may give all of it to one customer.
const aroundFactor = 4

// take counts n requests of a client, and of the network around it, or counts none and
// reports how long it must wait.
func (c *clients) take(key string, n int, now time.Time) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dues := c.dues(key, n, now)
	for _, d := range dues {
		wait = max(wait, d.of.paid.Add(d.cost).Sub(now)-c.burst)
	}
	if wait > 0 {
		return wait
	}
	for _, d := range dues {
		d.of.paid = d.of.paid.Add(d.cost)
	}
	return 0
}

// charge counts n requests of a client, and of the network around it, even above the limit: the cost
// of a request is known when it is done.
func (c *clients) charge(key string, n int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.dues(key, n, now) {
		d.of.paid = d.of.paid.Add(d.cost)
	}
}

// dues is what n requests of a client cost, and whom. The caller holds mu.
func (c *clients) dues(key string, n int, now time.Time) []due {
	cost := time.Duration(n) * c.every
	dues := []due{{c.client(key, now), cost}}
	if around := standing.Around(key); around != "" {
		dues = append(dues, due{c.client(around, now), cost / aroundFactor})
	}
	return dues
}

// due is what requests cost one client.
type due struct {
	of   *client
	cost time.Duration
}

// client returns what is remembered of a client, or of a network around some. The caller holds mu.
func (c *clients) client(key string, now time.Time) *client {
	one, ok := c.known.Get(key)
	if !ok {
		one = &client{}
		c.known.Add(key, one)
	}
	if one.paid.Before(now) {
		one.paid = now
	}
	return one
}

// of returns the client whose limits a request counts against: its network, as standing.Network
// defines it. That is the connection's peer, unless the peer is a proxy which the operator trusts to
// name another. It is empty for a peer on this machine, which has no limits; but not for one that a
// proxy only claims to be on it.
func (c *clients) of(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown" // no net.Listener of ours says so
	}
	addr, lines := peer.Addr(), r.Header["X-Forwarded-For"]
	if !c.trusts(addr) {
		if len(lines) > 0 {
			c.hints.unbelieved(c.logger, addr)
		}
	} else if named, err := c.forwarded(lines); err != nil || named.IsValid() {
		if err != nil {
			named = addr
		}
		return standing.Network(named)
	} else {
		c.hints.unnamed(c.logger, addr)
	}
	if addr.Unmap().IsLoopback() {
		return ""
	}
	return standing.Network(addr)
}

// hints are for the operator who has put a proxy before the hub, and one of the two wrong.
type hints struct {
	silent sync.Once
	many   atomic.Int64 // requests whose X-Forwarded-For was not believed
}

// manyForwarded is how many requests with X-Forwarded-For from untrusted peers suggest that one of
// them is the operator's proxy. Any client can write the header.
const manyForwarded = 100

// unnamed logs once that a trusted proxy names no client.
func (h *hints) unnamed(logger *slog.Logger, peer netip.Addr) {
	h.silent.Do(func() {
		logger.Warn(
			"a trusted proxy sent no X-Forwarded-For: what comes from it counts as one client, or, on this machine, has no limits",
			"proxy", peer,
		)
	})
}

// unbelieved logs once that a proxy may be missing from the trusted ones.
func (h *hints) unbelieved(logger *slog.Logger, peer netip.Addr) {
	if h.many.Add(1) == manyForwarded {
		logger.Warn("many requests came with X-Forwarded-For from addresses that are no trusted proxies; if one is yours, its clients share one limit, or, on this machine, have none: see --trusted-proxy",
			"requests", manyForwarded, "latest", peer)
	}
}

// forwarded reads X-Forwarded-For from its end, where the nearest proxy wrote. The first address that
// is no trusted proxy's is the client's; anything before it is unproven. Without such an address it
// returns the last one that was read, or the zero Addr.
func (c *clients) forwarded(lines []string) (last netip.Addr, err error) {
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var element string
			if j := strings.LastIndexByte(rest, ','); j >= 0 {
				rest, element = rest[:j], rest[j+1:]
			} else {
				element, more = rest, false
			}
			if element = strings.Trim(element, " \t"); element == "" {
				continue // RFC 9110 §5.6.1: empty elements count for nothing
			}
			addr, err := forwardedAddr(element)
			if err != nil {
				return addr, err
			}
			if last = addr; !c.trusts(addr) {
				return addr, nil
			}
		}
	}
	return last, nil
}

// forwardedAddr reads one element of X-Forwarded-For: an address, perhaps with a port, one
// of IPv6 perhaps in brackets.
func forwardedAddr(s string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap(), nil
	}
	if addr, err := netip.ParseAddrPort(s); err == nil {
		return addr.Addr().Unmap(), nil
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			if addr, err := netip.ParseAddr(inner); err == nil && addr.Is6() {
				return addr.Unmap(), nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("X-Forwarded-For holds %q", s)
}

// trusts reports whether the address is that of a proxy which the operator trusts.
func (c *clients) trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range c.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

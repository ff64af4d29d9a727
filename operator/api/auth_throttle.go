package api

import (
	"net/netip"
	"sync"
	"time"
)

// Bounds on wrong tokens. A token of 16 bytes cannot be guessed; the bounds keep attempts from filling
// the log. The right token is never counted, and never waits.
const (
	// maxWrong wrong tokens may come from one client at once.
	maxWrong = 10
	// forgiveEvery is how long it takes until one of them is forgotten.
	forgiveEvery = 6 * time.Second
	// paceRetryAfter is what a 429 advises, whole seconds.
	paceRetryAfter = "6"
	// maxClients are remembered: beyond, those are forgotten first who have sent least.
	maxClients = 4096
)

// tokenThrottle counts wrong tokens by client.
type tokenThrottle struct {
	mu      sync.Mutex
	clients map[string]*tries // guarded by mu, with what is in it
}

// tries are one client's wrong tokens, less those that are forgiven since.
type tries struct {
	wrong float64
	at    time.Time
}

func newTokenThrottle() tokenThrottle { return tokenThrottle{clients: map[string]*tries{}} }

// settle forgives what is to be forgiven.
func (t *tries) settle(now time.Time) {
	t.wrong = max(0, t.wrong-float64(now.Sub(t.at))/float64(forgiveEvery))
	t.at = now
}

// allows reports whether another wrong token of the client is counted, and not only refused.
func (p *tokenThrottle) allows(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.clients[client]
	if t == nil {
		return true
	}
	t.settle(time.Now())
	return t.wrong <= maxWrong-1
}

// wrong counts a wrong token; last: it is the last that is counted for now.
func (p *tokenThrottle) wrong(client string) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	t := p.clients[client]
	if t == nil {
		p.evict(now)
		t = &tries{at: now}
		p.clients[client] = t
	}
	t.settle(now)
	t.wrong++
	return t.wrong > maxWrong-1
}

// evict forgets who has nothing to be forgiven, or else who has least. The lock is held.
func (p *tokenThrottle) evict(now time.Time) {
	if len(p.clients) < maxClients {
		return
	}
	least := ""
	for client, t := range p.clients {
		if t.settle(now); t.wrong == 0 {
			delete(p.clients, client)
			continue
		}
		if least == "" || t.wrong < p.clients[least].wrong {
			least = client
		}
	}
	if len(p.clients) >= maxClients {
		delete(p.clients, least)
	}
}

// site is an address, or the /64 of one of IPv6.
func site(host string) string {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	network, err := a.Prefix(64)
	if err != nil {
		return a.String()
	}
	return network.String()
}

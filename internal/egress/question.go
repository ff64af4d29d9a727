package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// questionKey is what is asked about.
type questionKey struct {
	name   string
	family int
}

// question is one that was asked and not answered yet. All who want to know the
// same share it.
type question struct {
	began  time.Time
	done   chan struct{} // closed when answer is there
	answer answer
}

// ask returns the question that is asked about it, or asks; n.mu is held.
func (n *Names) ask(key questionKey) *question {
	q, ok := n.asking[key]
	if !ok {
		q = &question{began: time.Now(), done: make(chan struct{})}
		n.asking[key] = q
		go n.settle(key, q)
	}
	return q
}

// settle finds the answer and hands it to all who wait. It ends within the
// timeout of a question.
func (n *Names) settle(key questionKey, q *question) {
	a, ttl := n.find(key)
	a.until = time.Now().Add(ttl)
	q.answer = a
	n.mu.Lock()
	delete(n.asking, key)
	if ttl > 0 {
		n.keep(key, a)
	}
	n.mu.Unlock()
	close(q.done)
}

// find asks, and says for how long the answer holds.
func (n *Names) find(key questionKey) (answer, time.Duration) {
	deadline := time.Now().Add(n.cfg.Timeout)
	// Who gets its turn has a fair part of the time left.
	turn, cancel := context.WithDeadline(context.Background(), deadline.Add(-n.cfg.Timeout/4))
	defer cancel()
	release, err := n.places.take(turn, key.name)
	if err != nil {
		n.metrics.refused.Inc()
		return answer{err: &net.DNSError{Err: err.Error(), Name: key.name, IsTemporary: true}}, 0
	}
	defer release()
	if hurried := time.Now().Add(crowdedTimeout); n.places.crowded() && hurried.Before(deadline) {
		deadline = hurried
	}
	t := &tap{deadline: deadline}
	ctx, cancel := context.WithDeadline(context.WithValue(context.Background(), tapKey{}, t), deadline)
	defer cancel()
	addrs, err := n.resolver.LookupNetIP(ctx, [...]string{four: "ip4", six: "ip6"}[key.family], key.name)
	if len(addrs) == 0 && key.family == six {
		// A connection to ::ffff:192.0.2.1 goes to 192.0.2.1. As one to that it is dialed or refused.
		addrs = t.fours()
	}
	return n.judge(key, t, addrs, err)
}

// judge says what an answer is worth.
func (n *Names) judge(key questionKey, t *tap, addrs []netip.Addr, err error) (answer, time.Duration) {
	if len(addrs) > 0 {
		n.metrics.answered.Inc()
		kept := make([]netip.Addr, min(len(addrs), maxAddresses))
		for i := range kept {
			kept[i] = addrs[i].Unmap()
		}
		ttl, ok := t.positive()
		if ttl = min(ttl, n.cfg.MaxTTL); !ok {
			ttl = n.cfg.TTL
		}
		return answer{addrs: kept, unrouted: key.family == six && !routed(kept[0])}, ttl
	}
	e := plain(key.name, err)
	if !e.IsNotFound {
		n.metrics.failed.Inc()
		return answer{err: e}, failureTTL
	}
	n.metrics.missing.Inc()
	ttl, ok := t.negative()
	switch {
	case ok:
	case t.silent():
		ttl = n.cfg.TTL
	default:
		// Without an SOA nobody says that it holds (RFC 2308 §5): it is
		// remembered as what failed is, to bound the questions.
		ttl = failureTTL
	}
	return answer{err: e}, min(ttl, maxNegativeTTL)
}

// plain is the error without what it wraps: the deadline was the question's, not
// that of the one who dials.
func plain(name string, err error) *net.DNSError {
	var (
		dns  *net.DNSError
		addr *net.AddrError
	)
	switch {
	case errors.As(err, &dns):
		return &net.DNSError{
			Err: dns.Err, Name: name, Server: dns.Server,
			IsTimeout: dns.IsTimeout, IsTemporary: dns.IsTemporary, IsNotFound: dns.IsNotFound,
		}
	case err == nil, errors.As(err, &addr):
		// /etc/hosts has the name, with addresses of the other family.
		return noSuchHost(name)
	}
	return &net.DNSError{Err: err.Error(), Name: name, IsTemporary: true}
}

// routed tells whether this machine has a route to the address. No packet is sent.
func routed(addr netip.Addr) bool {
	const discard = 9
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, discard)))
	if err != nil {
		return false
	}
	return c.Close() == nil
}

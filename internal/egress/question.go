package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// question is asked about the addresses of one family of a name. All who want to know the
// same share it.
type question struct {
	began  time.Time
	until  time.Time     // how long the answer holds; zero while the question is under way
	done   chan struct{} // closed when the answer is there
	answer answer
}

// closed is the done of all questions that are remembered: these keep no channel.
var closed = make(chan struct{})

func init() { close(closed) }

// answer is what is known of the addresses of one family.
type answer struct {
	addrs    []netip.Addr
	err      *net.DNSError // why there are no addresses
	unrouted bool          // this machine has no route to addrs
}

// known reports whether the question has an answer that holds.
func (q *question) known(now time.Time) bool { return q != nil && now.Before(q.until) }

// underWay reports whether the question is one that was not answered when it was found.
func (q *question) underWay() bool { return q != nil && q.until.IsZero() }

// outcome returns the answer, if it has come.
func (q *question) outcome() answer {
	select {
	case <-q.done:
		return q.answer
	default:
		return answer{}
	}
}

// settle finds the answer and hands it to all waiting callers. It ends within the timeout of a
// question. A name takes room among the kept ones only with an answer: names without one displace
// none.
func (n *Names) settle(k *keptName, family int, q *question) {
	a, ttl := n.find(k.name, family)
	n.mu.Lock()
	defer n.mu.Unlock()
	q.answer = a
	k.questions[family] = nil
	if ttl > 0 {
		k.questions[family] = &question{until: time.Now().Add(ttl), done: closed, answer: a}
		n.kept.Add(k.name, k)
	} else if k.questions == [2]*question{} {
		n.kept.Remove(k.name)
	}
	if !k.questions[four].underWay() && !k.questions[six].underWay() {
		delete(n.asking, k.name)
	}
	close(q.done)
}

// find asks, and says for how long the answer holds.
func (n *Names) find(name string, family int) (answer, time.Duration) {
	deadline := time.Now().Add(n.cfg.Timeout)
	// A question that gets its turn has a fair part of the time left.
	turn, cancel := context.WithDeadline(context.Background(), deadline.Add(-n.cfg.Timeout/4))
	defer cancel()
	release, err := n.places.take(turn, name)
	if err != nil {
		n.metrics.refused.Inc()
		return answer{err: &net.DNSError{Err: err.Error(), Name: name, IsTemporary: true}}, 0
	}
	defer release()
	if hurried := time.Now().Add(crowdedTimeout); n.places.crowded() && hurried.Before(deadline) {
		deadline = hurried
	}
	t := &tap{deadline: deadline}
	ctx, cancel := context.WithDeadline(context.WithValue(context.Background(), tapKey{}, t), deadline)
	defer cancel()
	addrs, err := n.resolver.LookupNetIP(ctx, [...]string{four: "ip4", six: "ip6"}[family], name)
	h := t.learned()
	if len(addrs) == 0 && family == six {
		// A connection to ::ffff:192.0.2.1 goes to 192.0.2.1. As one to that it is dialed or refused.
		addrs = h.mapped
	}
	if len(addrs) > 0 {
		return n.positive(family, h, addrs)
	}
	return n.negative(h, plain(name, err))
}

// positive says what addresses are worth.
func (n *Names) positive(family int, h heard, addrs []netip.Addr) (answer, time.Duration) {
	n.metrics.answered.Inc()
	kept := make([]netip.Addr, min(len(addrs), maxAddresses))
	for i := range kept {
		kept[i] = addrs[i].Unmap()
	}
	ttl := n.cfg.TTL
	if h.have != nil {
		ttl = min(*h.have, n.cfg.MaxTTL)
	}
	return answer{addrs: kept, unrouted: family == six && !routed(kept[0])}, ttl
}

// negative says what it is worth that there are no addresses.
func (n *Names) negative(h heard, e *net.DNSError) (answer, time.Duration) {
	if !e.IsNotFound {
		n.metrics.failed.Inc()
		return answer{err: e}, failureTTL
	}
	n.metrics.missing.Inc()
	// Without an SOA the answer has no lifetime (RFC 2308 §5): it is remembered like a failure, to bound
	// the questions.
	ttl := failureTTL
	switch {
	case h.none != nil:
		ttl = *h.none
	case !h.asked:
		ttl = n.cfg.TTL
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

// routed reports whether this machine has a route to the address. No packet is sent.
func routed(addr netip.Addr) bool {
	const discard = 9
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, discard)))
	if err != nil {
		return false
	}
	return c.Close() == nil
}

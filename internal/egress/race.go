package egress

import (
	"context"
	"net"
	"net/netip"
	"time"
)

const (
	// fallbackDelay is the head start of the preferred family (RFC 8305 §5; the
	// delay that package net has).
	fallbackDelay = 300 * time.Millisecond
	// leastPerAddress is what an address is given at least where several share
	// the time for a dial.
	leastPerAddress = 2 * time.Second
)

// dialFunc dials one address.
type dialFunc func(ctx context.Context, addr netip.Addr) (net.Conn, error)

// connect dials addresses of one family or two until there is a connection.
func connect(ctx context.Context, dial dialFunc, addrs []netip.Addr) (net.Conn, error) {
	first, second := families(addrs)
	if len(second) == 0 {
		return dialEach(ctx, dial, first)
	}
	return race(ctx, dial, first, second)
}

// families cuts where the family changes.
func families(addrs []netip.Addr) (first, second []netip.Addr) {
	for i, a := range addrs {
		if a.Is4() != addrs[0].Is4() {
			return addrs[:i], addrs[i:]
		}
	}
	return addrs, nil
}

// dialEach tries one address after the other, and fails as the first one did.
func dialEach(ctx context.Context, dial dialFunc, addrs []netip.Addr) (net.Conn, error) {
	var first error
	for i, a := range addrs {
		conn, err := dialOne(ctx, dial, a, len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// dialOne gives an address its part of the time that is left for some.
func dialOne(ctx context.Context, dial dialFunc, addr netip.Addr, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		part := max(time.Until(deadline)/time.Duration(left), leastPerAddress)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, part)
		defer cancel()
	}
	return dial(ctx, addr)
}

// race dials the second family as well when the first has failed or takes long
// ("Happy Eyeballs", RFC 8305). If both fail, it fails as the first did.
func race(ctx context.Context, dial dialFunc, first, second []netip.Addr) (net.Conn, error) {
	type result struct {
		conn  net.Conn
		err   error
		which int
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	over := make(chan struct{})
	defer close(over)
	run := func(addrs []netip.Addr, which int) {
		conn, err := dialEach(ctx, dial, addrs)
		select {
		case results <- result{conn, err, which}:
		case <-over:
			if conn != nil {
				_ = conn.Close() // the other one was faster
			}
		}
	}
	go run(first, 0)
	late := time.NewTimer(fallbackDelay)
	defer late.Stop()
	var failed [2]error
	for started := false; ; {
		select {
		case <-late.C:
		case r := <-results:
			if r.err == nil {
				return r.conn, nil
			}
			failed[r.which] = r.err
		}
		switch {
		case failed[0] != nil && failed[1] != nil:
			return nil, failed[0]
		case !started:
			started = true
			go run(second, 1)
		}
	}
}

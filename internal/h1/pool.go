package h1

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// begin enlists an exchange and finds it an idle connection; without one it waits for
// one, or for the right to open one.
func (c *Client) begin(ctx context.Context, x *exchange, secure bool, authority string) (*host, *conn, *waiter, error) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = max(c.seen, now)
	c.enlist(ctx, x, now)
	h, err := c.hostOf(hostKey{secure, authority})
	if err != nil {
		return nil, nil, nil, err
	}
	if h.conns == h.idleN && len(h.waiting) == 0 {
		h.begins(now)
	}
	if x.broken != nil {
		return h, nil, nil, x.broken
	}
	if cn := h.idle; cn != nil {
		c.idle.remove(cn)
		x.use(cn, now)
		return h, cn, nil, nil
	}
	return h, nil, c.wait(x, h), nil
}

// hostOf returns what is known of a host, or begins to know it. mu is held.
func (c *Client) hostOf(key hostKey) (*host, error) {
	h := c.hosts[key]
	if h == nil {
		key.authority = strings.Clone(key.authority) // it is a piece of a URL
		var err error
		if h, err = newHost(key); err != nil {
			return nil, err
		}
		c.hosts[key] = h
	} else if h.remembered {
		c.recall(h)
	}
	return h, nil
}

// use gives the exchange its connection. mu is held.
func (x *exchange) use(cn *conn, now time.Duration) {
	x.conn, x.look, x.began = cn, cn.used, now
}

// connect gets an exchange a connection where none was idle: it waits for one, or opens one.
// On an error it holds none.
func (c *Client) connect(ctx context.Context, x *exchange, h *host, w *waiter) (*conn, error) {
	switch g := <-w.got; {
	case g.conn != nil:
		return c.attach(x, g.conn)
	case g.open:
		return c.openFor(ctx, x, h, g.slot)
	}
	return nil, c.errWait // broken off
}

// openFor opens a connection for an exchange that may.
func (c *Client) openFor(ctx context.Context, x *exchange, h *host, s *slot) (*conn, error) {
	defer c.finish(s)
	c.mu.Lock()
	left := x.deadline - c.now()
	var dropped *conn
	if c.conns > c.cfg.MaxConns && len(c.idle.all) > 0 {
		dropped = c.dropLeastNeeded()
	}
	c.mu.Unlock()
	dropped.abort()
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	cn, err := c.dial(ctx, h, s)
	c.mu.Lock()
	h.opening--
	if err != nil {
		c.lose(h)
	}
	c.mu.Unlock()
	if err != nil {
		if ctx.Err() != nil {
			// Whatever came of it: there was no more time.
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, err
	}
	return c.attach(x, cn)
}

// attach gives an exchange the connection that it waited for; one that was broken
// off meanwhile gives it back.
func (c *Client) attach(x *exchange, cn *conn) (*conn, error) {
	now := c.now()
	c.mu.Lock()
	why := x.broken
	if why == nil {
		x.use(cn, now)
		c.mu.Unlock()
		return cn, nil
	}
	evicted := c.giveBack(cn)
	c.mu.Unlock()
	evicted.abort()
	return nil, why
}

// another replaces a connection that turned out to be closed, by an idle one if
// that will do. Nothing is held on an error.
func (c *Client) another(ctx context.Context, x *exchange, h *host, old *conn, idle bool) (*conn, error) {
	now := c.now()
	c.mu.Lock()
	x.conn = nil
	var cn *conn
	var w *waiter
	why := x.broken
	switch {
	case why != nil:
		c.lose(h)
	case idle && h.idle != nil:
		cn = h.idle
		c.idle.remove(cn)
		x.use(cn, now)
		c.lose(h)
	default:
		// It keeps the place of the old one until it stands in line: so the host is not
		// forgotten.
		w = c.line(x, h, !idle)
		c.lose(h)
	}
	c.mu.Unlock()
	old.abort()
	if cn != nil || why != nil {
		return cn, why
	}
	return c.connect(ctx, x, h, w)
}

// end takes an exchange off the list, gives its connection back and returns the
// error that its caller gets. It must not be used afterwards.
func (c *Client) end(ctx context.Context, x *exchange, h *host, cn *conn, err error) error {
	var evicted, aborting *conn
	now := time.Duration(0)
	if h != nil && h.key.secure {
		now = c.now()
	}
	c.mu.Lock()
	why := x.broken
	if cn != nil {
		if err == nil && h.key.secure {
			h.answered(now - x.began)
		}
		if err == nil && why == nil && x.keep {
			if x.limited {
				_ = cn.nc.SetDeadline(time.Time{})
			}
			evicted = c.giveBack(cn)
		} else {
			c.lose(h)
			aborting = cn
		}
	} else if h != nil {
		c.forget(h)
	}
	c.delist(x)
	c.mu.Unlock()
	evicted.abort()
	aborting.abort()
	x.release()
	c.exchanges.Put(x)
	switch {
	case err == nil:
		return nil // an answer is an answer, also at the last moment
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case why != nil:
		return why
	}
	return err
}

// giveBack hands a connection to the request that waits longest, or lets it idle. It
// returns one that there is no room for, if any: to be aborted, as a farewell may
// wait and is not this request's affair. mu is held.
func (c *Client) giveBack(cn *conn) *conn {
	h := cn.host
	// From now on it may end without a fault of whoever uses it, also where it has not
	// carried anything yet.
	cn.used, cn.since, h.used = true, c.seen, c.seen
	if c.serve(cn) {
		return nil
	}
	if h.idleN >= c.cfg.IdlePerHost {
		c.lose(h)
		return cn
	}
	c.idle.push(cn)
	if c.conns > c.cfg.MaxConns || c.idle.bytes > c.cfg.IdleBytes {
		return c.dropLeastNeeded()
	}
	return nil
}

// lose notes that a host has a connection less, or that one was not made. mu is held.
func (c *Client) lose(h *host) {
	h.conns--
	c.conns--
	c.want(h)
	c.forget(h)
}

// forget drops a host that has nothing, or remembers it for its session. mu is held.
func (c *Client) forget(h *host) {
	switch {
	case !h.unused() || c.hosts[h.key] != h:
	case h.resume != nil:
		if !h.remembered {
			c.remember(h)
		}
	default:
		delete(c.hosts, h.key)
	}
}

// unused tells whether a host has no connections and no requests.
func (h *host) unused() bool { return h.conns == 0 && len(h.waiting) == 0 }

// dropIdle takes an idle connection out of the pool, to be ended. mu is held.
func (c *Client) dropIdle(cn *conn) *conn {
	c.idle.remove(cn)
	c.lose(cn.host)
	return cn
}

// dropLeastNeeded does so for want of files or memory. mu is held.
func (c *Client) dropLeastNeeded() *conn {
	c.counts.Dropped++
	return c.dropIdle(c.idle.leastNeeded(c.seen))
}

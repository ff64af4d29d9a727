package h1

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// begin enlists an exchange and returns an idle connection for it. Where there is none it enqueues
// the exchange and returns its waiter.
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

// hostOf returns the host of a key, a new one if it is not known. mu is held.
func (c *Client) hostOf(key hostKey) (*host, error) {
	h := c.hosts[key]
	if h == nil {
		key.authority = strings.Clone(key.authority) // not to keep the whole URL
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

// use assigns a connection to the exchange. mu is held.
func (x *exchange) use(cn *conn, now time.Duration) {
	x.conn, x.look, x.began = cn, cn.used, now
}

// connect waits for the grant of an exchange and returns its connection, which it opens if need
// be. On an error the exchange holds none.
func (c *Client) connect(ctx context.Context, x *exchange, h *host, w *waiter) (*conn, error) {
	switch g := <-w.got; {
	case g.conn != nil:
		return c.attach(x, g.conn)
	case g.open:
		return c.openFor(ctx, x, h, g.slot)
	}
	return nil, c.errWait // broken off
}

// openFor opens a connection for an exchange that was granted the right to.
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
			// The time was over, whatever the error says.
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, err
	}
	return c.attach(x, cn)
}

// attach assigns to an exchange the connection that it waited for. If the exchange was broken off
// meanwhile, the connection is given back.
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
	abortAll(evicted)
	return nil, why
}

// another replaces a connection that its server has closed: by an idle one if idle says that one
// will do, else by a fresh one. On an error the exchange holds none.
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
		// In this order: lose would forget a host without connections and requests.
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

// end delists an exchange, gives its connection back, and returns the error for the caller. The
// exchange must not be used afterwards.
func (c *Client) end(ctx context.Context, x *exchange, h *host, cn *conn, err error) error {
	var evicted []*conn
	var aborting *conn
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
	abortAll(evicted)
	aborting.abort()
	x.release()
	c.exchanges.Put(x)
	switch {
	case err == nil:
		return nil // an answer at the last moment counts
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case why != nil:
		return why
	}
	return err
}

// giveBack hands a connection to the request that has waited longest for one, or makes it idle. It
// returns the connections that exceed a bound. The caller must abort these: a farewell could block.
// mu is held.
func (c *Client) giveBack(cn *conn) []*conn {
	h := cn.host
	// From now on its server may close it at any time, also where it carried no request yet.
	cn.used, cn.since, h.used = true, c.seen, c.seen
	return c.offer(cn)
}

// offer is giveBack for a connection that no request has used since. mu is held.
func (c *Client) offer(cn *conn) (evicted []*conn) {
	h := cn.host
	if c.serve(cn) {
		return nil
	}
	if h.idleN >= c.cfg.IdlePerHost {
		c.lose(h)
		return []*conn{cn}
	}
	c.idle.push(cn)
	for len(c.idle.all) > 0 && (c.conns > c.cfg.MaxConns || c.idle.bytes > c.cfg.IdleBytes) {
		evicted = append(evicted, c.dropLeastNeeded())
	}
	return evicted
}

// lose records that a connection of a host was closed, or could not be opened. mu is held.
func (c *Client) lose(h *host) {
	h.conns--
	c.conns--
	c.want(h)
	c.forget(h)
}

// forget drops a host without connections and requests, or remembers it for its session. mu is held.
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

// unused reports whether a host has no connections and no waiting requests.
func (h *host) unused() bool { return h.conns == 0 && len(h.waiting) == 0 }

// dropIdle removes an idle connection from the pool. The caller must close it. mu is held.
func (c *Client) dropIdle(cn *conn) *conn {
	c.idle.remove(cn)
	c.lose(cn.host)
	return cn
}

// dropLeastNeeded removes the idle connection to drop for want of files or memory. mu is held.
func (c *Client) dropLeastNeeded() *conn {
	c.counts.Dropped++
	return c.dropIdle(c.idle.leastNeeded(c.seen))
}

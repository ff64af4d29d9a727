package h1

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// begin enlists an exchange and finds it an idle connection; without one it has
// either taken a slot to dial one or a place to wait.
func (c *Client) begin(ctx context.Context, x *exchange, r *Request) (*host, *conn, *waiter, error) {
	now := c.now()
	key := hostKey{r.Secure, r.Authority}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = max(c.seen, now)
	c.enlist(ctx, x, now)
	h := c.hosts[key]
	if h == nil {
		key.authority = strings.Clone(key.authority) // it is a piece of a URL
		var err error
		if h, err = newHost(key); err != nil {
			return nil, nil, nil, err
		}
		c.hosts[key] = h
	}
	if cn := h.idle; cn != nil && x.broken == nil {
		c.takeIdle(cn)
		x.use(cn)
		return h, cn, nil, nil
	}
	if h.conns < c.cfg.MaxConnsPerHost {
		h.conns++
		return h, nil, nil, nil
	}
	w := &waiter{make(chan *conn, 1)}
	h.waiting = append(h.waiting, w)
	return h, nil, w, nil
}

// use gives the exchange its connection. mu is held.
func (x *exchange) use(cn *conn) { x.conn, x.look = cn, cn.used }

// connect gets an exchange a connection where none was idle: it waits its turn, or
// dials. On an error it holds none, and no slot.
func (c *Client) connect(ctx context.Context, x *exchange, h *host, w *waiter) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, x.deadline-c.now())
	defer cancel()
	if w != nil {
		cn, err := c.await(ctx, h, w)
		if err != nil {
			return nil, err
		}
		if cn != nil {
			return c.attach(x, cn)
		}
	}
	return c.dialFor(ctx, x, h)
}

// dialFor dials for an exchange that has a slot.
func (c *Client) dialFor(ctx context.Context, x *exchange, h *host) (*conn, error) {
	cn, err := c.dial(ctx, h)
	if err != nil {
		c.mu.Lock()
		c.freeSlot(h)
		c.mu.Unlock()
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
	c.mu.Lock()
	why := x.broken
	if why == nil {
		x.use(cn)
		c.mu.Unlock()
		return cn, nil
	}
	evicted := c.giveBack(cn)
	c.mu.Unlock()
	evicted.abort()
	return nil, why
}

// await waits for a connection, or for the right to dial one.
func (c *Client) await(ctx context.Context, h *host, w *waiter) (*conn, error) {
	select {
	case cn := <-w.got:
		return cn, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	var evicted *conn
	for i := range h.waiting {
		if h.waiting[i] == w {
			h.waiting = append(h.waiting[:i], h.waiting[i+1:]...)
			w = nil
			break
		}
	}
	if w != nil {
		// It was given something at the last moment.
		if cn := <-w.got; cn != nil {
			evicted = c.giveBack(cn)
		} else {
			c.freeSlot(h)
		}
	}
	c.mu.Unlock()
	evicted.abort()
	return nil, c.errWait
}

// another replaces a connection that turned out to be closed, by an idle one if
// that will do. Nothing is held on an error.
func (c *Client) another(ctx context.Context, x *exchange, h *host, old *conn, idle bool) (*conn, error) {
	c.mu.Lock()
	x.conn = nil
	var cn *conn
	if why := x.broken; why != nil {
		c.freeSlot(h)
		c.mu.Unlock()
		old.abort()
		return nil, why
	}
	if cn = h.idle; cn != nil && idle {
		c.takeIdle(cn)
		c.freeSlot(h)
		x.use(cn)
	}
	c.mu.Unlock()
	old.abort()
	if cn != nil && idle {
		return cn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, x.deadline-c.now())
	defer cancel()
	return c.dialFor(ctx, x, h)
}

// end takes an exchange off the list, gives its connection back and returns the
// error that its caller gets. It must not be used afterwards.
func (c *Client) end(ctx context.Context, x *exchange, h *host, cn *conn, err error) error {
	var evicted, aborting *conn
	c.mu.Lock()
	why := x.broken
	if cn != nil {
		if err == nil && why == nil && x.keep {
			if x.limited {
				_ = cn.nc.SetDeadline(time.Time{})
			}
			evicted = c.giveBack(cn)
		} else {
			c.freeSlot(h)
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

// giveBack hands a connection to whoever waits longest, or lets it idle. It
// returns the one that there is no room for, if any: to be aborted, as a farewell may
// wait and is not this request's affair. mu is held.
func (c *Client) giveBack(cn *conn) *conn {
	h := cn.host
	// From now on it may end without a fault of whoever uses it, also where it has not
	// carried anything yet.
	cn.used, cn.since = true, c.seen
	if len(h.waiting) > 0 {
		c.hand(h, cn)
		return nil
	}
	if h.idleN >= c.cfg.IdlePerHost {
		c.freeSlot(h)
		return cn
	}
	c.idle.push(cn)
	if c.idle.n > c.cfg.IdleConns {
		return c.dropIdle(c.idle.oldest())
	}
	return nil
}

// freeSlot notes that a host has a connection less, or that one was not made: who
// waits longest may dial one. mu is held.
func (c *Client) freeSlot(h *host) {
	if len(h.waiting) > 0 {
		c.hand(h, nil)
		return
	}
	h.conns--
	c.forget(h)
}

// hand gives the longest waiter a connection, or a slot. mu is held.
func (c *Client) hand(h *host, cn *conn) {
	w := h.waiting[0]
	h.waiting[0] = nil
	h.waiting = h.waiting[1:]
	w.got <- cn
}

// forget drops a host that has nothing. mu is held.
func (c *Client) forget(h *host) {
	if h.conns == 0 && len(h.waiting) == 0 && c.hosts[h.key] == h {
		delete(c.hosts, h.key)
	}
}

// takeIdle takes an idle connection for use. mu is held.
func (c *Client) takeIdle(cn *conn) { c.idle.remove(cn) }

// dropIdle takes an idle connection out of the pool, to be ended. mu is held.
func (c *Client) dropIdle(cn *conn) *conn {
	c.idle.remove(cn)
	c.freeSlot(cn.host)
	return cn
}

// idleList holds the idle connections of all hosts in the order in which they became
// so, and those of each host the other way round: what was used last is used
// first, and the rest may grow old.
type idleList struct {
	first, last *conn
	n           int
}

func (l *idleList) oldest() *conn { return l.first }

func (l *idleList) push(cn *conn) {
	if cn.prev = l.last; l.last != nil {
		l.last.next = cn
	} else {
		l.first = cn
	}
	l.last = cn
	l.n++
	h := cn.host
	if cn.below = h.idle; h.idle != nil {
		h.idle.above = cn
	}
	h.idle = cn
	h.idleN++
}

func (l *idleList) remove(cn *conn) {
	if cn.prev != nil {
		cn.prev.next = cn.next
	} else {
		l.first = cn.next
	}
	if cn.next != nil {
		cn.next.prev = cn.prev
	} else {
		l.last = cn.prev
	}
	l.n--
	h := cn.host
	if cn.above != nil {
		cn.above.below = cn.below
	} else {
		h.idle = cn.below
	}
	if cn.below != nil {
		cn.below.above = cn.above
	}
	h.idleN--
	cn.prev, cn.next, cn.above, cn.below = nil, nil, nil, nil
}

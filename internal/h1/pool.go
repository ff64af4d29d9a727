package h1

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pool lends connections to requests: idle ones, or new ones. Its mutex guards all its parts, so
// that a request locks once to begin and once to end.
type pool struct {
	cfg       *Config
	exchanges sync.Pool
	joined    sync.Pool // of *[]byte: requests while they are written in one piece

	mu     sync.Mutex // parts reach it by clock.mu
	clock  clock
	pace   pace
	hosts  hosts
	dialer dialer
	idle   idleSet
}

func newPool(cfg *Config) *pool {
	p := &pool{cfg: cfg}
	p.clock = newClock(&p.mu, cfg.Timeout, p.tidy)
	p.pace = newPace(&p.clock, cfg)
	p.hosts = hosts{clock: &p.clock, limit: cfg.SessionBytes, all: map[hostKey]*host{}}
	p.dialer = dialer{cfg: cfg, clock: &p.clock, pace: &p.pace, hosts: &p.hosts}
	p.joined.New = func() any { return new([]byte) }
	p.exchanges.New = func() any { return newExchange(&p.mu, &p.joined, cfg.MaxHeaderBytes) }
	return p
}

// admit enlists an exchange and returns an idle connection for it. Without one it enqueues the
// exchange and returns its waiter.
func (p *pool) admit(ctx context.Context, x *exchange, secure bool, authority string) (*host, *conn, *waiter, error) {
	now := p.clock.elapsed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock.seen = max(p.clock.seen, now)
	p.clock.enlist(ctx, x, now)
	h, err := p.hosts.hostOf(hostKey{secure, authority})
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
		p.idle.remove(cn)
		x.use(cn, now)
		return h, cn, nil, nil
	}
	w := p.pace.enqueue(x, h, false)
	p.pace.want(h)
	return h, nil, w, nil
}

// await waits for the grant of an exchange and returns its connection, which it opens if need
// be. On an error the exchange holds none.
func (p *pool) await(ctx context.Context, x *exchange, h *host, w *waiter) (*conn, error) {
	switch g := <-w.got; {
	case g.conn != nil:
		return p.attach(x, g.conn)
	case g.open:
		return p.openFor(ctx, x, h, g.slot)
	}
	return nil, p.clock.errWait // broken off
}

// openFor opens a connection for an exchange that was granted the right to.
func (p *pool) openFor(ctx context.Context, x *exchange, h *host, s *slot) (*conn, error) {
	defer p.pace.finish(s)
	p.mu.Lock()
	left := x.deadline - p.clock.elapsed()
	var dropped *conn
	if p.pace.conns > p.cfg.MaxConns && len(p.idle.all) > 0 {
		dropped = p.dropLeastNeeded()
	}
	p.mu.Unlock()
	dropped.abort()
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	cn, err := p.dialer.dial(ctx, h, s)
	p.mu.Lock()
	h.opening--
	if err != nil {
		p.lose(h)
	}
	p.mu.Unlock()
	if err != nil {
		if ctx.Err() != nil {
			// The time was over, whatever the error says.
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, err
	}
	return p.attach(x, cn)
}

// attach assigns to an exchange the connection that it waited for. If the exchange was broken off
// meanwhile, the connection is given back.
func (p *pool) attach(x *exchange, cn *conn) (*conn, error) {
	now := p.clock.elapsed()
	p.mu.Lock()
	why := x.broken
	if why == nil {
		x.use(cn, now)
		p.mu.Unlock()
		return cn, nil
	}
	evicted := p.giveBack(cn)
	p.mu.Unlock()
	abortAll(evicted)
	return nil, why
}

// another replaces a connection that its server has closed: by an idle one if idle says that one
// will do, else by a fresh one. On an error the exchange holds none.
func (p *pool) another(ctx context.Context, x *exchange, h *host, old *conn, idle bool) (*conn, error) {
	now := p.clock.elapsed()
	p.mu.Lock()
	x.conn = nil
	var cn *conn
	var w *waiter
	why := x.broken
	switch {
	case why != nil:
		p.lose(h)
	case idle && h.idle != nil:
		cn = h.idle
		p.idle.remove(cn)
		x.use(cn, now)
		p.lose(h)
	default:
		// In this order: lose would forget a host without connections and requests.
		w = p.pace.enqueue(x, h, !idle)
		p.lose(h)
	}
	p.mu.Unlock()
	old.abort()
	if cn != nil || why != nil {
		return cn, why
	}
	return p.await(ctx, x, h, w)
}

// conclude delists an exchange, gives its connection back, and returns the error for the caller.
// The exchange must not be used afterwards.
func (p *pool) conclude(ctx context.Context, x *exchange, h *host, cn *conn, err error) error {
	var evicted []*conn
	var aborting *conn
	now := time.Duration(0)
	if h != nil && h.key.secure {
		now = p.clock.elapsed()
	}
	p.mu.Lock()
	why := x.broken
	if cn != nil {
		if err == nil && h.key.secure {
			h.answered(now - x.began)
		}
		if err == nil && why == nil && x.keep {
			if x.limited {
				_ = cn.nc.SetDeadline(time.Time{})
			}
			evicted = p.giveBack(cn)
		} else {
			p.lose(h)
			aborting = cn
		}
	} else if h != nil {
		p.hosts.forget(h)
	}
	p.clock.delist(x)
	p.mu.Unlock()
	abortAll(evicted)
	aborting.abort()
	x.release()
	p.exchanges.Put(x)
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
func (p *pool) giveBack(cn *conn) []*conn {
	h := cn.host
	// From now on its server may close it at any time, also where it carried no request yet.
	cn.used, cn.since, h.used = true, p.clock.seen, p.clock.seen
	return p.offer(cn)
}

// offer is giveBack for a connection that no request has used since. mu is held.
func (p *pool) offer(cn *conn) (evicted []*conn) {
	h := cn.host
	if p.pace.serve(cn) {
		return nil
	}
	if h.idleN >= p.cfg.IdlePerHost {
		p.lose(h)
		return []*conn{cn}
	}
	p.idle.push(cn)
	for len(p.idle.all) > 0 && (p.pace.conns > p.cfg.MaxConns || p.idle.bytes > p.cfg.IdleBytes) {
		evicted = append(evicted, p.dropLeastNeeded())
	}
	return evicted
}

// lose records that a connection of a host was closed, or could not be opened. mu is held.
func (p *pool) lose(h *host) {
	h.conns--
	p.pace.conns--
	p.pace.want(h)
	p.hosts.forget(h)
}

// dropIdle removes an idle connection from the pool. The caller must close it. mu is held.
func (p *pool) dropIdle(cn *conn) *conn {
	p.idle.remove(cn)
	p.lose(cn.host)
	return cn
}

// dropLeastNeeded removes the idle connection to drop for want of files or memory. mu is held.
func (p *pool) dropLeastNeeded() *conn {
	p.dialer.counts.Dropped++
	return p.dropIdle(p.idle.leastNeeded(p.clock.seen))
}

// tidy breaks off what is beyond its deadline, closes what has been idle for too
// long, and sees to it that it is called again if there is need.
func (p *pool) tidy() {
	now := p.clock.elapsed()
	p.mu.Lock()
	p.clock.expire(now)
	var closing []*conn
	for cn := p.idle.first; cn != nil && cn.since+p.cfg.IdleTimeout <= now; cn = p.idle.first {
		closing = append(closing, p.dropIdle(cn))
	}
	spoken := p.idle.look(now)
	p.pace.share() // handshakes that wait for the network may count no longer
	if cn := p.idle.first; !p.clock.again() && cn != nil {
		due := min(cn.since+p.cfg.IdleTimeout, p.idle.lookAt)
		p.clock.arm(max(due-now, p.clock.tick))
	}
	p.mu.Unlock()
	closeAll(closing)
	p.hear(spoken)
}

// hear returns a connection to the pool if crypto/tls alone was addressed, as with a ticket. It
// closes all others. No server makes its connections last, or seem used, by tickets.
func (p *pool) hear(spoken []*conn) {
	for _, cn := range spoken {
		// crypto/tls may answer by a few bytes: at once or not at all.
		well := cn.socket != nil && cn.nc.SetWriteDeadline(time.Now().Add(lookTime)) == nil &&
			cn.quietTLS() && cn.nc.SetWriteDeadline(time.Time{}) == nil
		p.mu.Lock()
		dropped := []*conn{cn}
		if well && cn.since+p.cfg.IdleTimeout > p.clock.seen {
			dropped = p.offer(cn)
		} else {
			p.lose(cn.host)
		}
		p.mu.Unlock()
		abortAll(dropped)
	}
}

package h1

import "context"

// Client keeps connections and makes requests. All its methods may be called from any goroutine. It
// needs no closing: its connections end by themselves after IdleTimeout.
type Client struct{ pool *pool }

// New returns a Client, or an error that reports the faults of the Config.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Client{newPool(&cfg)}, nil
}

// Post sends the request and returns its final answer. An error that is the
// context's own comes as its cause; one at the deadline is a
// context.DeadlineExceeded.
func (c *Client) Post(ctx context.Context, r *Request) (Answer, error) {
	if ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	p := c.pool
	x := p.exchanges.Get().(*exchange)
	h, cn, w, err := p.admit(ctx, x, r.Secure, r.Authority)
	if err == nil && cn == nil {
		cn, err = p.await(ctx, x, h, w)
	}
	if err != nil {
		return Answer{}, p.conclude(ctx, x, h, nil, err)
	}
	x.prepare(h, r)
	for repeated := false; ; {
		err = x.exchange(cn)
		stale := err == errStale
		if !stale && (err == nil || !cn.used || x.n > 0 || repeated) {
			break
		}
		repeated = repeated || !stale
		// Where something was sent, only a new connection is sure not to be stale too.
		if cn, err = p.another(ctx, x, h, cn, !repeated); err != nil {
			break
		}
	}
	a := x.answer // empty if there is an error
	return a, p.conclude(ctx, x, h, cn, err)
}

// CloseIdleConnections closes the connections that no request uses.
func (c *Client) CloseIdleConnections() {
	p := c.pool
	p.mu.Lock()
	var closing []*conn
	for len(p.idle.all) > 0 {
		closing = append(closing, p.dropIdle(p.idle.first))
	}
	p.mu.Unlock()
	closeAll(closing)
}

// Stats counts what is held.
func (c *Client) Stats() Stats {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	remembered := len(p.hosts.remembered)
	s := Stats{
		Hosts: len(p.hosts.all) - remembered, Remembered: remembered,
		Conns: p.pace.conns, Idle: len(p.idle.all), IdleBytes: p.idle.bytes,
		SessionBytes: p.hosts.bytes, UnderWay: p.clock.untimed, Counts: p.dialer.counts,
	}
	for x := p.clock.first; x != nil; x = x.next {
		s.UnderWay++
	}
	return s
}

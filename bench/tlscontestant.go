package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// tlsUsage is what one contestant used in one or more rounds.
type tlsUsage struct {
	usage
	handshakes
}

func (u tlsUsage) handshakesEach() float64 { return float64(u.all()) / float64(u.Deliveries) }

func (u tlsUsage) and(more tlsUsage) tlsUsage {
	u.Deliveries, u.Wall, u.CPU = u.Deliveries+more.Deliveries, u.Wall+more.Wall, u.CPU+more.CPU
	u.full, u.resumed = u.full+more.full, u.resumed+more.resumed
	return u
}

// tlsContestant is a hub or the loop. It has a sink of its own, so that no other client
// makes the handshakes that the sink counts.
type tlsContestant struct {
	on    engine // noEngine: the loop
	town  *tlsTown
	pid   int
	owed  int // deliveries so far
	n     int // deliveries in a round
	busy  *busyHub
	loop  *tlsLoopProcess
	stops []func()

	attempts string // of a hub, set by settle: "N of M", delivered attempts of all
}

func (c *tlsContestant) stop() {
	for _, stop := range c.stops {
		defer stop()
	}
}

// field starts the loop, and a hub on each engine. On an error it stops what it started.
func (b *tlsBench) field(ctx context.Context, s spread, m manner, workers int) (field []*tlsContestant, err error) {
	for _, on := range append([]engine{noEngine}, b.engines...) {
		c := &tlsContestant{on: on, n: s.callbacks()}
		field = append(field, c)
		if c.town, err = b.startTLSTown(ctx, s.hosts, m); err == nil {
			c.stops = append(c.stops, c.town.stop)
			if on == noEngine {
				err = c.startLoop(ctx, b, s, workers)
			} else {
				err = c.startHub(ctx, b, s)
			}
		}
		if err != nil {
			stopAll(field)
			return nil, err
		}
	}
	return field, nil
}

func stopAll(field []*tlsContestant) {
	for _, c := range field {
		c.stop()
	}
}

func (c *tlsContestant) startLoop(ctx context.Context, b *tlsBench, s spread, workers int) (err error) {
	if c.loop, err = b.startTLSLoop(ctx, c.town, s, workers); err == nil {
		c.pid, c.stops = c.loop.pid, append(c.stops, c.loop.stop)
	}
	return err
}

// startHub starts a hub that has all subscriptions, and no connection yet.
func (c *tlsContestant) startHub(ctx context.Context, b *tlsBench, s spread) error {
	return c.startHubWith(ctx, b, func(topic string) people {
		return group(c.n, topic, func(i int) string { return c.town.callback(s.hosts, i) })
	})
}

func (c *tlsContestant) startHubWith(ctx context.Context, b *tlsBench, living func(topic string) people) error {
	store, err := b.newStore(ctx, c.on)
	if err != nil {
		return err
	}
	c.stops = append(c.stops, store.remove)
	own := *b.env // a busyHub finds its sink and the number of its callbacks there
	own.town, own.plan.callbacks = c.town.town, c.n
	topic := own.town.topic("tls")
	who := living(topic)
	if err := own.moveIn(ctx, store, who); err != nil {
		return err
	}
	h, err := startHubIn(ctx, []string{"SSL_CERT_FILE=" + filepath.Join(b.authority, rootFile)}, b.binary, store.flag())
	if err != nil {
		return err
	}
	c.pid, c.stops = h.pid, append(c.stops, h.kill)
	c.busy = &busyHub{env: &own, hub: h, store: store, topic: topic, one: h.publication(topic, content(b.plan.bodyBytes))}
	_, err = h.awaitSubscriptions(ctx, who.n)
	return err
}

// round posts once to each callback.
func (c *tlsContestant) round(ctx context.Context, settle time.Duration) (u tlsUsage, err error) {
	c.owed += c.n
	return c.measure(ctx, settle, c.n, func() (time.Duration, error) {
		if c.loop != nil {
			u, err := c.loop.round()
			return u.Wall, err
		}
		begin := time.Now()
		err := c.busy.deliver(ctx, 1)
		return time.Since(begin), err
	})
}

// measure returns what the contestant uses while do runs, and in the time to settle after
// it: then a hub saves positions, and connections that nobody waits for are opened.
func (c *tlsContestant) measure(ctx context.Context, settle time.Duration, n int, do func() (time.Duration, error)) (u tlsUsage, err error) {
	cpu, err := processCPU(c.pid)
	if err != nil {
		return u, err
	}
	before, err := c.town.handshakes()
	if err != nil {
		return u, err
	}
	u.Deliveries = n
	if u.Wall, err = do(); err != nil {
		return u, err
	}
	if err := pause(ctx, settle); err != nil {
		return u, err
	}
	after, err := c.town.handshakes()
	if err != nil {
		return u, err
	}
	u.handshakes = after.since(before)
	u.CPU, err = processCPU(c.pid)
	u.CPU -= cpu
	return u, err
}

// settle requires that every delivery arrived, and arrived once. A failed attempt excuses
// one repetition; settle counts failed attempts.
func (b *tlsBench) settle(ctx context.Context, c *tlsContestant) error {
	if err := c.town.quiet(ctx, b.plan.tlsSettle); err != nil {
		return err
	}
	count, err := c.town.count()
	if err != nil {
		return err
	}
	failed := 0
	if c.busy != nil {
		classes, err := c.busy.hub.awaitDelivered(ctx, c.owed)
		if err != nil {
			return err
		}
		for class, n := range classes {
			if class != classDelivered {
				failed += int(n)
			}
		}
		c.attempts = fmt.Sprintf("%.0f of %d", classes[classDelivered], c.owed+failed)
		b.failed[c.on] += failed
	}
	if more := int(count) - c.owed; more < 0 || more > failed {
		return fmt.Errorf("the sink counted %d requests, not %d; %d attempts failed", count, c.owed, failed)
	}
	return nil
}

// tlsRounds are the first round, and those after the second, by round and contestant. The
// second one warms up and does not count.
type tlsRounds struct{ first, later [][]tlsUsage }

func (b *tlsBench) runTLS(ctx context.Context, field []*tlsContestant, m manner) (r tlsRounds, err error) {
	for i := range 2 + b.plan.tlsRounds {
		round := make([]tlsUsage, len(field))
		for j := range field {
			k := j
			if i >= 2 {
				k = (i + j) % len(field) // another order each time
			}
			if m.closeAfter > 0 {
				if err := b.awaitClosed(ctx, field[k]); err != nil {
					return r, err
				}
			}
			if round[k], err = field[k].round(ctx, b.plan.tlsSettle); err != nil {
				return r, err
			}
		}
		switch i {
		case 0:
			r.first = append(r.first, round)
		case 1:
		default:
			r.later = append(r.later, round)
		}
	}
	for _, c := range field {
		if err := b.settle(ctx, c); err != nil {
			return r, err
		}
	}
	return r, nil
}

// awaitClosed waits until the sink has closed all connections and the client has noticed.
func (b *tlsBench) awaitClosed(ctx context.Context, c *tlsContestant) error {
	if err := c.town.closed(ctx); err != nil {
		return err
	}
	return pause(ctx, b.plan.closePause)
}

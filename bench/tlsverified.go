package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// verified measures verifications over TLS, and the first delivery after each.
func (b *tlsBench) verified(ctx context.Context) error {
	n := 3000 / b.plan.hostShare
	b.report.note("%d hosts × 1 subscribe, %d at a time: the hub looks at the topic (over plain HTTP), verifies the callback, and then delivers a first notification to each.", n, b.plan.writers)
	var rows [][]string
	for _, on := range b.engines {
		b.log("on %s: %d hosts are verified", on, n)
		c := &tlsContestant{on: on, n: n}
		row, err := b.verify(ctx, c)
		c.stop()
		if err != nil {
			return fmt.Errorf("verification on %s: %w", on, err)
		}
		rows = append(rows, row)
	}
	b.report.table([]string{
		"hub on", "attempts delivered", "verified within", "CPU for each verification", "handshakes each (full + resumed)",
		"delivered within", "CPU for each delivery", "handshakes each (full + resumed)", "handshakes for each host",
	}, rows)
	return nil
}

func (b *tlsBench) verify(ctx context.Context, c *tlsContestant) (row []string, err error) {
	if c.town, err = b.startTLSTown(ctx, c.n, manner{}); err != nil {
		return nil, err
	}
	c.stops = append(c.stops, c.town.stop)
	if err := c.startHubWith(ctx, b, func(topic string) people { return group(0, topic, nil) }); err != nil {
		return nil, err
	}
	verified, err := c.measure(ctx, b.plan.tlsSettle, c.n, func() (time.Duration, error) {
		begin := time.Now()
		var group errgroup.Group
		group.SetLimit(b.plan.writers)
		for i := range c.n {
			group.Go(func() error { return c.busy.hub.subscribe(c.busy.topic, c.town.callback(c.n, i)) })
		}
		if err := group.Wait(); err != nil {
			return 0, err
		}
		_, err := c.busy.hub.awaitSubscriptions(ctx, c.n)
		return time.Since(begin), err
	})
	if err != nil {
		return nil, err
	}
	delivered, err := c.round(ctx, b.plan.tlsSettle)
	if err != nil {
		return nil, err
	}
	if err := b.settle(ctx, c); err != nil {
		return nil, err
	}
	each := float64(verified.all()+delivered.all()) / float64(c.n)
	b.report.put(goalTLSVerified, c.on, each)
	row = []string{c.on.String(), c.attempts}
	for _, u := range []tlsUsage{verified, delivered} {
		row = append(row, seconds(u.Wall), fmt.Sprintf("%.0f µs", u.cpuEach()/1000), fmt.Sprintf("%.3f (%d + %d)", u.handshakesEach(), u.full, u.resumed))
	}
	return append(row, fmt.Sprintf("%.3f", each)), nil
}

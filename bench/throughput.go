package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// The figures of this scenario.
var (
	goalSpeed     = atLeast(2, "deliveries/s ÷ net/http loop", "")
	goalSpeedFast = atLeast(0.75, "deliveries/s ÷ fasthttp loop", "")
	goalCPU       = atMost(0.45, "CPU per delivery ÷ CPU per request of the net/http loop", "")
)

// contestant runs one round of its own.
type contestant struct {
	name  string
	on    engine // noEngine: a bare loop
	round func(context.Context) (usage, error)
}

// throughput measures deliveries per second and what each costs: the hubs beside
// the bare loops, in rounds that run each of them once.
func throughput(ctx context.Context, e *env) error {
	total := e.plan.callbacks * e.plan.publications
	field := []contestant{
		{roleNetHTTP, noEngine, func(ctx context.Context) (usage, error) {
			return e.runLoop(ctx, roleNetHTTP, total/e.plan.loopShare)
		}},
		{roleFastHTTP, noEngine, func(ctx context.Context) (usage, error) { return e.runLoop(ctx, roleFastHTTP, total) }},
	}
	var redis *busyHub
	var hubs []*busyHub
	for _, on := range e.engines {
		s, err := e.newStore(ctx, on)
		if err != nil {
			return err
		}
		defer s.remove()
		b, err := e.startBusy(ctx, s)
		if err != nil {
			return fmt.Errorf("on %s: %w", on, err)
		}
		defer b.hub.stop()
		stopProfile, err := e.startProfile(ctx, "hub-"+string(on), b.hub.pid)
		if err != nil {
			return err
		}
		defer stopProfile()
		if on == onRedis {
			redis = b
		}
		hubs = append(hubs, b)
		field = append(field, contestant{"hub, " + on.String(), on, b.round})
	}
	before, err := e.town.count()
	if err != nil {
		return err
	}
	rounds, err := e.runRounds(ctx, field)
	if err != nil {
		return err
	}
	if err := e.settled(ctx, before, rounds, hubs); err != nil {
		return err
	}
	e.reportThroughput(field, rounds, redis)
	return nil
}

func (e *env) runRounds(ctx context.Context, field []contestant) (rounds []map[string]usage, err error) {
	for i := range e.plan.rounds {
		e.log("round %d of %d", i+1, e.plan.rounds)
		round := map[string]usage{}
		for j := range field {
			c := field[(i+j)%len(field)] // another order each time
			if round[c.name], err = c.round(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// settled requires that all that was owed was delivered, and nothing twice.
func (e *env) settled(ctx context.Context, before int64, rounds []map[string]usage, hubs []*busyHub) error {
	if err := e.town.quiet(ctx, time.Second); err != nil {
		return err
	}
	count, err := e.town.count()
	if err != nil {
		return err
	}
	owed := int64(0)
	for _, round := range rounds {
		for _, u := range round {
			owed += int64(u.Deliveries)
		}
	}
	if count-before != owed {
		return fmt.Errorf("the sink counted %d requests in these rounds, not %d", count-before, owed)
	}
	for _, b := range hubs {
		classes, err := b.hub.attempts()
		if err != nil {
			return err
		}
		for class, n := range classes {
			if owed := b.owed; class == classDelivered && int(n) != owed || class != classDelivered && n > 0 {
				return fmt.Errorf("the hub counted %.0f attempts of class %q, and had %d deliveries to make", n, class, owed)
			}
		}
	}
	return nil
}

// busyHub is a hub with many subscriptions to one topic.
type busyHub struct {
	*env
	hub    *hub
	store  *store
	topic  string
	one    *publication
	owed   int     // deliveries so far
	atRest float64 // commands a second of a Redis whose hub has nothing to do
}

// startBusy starts one, and publishes a first notification, which opens the connections.
func (e *env) startBusy(ctx context.Context, s *store) (*busyHub, error) {
	topic := e.town.topic("busy")
	err := e.moveIn(ctx, s, group(e.plan.callbacks, topic, func(i int) string { return e.town.callback(0, pathCallback, i) }))
	if err != nil {
		return nil, err
	}
	h, err := startHub(ctx, e.binary, s.flag())
	if err != nil {
		return nil, err
	}
	b := &busyHub{env: e, hub: h, store: s, topic: topic, one: h.publication(topic, content(e.plan.bodyBytes))}
	if err := b.warmUp(ctx); err != nil {
		h.stop()
		return nil, err
	}
	return b, nil
}

func (b *busyHub) warmUp(ctx context.Context) error {
	if _, err := b.hub.awaitSubscriptions(ctx, b.plan.callbacks); err != nil {
		return err
	}
	if err := b.deliver(ctx, 1); err != nil {
		return err
	}
	if err := b.check(ctx); err != nil {
		return fmt.Errorf("the round that is checked: %w", err)
	}
	if b.store.redis == nil {
		return nil
	}
	b.log("watching the hub on Redis at rest for %s", b.plan.rest)
	err := pause(ctx, b.plan.rest/5) // the positions of the first deliveries are saved
	if err != nil {
		return err
	}
	b.atRest, err = b.store.redis.watchAtRest(ctx, b.plan.rest)
	return err
}

// check delivers some notifications while the sink looks at each.
func (b *busyHub) check(ctx context.Context) error {
	before, err := b.town.count()
	if err != nil {
		return err
	}
	if err := b.town.check(); err != nil {
		return err
	}
	for i := range b.plan.checked { // one after another: so their order is known
		body := append(stamp(nil, time.Now(), i), content(b.plan.bodyBytes)...)[:b.plan.bodyBytes]
		if _, err := b.hub.publication(b.topic, body).send(); err != nil {
			return err
		}
	}
	n := b.plan.callbacks * b.plan.checked
	b.owed += n
	if err := b.town.await(ctx, before+int64(n)); err != nil {
		return err
	}
	if err := b.town.quiet(ctx, b.plan.rest/5); err != nil { // until then nothing comes twice
		return err
	}
	return b.town.checked(b.plan.callbacks, b.plan.checked)
}

// deliver publishes so many notifications at once, and returns when the last
// delivery has arrived.
func (b *busyHub) deliver(ctx context.Context, publications int) error {
	before, err := b.town.count()
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(b.plan.publishers)
	for range publications {
		group.Go(func() error {
			_, err := b.one.send()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	b.owed += b.plan.callbacks * publications
	return b.town.await(ctx, before+int64(b.plan.callbacks*publications))
}

// round delivers the notifications of a round and tells what that took.
func (b *busyHub) round(ctx context.Context) (usage, error) {
	commands, asked := int64(0), time.Now()
	cpu, err := b.hub.cpu()
	if err == nil && b.store.redis != nil {
		commands, err = b.store.redis.commands(ctx)
	}
	if err != nil {
		return usage{}, err
	}
	begin := time.Now()
	if err := b.deliver(ctx, b.plan.publications); err != nil {
		return usage{}, err
	}
	u := usage{Deliveries: b.plan.callbacks * b.plan.publications, Wall: time.Since(begin)}
	// The last positions are saved a flush interval later: that is work for these deliveries, too.
	if err := pause(ctx, time.Second); err != nil {
		return usage{}, err
	}
	after, err := b.hub.cpu()
	if u.CPU = after - cpu; err != nil || b.store.redis == nil {
		return u, err
	}
	all, err := b.store.redis.commands(ctx)
	u.Commands = float64(all-commands) - b.atRest*time.Since(asked).Seconds()
	return u, err
}

// reportThroughput reports the median of each figure, and the median of the
// ratios that each round gives by itself: what was slow in a round was slow for all.
func (e *env) reportThroughput(field []contestant, rounds []map[string]usage, redis *busyHub) {
	e.report.section("Deliveries per second, and CPU for each")
	e.report.note("%d callbacks on one host, %d bytes, %d rounds of %d deliveries (of the net/http loop: %d), medians. Hub: durable, in order, signed with sha256. "+
		"The loops: %d connections, nothing but the POST. All run with Go's defaults (so a loop, whose heap is small, collects often); every round has another order. "+
		"Checked: before the rounds %d notifications to every callback of each hub, none lost, doubled, out of order or badly signed; "+
		"after them the sink has counted exactly what was owed, and so has each hub, without a failed attempt.",
		e.plan.callbacks, e.plan.bodyBytes, e.plan.rounds, e.plan.callbacks*e.plan.publications,
		e.plan.callbacks*e.plan.publications/e.plan.loopShare, e.plan.connections, e.plan.checked)
	var rows [][]string
	for _, c := range field {
		speed := func(to string) float64 {
			return median(rounds, func(r map[string]usage) float64 { return r[c.name].perSecond() / r[to].perSecond() })
		}
		cost := func(to string) float64 {
			return median(rounds, func(r map[string]usage) float64 { return r[c.name].cpuEach() / r[to].cpuEach() })
		}
		rows = append(rows, []string{
			c.name,
			fmt.Sprintf("%.0f", median(rounds, func(r map[string]usage) float64 { return r[c.name].perSecond() })),
			fmt.Sprintf("%.2f", speed(roleNetHTTP)), fmt.Sprintf("%.2f", speed(roleFastHTTP)),
			fmt.Sprintf("%.1f µs", median(rounds, func(r map[string]usage) float64 { return r[c.name].cpuEach() })/1000),
			fmt.Sprintf("%.2f", cost(roleNetHTTP)), fmt.Sprintf("%.2f", cost(roleFastHTTP)),
		})
		if c.on != noEngine {
			e.report.put(goalSpeed, c.on, speed(roleNetHTTP))
			e.report.put(goalSpeedFast, c.on, speed(roleFastHTTP))
			e.report.put(goalCPU, c.on, cost(roleNetHTTP))
		}
	}
	e.report.table([]string{"contestant", "deliveries/s", "÷ net/http", "÷ fasthttp", "CPU each", "÷ net/http", "÷ fasthttp"}, rows)
	if redis != nil {
		e.report.note("Redis (AOF, appendfsync always): %.4f commands for each delivery, publishing included; at rest the leases take %.0f a second.",
			median(rounds, func(r map[string]usage) float64 { return r["hub, Redis"].commandsEach() }), redis.atRest)
	}
}

package main

import (
	"context"
	"fmt"
	"time"
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
		{roleNetHTTP, noEngine, e.loopOf(roleNetHTTP, total/e.plan.loopShare)},
		{roleFastHTTP, noEngine, e.loopOf(roleFastHTTP, total)},
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
		if on == onRedis {
			redis = b
		}
		hubs = append(hubs, b)
		field = append(field, contestant{"hub, " + on.String(), on, b.measured})
	}
	before, err := e.town.counted()
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

// loopOf is a round of a bare loop, in a process of its own.
func (e *env) loopOf(role string, requests int) func(context.Context) (usage, error) {
	return func(ctx context.Context) (usage, error) {
		l, err := startLoop(ctx, child{
			Role: role, Target: e.town.hosts[0], Requests: requests, Callbacks: e.plan.callbacks,
			Connections: e.plan.connections, BodyBytes: e.plan.bodyBytes,
		})
		if err != nil {
			return usage{}, err
		}
		defer l.stop()
		return l.again()
	}
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
	count, err := e.town.counted()
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
		delivered, failed, err := b.hub.attempts()
		if err != nil {
			return err
		}
		if delivered != b.owed || failed > 0 {
			return fmt.Errorf("the hub counted %d deliveries and %d failed attempts, and had %d deliveries to make",
				delivered, failed, b.owed)
		}
	}
	return nil
}

// reportThroughput reports the median of each figure, and the median of the ratios that each round
// gives by itself: a slow round was slow for all.
func (e *env) reportThroughput(field []contestant, rounds []map[string]usage, redis *busyHub) {
	e.report.section("Deliveries per second, and CPU for each")
	e.report.note("%d callbacks on one host, %d bytes, %d rounds of %d deliveries (of the net/http loop: %d), medians. Hub: durable, in order, signed with sha256. "+
		"The loops: %d connections, nothing but the POST. All run with Go's defaults (so a loop, whose heap is small, collects often). Every round has another order. "+
		"Checked: before the rounds %d notifications to every callback of each hub, none lost, doubled, out of order or badly signed. "+
		"After them the sink and each hub have counted exactly the owed deliveries, without a failed attempt.",
		e.plan.callbacks, e.plan.bodyBytes, e.plan.rounds, e.plan.callbacks*e.plan.publications,
		e.plan.callbacks*e.plan.publications/e.plan.loopShare, e.plan.connections, e.plan.checked)
	var rows [][]string
	for _, c := range field {
		of := func(figure func(usage) float64, to string) float64 {
			return median(rounds, func(r map[string]usage) float64 {
				if to == "" {
					return figure(r[c.name])
				}
				return figure(r[c.name]) / figure(r[to])
			})
		}
		speed, cpu := of(usage.perSecond, roleNetHTTP), of(usage.cpuEach, roleNetHTTP)
		fast := of(usage.perSecond, roleFastHTTP)
		rows = append(rows, cells("%s|%.0f|%.2f|%.2f|%.1f µs|%.2f|%.2f", c.name, of(usage.perSecond, ""),
			speed, fast, of(usage.cpuEach, "")/1000, cpu, of(usage.cpuEach, roleFastHTTP)))
		if c.on != noEngine {
			e.report.put(goalSpeed, c.on, speed)
			e.report.put(goalSpeedFast, c.on, fast)
			e.report.put(goalCPU, c.on, cpu)
		}
	}
	e.report.table(cells("contestant|deliveries/s|÷ net/http|÷ fasthttp|CPU each|÷ net/http|÷ fasthttp"), rows)
	if redis != nil {
		e.report.note("Redis (AOF, appendfsync always): %.4f commands for each delivery, publishing included; "+
			"at rest the leases take %.0f a second.",
			median(rounds, func(r map[string]usage) float64 { return r["hub, Redis"].commandsEach() }), redis.atRest)
	}
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// crowd is the callbacks of one measurement of how long healthy ones wait.
type crowd struct {
	name    string
	healthy int // how many deliveries of a publication are timed
	people  func(topic string) people
}

// waits are how long deliveries to healthy callbacks were under way, in
// milliseconds, from before the publication was sent to the arrival.
type waits struct {
	all           []float64 // of every burst
	first, steady []float64 // of the first of each round, and of all others
	failed        int       // attempts that failed, to callbacks that are not healthy
}

// crowdFlags let what hangs time out, and what fails be retried, many times in a round.
var crowdFlags = []string{"--delivery-timeout", "2s", "--retry-first", "200ms"}

// against is two figures of a crowd and the one that it is divided by: over all bursts, and
// without the first burst of each hub, which alone would decide over a p99.
type against struct {
	crowd, base    int // of the scenario's crowds
	whole, without goal
}

func goalsOf(crowd, base int, beside string) against {
	return against{
		crowd, base,
		atMost(1.2, "healthy p99: "+beside, ""),
		atMost(1.2, "healthy p99 without the first burst: "+beside, ""),
	}
}

// The figures of these scenarios. All healthy are more callbacks than the healthy ones beside the
// sick, so the waits beside the sick are also divided by those of the same healthy ones alone.
var (
	goalsSick = []against{
		goalsOf(1, 0, "10% hanging, 5% refusing, 5% answering 500 (whole hosts) ÷ all healthy"),
		goalsOf(2, 0, "each sick callback on a host of its own ÷ all healthy"),
		goalsOf(1, 3, "sick whole hosts ÷ the same healthy ones alone"),
		goalsOf(2, 3, "each sick callback on a host of its own ÷ the same healthy ones alone"),
	}
	goalsSlow = []against{goalsOf(1, 0, "one host with 30% of the callbacks takes 1 s for each ÷ without it")}
)

// sick measures how long healthy callbacks wait beside those that hang, refuse or fail.
func sick(ctx context.Context, e *env) error {
	n, hosts := e.plan.callbacks, e.plan.healthyHosts
	well := hosts * (100 - hanging - refusing - failing) / 100 // hosts that stay healthy
	healthy := n * (100 - hanging - refusing - failing) / 100
	e.report.section("Healthy callbacks beside sick ones")
	e.report.note("%d callbacks on %d hosts; %d rounds of %d publications, one every %s. Sick: %d%% hang, %d%% refuse the connection, %d%% answer 500. "+
		"Timed: from before the publication is sent to the arrival at a healthy callback. "+
		"Each line and round is a hub of its own that has just started, so the first burst also opens the connections. "+
		"`hub %s`, so that there are time-outs and retries from the beginning to the end.",
		n, hosts, e.plan.crowdRounds, e.plan.bursts, e.plan.burstEvery, hanging, refusing, failing, strings.Join(crowdFlags, " "))
	return e.neighbors(ctx, goalsSick, []crowd{
		{"all healthy", n, e.spread(n, 0, hosts)},
		{"sick: whole hosts", healthy, e.withSick(healthy, well, hosts-well)},
		{"sick: each on a host of its own", healthy, e.withSick(healthy, hosts, n-healthy)},
		{"the same healthy ones alone", healthy, e.spread(healthy, 0, hosts)},
	})
}

// withSick are healthy callbacks on the first hosts, and sick ones on so many others. All
// callbacks on a host have the same trouble.
func (e *env) withSick(healthy, well, sickHosts int) func(topic string) people {
	n := e.plan.callbacks - healthy
	return func(topic string) people {
		return e.spread(healthy, 0, well)(topic).and(group(n, topic, func(i int) string {
			host := i % sickHosts
			switch share := host * (hanging + refusing + failing) / sickHosts; {
			case share < hanging:
				return e.town.callback(well+host, pathHang, i)
			case share < hanging+refusing:
				return e.town.refusing(well+host, i)
			default:
				return e.town.callback(well+host, pathFail, i)
			}
		}))
	}
}

// slow measures how long healthy callbacks wait beside one host that is large and slow.
func slow(ctx context.Context, e *env) error {
	n, hosts := e.plan.callbacks, e.plan.healthyHosts
	healthy := n * (100 - slowing) / 100
	e.report.section("Healthy callbacks beside a slow host")
	e.report.note("%d callbacks, %d%% of them on one host that takes %s for each, the others on %d hosts. Timed as above, with the same flags, in "+
		"%d rounds of %d publications, one every %s.",
		n, slowing, slowAnswer, hosts-1, e.plan.crowdRounds, e.plan.bursts, e.plan.burstEvery)
	others := e.spread(healthy, 1, hosts)
	return e.neighbors(ctx, goalsSlow, []crowd{
		{"without that host", healthy, others},
		{"beside it", healthy, func(topic string) people {
			return others(topic).and(
				group(n-healthy, topic, func(i int) string { return e.town.callback(0, pathSlow, i) }),
			)
		}},
	})
}

// spread puts n healthy callbacks on the hosts from the one to before the other.
func (e *env) spread(n, from, to int) func(topic string) people {
	return func(topic string) people {
		return group(n, topic, func(i int) string { return e.town.callback(from+i%(to-from), pathCallback, i) })
	}
}

// neighbors measures the crowds in turn, each time with a hub of its own, and reports them.
func (e *env) neighbors(ctx context.Context, goals []against, crowds []crowd) error {
	for _, on := range e.engines {
		all := make([]waits, len(crowds))
		for round := range e.plan.crowdRounds {
			for i, c := range crowds {
				e.log("on %s, round %d: %s", on, round+1, c.name)
				err := e.with(ctx, on, func(s *store) error { return e.wait(ctx, s, c, &all[i]) })
				if err != nil {
					return fmt.Errorf("on %s: %s: %w", on, c.name, err)
				}
			}
		}
		e.reportWaits(on, crowds, all)
		for _, g := range goals {
			w, base := all[g.crowd], all[g.base]
			e.report.put(g.whole, on, quantile(w.all, 0.99)/quantile(base.all, 0.99))
			e.report.put(g.without, on, quantile(w.steady, 0.99)/quantile(base.steady, 0.99))
		}
	}
	return nil
}

func (e *env) reportWaits(on engine, crowds []crowd, all []waits) {
	var rows [][]string
	for i, w := range all {
		row := cells("%s|%s", crowds[i].name, ms(quantile(w.all, 0.5)))
		for _, column := range []struct{ of, base []float64 }{
			{w.all, all[0].all}, {w.steady, all[0].steady}, {w.first, all[0].first},
		} {
			figure := quantile(column.of, 0.99)
			row = append(row, ms(figure), fmt.Sprintf("%.2f", figure/quantile(column.base, 0.99)))
		}
		rows = append(rows, append(row, fmt.Sprint(len(w.all)), fmt.Sprint(w.failed)))
	}
	e.report.table(cells("%s: healthy callbacks|p50|p99|÷ the first line|p99 without the first bursts|÷ the first line|"+
		"p99 of the first bursts|÷ the first line|deliveries timed|attempts failed", on), rows)
}

// wait measures one crowd, and adds to what was measured of it.
func (e *env) wait(ctx context.Context, s *store, c crowd, w *waits) error {
	topic := e.town.topic("crowd")
	b, err := e.newBusy(ctx, s, topic, c.people(topic), crowdFlags...)
	if err != nil {
		return err
	}
	h := b.hub
	defer h.kill() // callbacks that hang would hold up its end
	if err := e.warmTopic(ctx, h); err != nil {
		return err
	}
	if _, err := e.town.ways(); err != nil { // forgets what came before
		return err
	}
	before, err := e.town.counted()
	if err != nil {
		return err
	}
	if err := e.bursts(ctx, h, topic); err != nil {
		return err
	}
	if err := e.town.await(ctx, before+int64(c.healthy*e.plan.bursts)); err != nil {
		return err
	}
	_, failed, err := h.attempts()
	if err != nil {
		return err
	}
	w.failed += failed
	return w.gather(e.town, c.healthy, e.plan.bursts)
}

// warmTopic has the hub know the publisher: a publication to a topic without subscribers.
func (e *env) warmTopic(ctx context.Context, h *hub) error {
	if _, err := h.publication(e.town.topic("nobody"), []byte("x")).send(); err != nil {
		return err
	}
	return pause(ctx, 100*time.Millisecond)
}

// bursts publishes in a steady rhythm.
func (e *env) bursts(ctx context.Context, h *hub, topic string) error {
	begin := time.Now()
	for i := range e.plan.bursts {
		if err := pause(ctx, time.Until(begin.Add(time.Duration(i)*e.plan.burstEvery))); err != nil {
			return err
		}
		if _, err := h.publication(topic, stamped(time.Now(), i, e.plan.bodyBytes)).send(); err != nil {
			return err
		}
	}
	return nil
}

// gather adds what the sink has timed.
func (w *waits) gather(t *town, healthy, bursts int) error {
	ways, err := t.ways()
	if err != nil {
		return err
	}
	each := make([][]float64, bursts)
	for _, way := range ways {
		if way.Burst < 0 || int(way.Burst) >= bursts {
			return fmt.Errorf("the sink timed a publication %d that there was not", way.Burst)
		}
		each[way.Burst] = append(each[way.Burst], millis(time.Duration(way.Took)))
	}
	for i, burst := range each {
		if len(burst) < healthy {
			return fmt.Errorf("the sink timed %d deliveries of burst %d, not %d", len(burst), i+1, healthy)
		}
		w.all = append(w.all, burst...)
	}
	w.first = append(w.first, each[0]...)
	w.steady = append(w.steady, slices.Concat(each[1:]...)...)
	return nil
}

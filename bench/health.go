package main

import (
	"context"
	"fmt"
	"slices"
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
	failed        float64   // attempts that failed, to callbacks that are not healthy
}

// crowdFlags let what hangs time out, and what fails be retried, many times in a round.
var crowdFlags = []string{"--delivery-timeout", "2s", "--retry-first", "200ms"}

// goalsOfHealthy are two figures: over all bursts, and without the first of each
// hub, which alone would decide over a p99.
func goalsOfHealthy(beside string) [2]goal {
	return [2]goal{atMost(1.2, "healthy p99: "+beside, ""), atMost(1.2, "healthy p99 without the first burst: "+beside, "")}
}

func (e *env) putHealthy(goals [2]goal, on engine, w, base waits) {
	e.report.put(goals[0], on, quantile(w.all, 0.99)/quantile(base.all, 0.99))
	e.report.put(goals[1], on, quantile(w.steady, 0.99)/quantile(base.steady, 0.99))
}

// healthy measures the crowds in turn, each time with a hub of its own, and
// reports them beside the first.
func (e *env) healthy(ctx context.Context, crowds []crowd) (waited map[engine][]waits, err error) {
	waited = map[engine][]waits{}
	for _, on := range e.engines {
		all := make([]waits, len(crowds))
		for round := range e.plan.crowdRounds {
			for i, c := range crowds {
				e.log("on %s, round %d: %s", on, round+1, c.name)
				err := e.with(ctx, on, func(_ engine, s *store) error { return e.wait(ctx, s, c, &all[i]) })
				if err != nil {
					return nil, fmt.Errorf("on %s: %s: %w", on, c.name, err)
				}
			}
		}
		e.reportWaits(on, crowds, all)
		waited[on] = all
	}
	return waited, nil
}

func (e *env) reportWaits(on engine, crowds []crowd, all []waits) {
	var rows [][]string
	for i, w := range all {
		row := []string{crowds[i].name, ms(quantile(w.all, 0.5))}
		for _, column := range []struct{ of, base []float64 }{{w.all, all[0].all}, {w.steady, all[0].steady}, {w.first, all[0].first}} {
			figure := quantile(column.of, 0.99)
			row = append(row, ms(figure), fmt.Sprintf("%.2f", figure/quantile(column.base, 0.99)))
		}
		rows = append(rows, append(row, fmt.Sprint(len(w.all)), fmt.Sprintf("%.0f", w.failed)))
	}
	e.report.table([]string{
		on.String() + ": healthy callbacks", "p50", "p99", "÷ the first line", "p99 without the first bursts", "÷ the first line",
		"p99 of the first bursts", "÷ the first line", "deliveries timed", "attempts failed",
	}, rows)
}

// wait measures one crowd, and adds to what was measured of it.
func (e *env) wait(ctx context.Context, s *store, c crowd, w *waits) error {
	topic := e.town.topic("crowd")
	people := c.people(topic)
	if err := e.moveIn(ctx, s, people); err != nil {
		return err
	}
	h, err := startHub(ctx, e.binary, s.flag(), crowdFlags...)
	if err != nil {
		return err
	}
	defer h.kill() // what hangs would hold up its end
	if _, err := h.awaitSubscriptions(ctx, people.n); err != nil {
		return err
	}
	if err := e.warmTopic(ctx, h); err != nil {
		return err
	}
	if _, err := e.town.ways(); err != nil { // forgets what came before
		return err
	}
	before, err := e.town.count()
	if err != nil {
		return err
	}
	if err := e.bursts(ctx, h, topic); err != nil {
		return err
	}
	if err := e.town.await(ctx, before+int64(c.healthy*e.plan.bursts)); err != nil {
		return err
	}
	classes, err := h.attempts()
	if err != nil {
		return err
	}
	for class, n := range classes {
		if class != classDelivered {
			w.failed += n
		}
	}
	return w.take(e.town, c.healthy, e.plan.bursts)
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
	padding := content(e.plan.bodyBytes)
	begin := time.Now()
	for i := range e.plan.bursts {
		if err := pause(ctx, time.Until(begin.Add(time.Duration(i)*e.plan.burstEvery))); err != nil {
			return err
		}
		body := append(stamp(nil, time.Now(), i), padding...)[:e.plan.bodyBytes]
		if _, err := h.publication(topic, body).send(); err != nil {
			return err
		}
	}
	return nil
}

// take adds what the sink has timed.
func (w *waits) take(t *town, healthy, bursts int) error {
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

// spread puts n healthy callbacks on the hosts from the one to before the other.
func (e *env) spread(n, from, to int) func(topic string) people {
	return func(topic string) people {
		return group(n, topic, func(i int) string { return e.town.callback(from+i%(to-from), pathCallback, i) })
	}
}

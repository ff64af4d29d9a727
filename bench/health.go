package main

import (
	"bytes"
	"context"
	"fmt"
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
	crowd
	all, first []float64 // of every burst, and of the first
}

// healthy measures the crowds one after the other, each with a hub of its own,
// and reports them; the first is what the others are divided by.
func (e *env) healthy(ctx context.Context, crowds []crowd) (ratios map[engine][]float64, err error) {
	ratios = map[engine][]float64{}
	for _, on := range e.engines {
		var all []waits
		for _, c := range crowds {
			e.log("on %s: %s", on, c.name)
			err := e.with(ctx, on, func(_ engine, s *store) error {
				w, err := e.wait(ctx, s, c)
				all = append(all, w)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("on %s: %s: %w", on, c.name, err)
			}
		}
		var rows [][]string
		for _, w := range all {
			ratio := quantile(w.all, 0.99) / quantile(all[0].all, 0.99)
			ratios[on] = append(ratios[on], ratio)
			rows = append(rows, []string{
				w.name, ms(quantile(w.all, 0.5)), ms(quantile(w.all, 0.99)), fmt.Sprintf("%.2f", ratio),
				ms(quantile(w.first, 0.99)), fmt.Sprintf("%.2f", quantile(w.first, 0.99)/quantile(all[0].first, 0.99)),
				fmt.Sprint(len(w.all)),
			})
		}
		e.report.table([]string{on.String() + ": healthy callbacks", "p50", "p99", "÷ the first line", "first burst alone, p99", "÷ the first line", "deliveries timed"}, rows)
	}
	return ratios, nil
}

// wait measures one crowd.
func (e *env) wait(ctx context.Context, s *store, c crowd) (w waits, err error) {
	w.crowd = c
	topic := e.town.topic("crowd")
	people := c.people(topic)
	if err := e.moveIn(ctx, s, people); err != nil {
		return w, err
	}
	h, err := startHub(ctx, e.binary, s.flag())
	if err != nil {
		return w, err
	}
	defer h.kill() // what hangs would hold up its end
	if _, err := h.awaitSubscriptions(ctx, people.n); err != nil {
		return w, err
	}
	if err := e.warmTopic(ctx, h); err != nil {
		return w, err
	}
	if _, err := e.town.ways(); err != nil { // forgets what came before
		return w, err
	}
	before, err := e.town.count()
	if err != nil {
		return w, err
	}
	if err := e.bursts(ctx, h, topic); err != nil {
		return w, err
	}
	if err := e.town.await(ctx, before+int64(c.healthy*e.plan.bursts)); err != nil {
		return w, err
	}
	return w, w.take(e.town)
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
	padding := bytes.Repeat([]byte("x"), e.plan.bodyBytes)
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

func (w *waits) take(t *town) error {
	ways, err := t.ways()
	if err != nil {
		return err
	}
	for _, way := range ways {
		took := millis(time.Duration(way.Took))
		w.all = append(w.all, took)
		if way.Burst == 0 {
			w.first = append(w.first, took)
		}
	}
	if len(w.first) < w.healthy {
		return fmt.Errorf("the sink timed %d deliveries of the first burst, not %d", len(w.first), w.healthy)
	}
	return nil
}

// spread puts n healthy callbacks on the hosts from the one to before the other.
func (e *env) spread(n, from, to int) func(topic string) people {
	return func(topic string) people {
		return group(n, topic, func(i int) string { return e.town.callback(from+i%(to-from), pathCallback, i) })
	}
}

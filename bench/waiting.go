package main

import (
	"context"
	"fmt"
	"time"
)

// How long publishers wait: the other figures of the scenario million.
var (
	goalQuiet = atMost(
		1.3, "publish answered, p99, nothing being delivered: 1,000,000 subscriptions ÷ 1 in a hub of its own", "",
	)
	goalLoaded = atMost(
		1.3, "publish answered, p99, while deliveries run: 1,000,000 subscriptions ÷ 1 in the same busy hub", "",
	)
	goalLoadedOwn = atMost(
		1.3,
		"publish answered, p99, while deliveries run: 1,000,000 subscriptions ÷ 1 in an idle hub of its own",
		"",
	)
)

// pauseBetween lets what a publication sets off come to rest before the next, so
// that a topic with one subscription does not pay for the other.
const pauseBetween = 10 * time.Millisecond

// publishing measures how long publishers wait for their answers, beside a topic
// with one subscription in the same hub, and one in a hub that has no other.
func (m *millionHub) publishing(ctx context.Context) error {
	return m.with(ctx, m.on, func(s *store) error {
		topic := m.town.topic("alone")
		err := m.moveIn(ctx, s, group(1, topic, func(int) string { return m.town.callback(0, pathCallback, 1) }))
		if err != nil {
			return err
		}
		h, err := m.startHub(ctx, s)
		if err != nil {
			return err
		}
		defer h.stop()
		if _, err := h.awaitSubscriptions(ctx, 1); err != nil {
			return err
		}
		return m.publishingTo(ctx, [3]*publication{
			m.publication(m.many), m.publication(m.one), h.publication(topic, content(m.plan.bodyBytes)),
		})
	})
}

func (m *millionHub) publishingTo(ctx context.Context, to [3]*publication) error {
	for _, p := range to { // opens the connections, checks the topics
		if _, err := p.send(); err != nil {
			return err
		}
	}
	m.log("on %s: publishing while the callbacks hang", m.on)
	if err := m.town.order("/hold"); err != nil {
		return err
	}
	quiet, err := inTurn(ctx, to, m.plan.quiet, pauseBetween)
	if err := m.town.order("/release"); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	m.log("on %s: publishing while deliveries run", m.on)
	before, err := m.town.counted()
	if err != nil {
		return err
	}
	begin := time.Now()
	loaded, err := inTurn(ctx, to, m.plan.loaded, m.plan.loadedEvery)
	if err != nil {
		return err
	}
	after, err := m.town.counted()
	if err != nil {
		return err
	}
	m.reportWaiting(quiet, loaded, float64(after-before)/time.Since(begin).Seconds())
	return nil
}

func (m *millionHub) reportWaiting(quiet, loaded answered, speed float64) {
	m.report.put(goalQuiet, m.on, quiet.ratio(atAlone, 0.99))
	m.report.put(goalLoaded, m.on, loaded.ratio(atOne, 0.99))
	m.report.put(goalLoadedOwn, m.on, loaded.ratio(atAlone, 0.99))
	hang := fmt.Sprintf("all callbacks hang (%d each, in turn)", len(quiet[atMany]))
	run := fmt.Sprintf("%.0f deliveries/s run (%d each, in turn)", speed, len(loaded[atMany]))
	m.report.table(cells(
		"%s: publish answered|÷ one subscription|many, p50|one, p50|÷|many, p99|one, p99|÷", m.on,
	), [][]string{
		quiet.line(atAlone, hang, "in a hub of its own"),
		quiet.line(atOne, hang, "in the same hub"),
		loaded.line(atAlone, run, "in an idle hub of its own"),
		loaded.line(atOne, run, "in the same busy hub"),
	})
}

// answered is how long publishers waited, in milliseconds, at each of three topics.
type answered [3][]float64

const (
	atMany  = iota // subscriptions
	atOne          // in the same hub
	atAlone        // in a hub of its own
)

// publishWithin ends a measurement on a machine that is too slow for all of it.
const publishWithin = time.Minute

// inTurn publishes to the topics in turn, and begins with another each time.
func inTurn(ctx context.Context, to [3]*publication, n int, between time.Duration) (a answered, err error) {
	for i, begin := 0, time.Now(); i < n && time.Since(begin) < publishWithin; i++ {
		for j := range to {
			topic := (i + j) % len(to)
			took, err := to[topic].send()
			if err != nil {
				return a, err
			}
			a[topic] = append(a[topic], millis(took))
			if err := pause(ctx, between); err != nil {
				return a, err
			}
		}
	}
	return a, nil
}

func (a answered) ratio(base int, q float64) float64 {
	return quantile(a[atMany], q) / quantile(a[base], q)
}

func (a answered) line(base int, cells ...string) []string {
	for _, q := range []float64{0.5, 0.99} {
		cells = append(
			cells, ms(quantile(a[atMany], q)), ms(quantile(a[base], q)), fmt.Sprintf("%.2f", a.ratio(base, q)),
		)
	}
	return cells
}

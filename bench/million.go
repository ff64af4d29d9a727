package main

import (
	"context"
	"fmt"
	"time"
)

// The figures of this scenario.
var (
	goalMemory = atMost(350, "memory of an idle subscription at 1,000,000, RSS", " B")
	goalWorked = atMost(350, "the same after one notification to each of them", " B")
	goalReady  = atMost(5, "ready after a restart with 1,000,000 subscriptions", " s")
)

// millionHosts is how many hosts the callbacks of the million are on, at most.
const millionHosts = 100

// million has a topic with a million subscriptions, and one with a single one, in one hub. It measures
// their memory, the time of a restart, and the effect on publishers.
func million(ctx context.Context, e *env) error {
	e.report.section(fmt.Sprintf("%d subscriptions", e.plan.subscriptions))
	e.report.note("One topic with %d callbacks on %d hosts, each with a secret of its own, and in the same hub "+
		"one with a single callback. For publishing, also one with a single callback in a hub of its own, "+
		"on a store of its own on this machine.", e.plan.subscriptions, e.millionHosts())
	return e.onEach(ctx, func(on engine, s *store) error {
		e.log("on %s: the memory of a hub without subscriptions", on)
		h, err := e.startHub(ctx, s)
		if err != nil {
			return err
		}
		empty, err := e.weigh(ctx, h)
		h.stop()
		if err != nil {
			return err
		}
		many, one := e.town.topic("many"), e.town.topic("one")
		e.log("on %s: %d subscriptions move in", on, e.plan.subscriptions)
		begin := time.Now()
		err = e.moveIn(ctx, s, group(e.plan.subscriptions, many, func(i int) string {
			return e.town.callback(i%e.millionHosts(), pathHeld, i)
		}).and(group(1, one, func(int) string { return e.town.callback(0, pathCallback, 0) })))
		if err != nil {
			return err
		}
		e.log("on %s: that took %s; now the hub starts", on, time.Since(begin).Round(time.Second/10))
		m := &millionHub{env: e, on: on, store: s, many: many, one: one, empty: empty}
		return m.measure(ctx)
	})
}

func (e *env) millionHosts() int { return min(millionHosts, len(e.town.hosts)) }

// millionHub is the hub with all these subscriptions, which is started twice.
type millionHub struct {
	*env
	on        engine
	store     *store
	many, one string // topics
	empty     weight // of a hub without subscriptions
	hub       *hub
}

func (m *millionHub) measure(ctx context.Context) error {
	first, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { m.hub.kill() }() // the deliveries of what was published at last would take hours
	rest, err := m.weigh(ctx, m.hub)
	if err != nil {
		return err
	}
	took, err := m.deliverOnce(ctx)
	if err != nil {
		return err
	}
	worked, err := m.weigh(ctx, m.hub)
	if err != nil {
		return err
	}
	m.hub.stop()
	second, err := m.begin(ctx)
	if err != nil {
		return err
	}
	m.reportMemory(rest, worked, took)
	m.report.put(goalReady, m.on, second.loaded.Seconds())
	m.report.table(cells(
		"%s: from the start of the process|after the import|restart after the deliveries", m.on,
	), [][]string{
		cells("to the ready line: it takes requests|%.2f s|%.2f s", first.ready.Seconds(), second.ready.Seconds()),
		cells(
			"to /readyz 200 and all subscriptions served|%.2f s|%.2f s", first.loaded.Seconds(),
			second.loaded.Seconds(),
		),
	})
	return m.publishing(ctx)
}

// readiness is how long a start took.
type readiness struct{ ready, loaded time.Duration }

func (m *millionHub) begin(ctx context.Context) (r readiness, err error) {
	if m.hub, err = m.startHub(ctx, m.store); err != nil {
		return r, err
	}
	r.ready = m.hub.toReady
	if r.loaded, err = m.hub.awaitSubscriptions(ctx, m.plan.subscriptions+1); err != nil {
		m.hub.stop()
	}
	return r, err
}

// deliverOnce delivers one notification to all.
func (m *millionHub) deliverOnce(ctx context.Context) (time.Duration, error) {
	m.log("on %s: one notification to each of them", m.on)
	before, err := m.town.counted()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if _, err := m.publication(m.many).send(); err != nil {
		return 0, err
	}
	err = m.town.await(ctx, before+int64(m.plan.subscriptions))
	return time.Since(begin), err
}

func (m *millionHub) publication(topic string) *publication {
	return m.hub.publication(topic, content(m.plan.bodyBytes))
}

// weight is what a hub process holds.
type weight struct{ resident, live, goroutines float64 }

// weigh reads it when the process has settled.
func (e *env) weigh(ctx context.Context, h *hub) (weight, error) {
	if err := pause(ctx, e.plan.settle); err != nil {
		return weight{}, err
	}
	values, err := h.metrics()
	return weight{
		values["process_resident_memory_bytes"], values["go_gc_heap_live_bytes"], values["go_goroutines"],
	}, err
}

func (m *millionHub) reportMemory(rest, worked weight, took time.Duration) {
	each := func(w weight) float64 { return (w.resident - m.empty.resident) / float64(m.plan.subscriptions) }
	line := func(what string, w weight) []string {
		live := (w.live - m.empty.live) / float64(m.plan.subscriptions)
		return cells("%s|%.1f MB|%.0f B|%.0f B|%.0f", what, w.resident/1e6, each(w), live, w.goroutines)
	}
	m.report.table(cells("%s, default environment|RSS|RSS each, beyond the empty hub|"+
		"live heap each, at the last collection|goroutines", m.on), [][]string{
		cells("no subscriptions|%.1f MB|||%.0f", m.empty.resident/1e6, m.empty.goroutines),
		line(fmt.Sprintf("idle, %s after the start", m.plan.settle), rest),
		line(fmt.Sprintf("%s after one notification to all, which took %.2f s", m.plan.settle, took.Seconds()), worked),
	})
	m.report.put(goalMemory, m.on, each(rest))
	m.report.put(goalWorked, m.on, each(worked))
}

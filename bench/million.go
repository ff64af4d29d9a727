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

// million has a topic with a million subscriptions, and one with a single one, in
// one hub: what they weigh, how long a restart takes, and whether who publishes
// feels them.
func million(ctx context.Context, e *env) error {
	e.report.section(fmt.Sprintf("%d subscriptions", e.plan.subscriptions))
	e.report.note("One topic with %d callbacks on %d hosts, each with a secret of its own, and in the same hub one with a single callback; for publishing, also one with a single callback in a hub of its own, on a store of its own on this machine.",
		e.plan.subscriptions, e.millionHosts())
	return e.onEach(ctx, func(on engine, s *store) error {
		e.log("on %s: the memory of a hub without subscriptions", on)
		h, err := startHub(ctx, e.binary, s.flag())
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
	first, err := m.start(ctx)
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
	second, err := m.start(ctx)
	if err != nil {
		return err
	}
	m.reportMemory(rest, worked, took)
	m.report.put(goalReady, m.on, second.loaded.Seconds())
	m.report.table([]string{m.on.String() + ": from the start of the process", "after the import", "restart after the deliveries"}, [][]string{
		{"to the ready line: it takes requests", seconds(first.ready), seconds(second.ready)},
		{"to /readyz 200 and all subscriptions served", seconds(first.loaded), seconds(second.loaded)},
	})
	return m.publishing(ctx)
}

// readiness is how long a start took.
type readiness struct{ ready, loaded time.Duration }

func (m *millionHub) start(ctx context.Context) (r readiness, err error) {
	if m.hub, err = startHub(ctx, m.binary, m.store.flag()); err != nil {
		return r, err
	}
	r.ready = m.hub.ready
	if r.loaded, err = m.hub.awaitSubscriptions(ctx, m.plan.subscriptions+1); err != nil {
		m.hub.stop()
	}
	return r, err
}

// deliverOnce delivers one notification to all.
func (m *millionHub) deliverOnce(ctx context.Context) (time.Duration, error) {
	m.log("on %s: one notification to each of them", m.on)
	before, err := m.town.count()
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
func (e *env) weigh(ctx context.Context, h *hub) (w weight, err error) {
	return e.weighAfter(ctx, e.plan.settle, h)
}

func (e *env) weighAfter(ctx context.Context, rest time.Duration, h *hub) (w weight, err error) {
	if err := pause(ctx, rest); err != nil {
		return w, err
	}
	const resident, live, goroutines = "process_resident_memory_bytes", "go_gc_heap_live_bytes", "go_goroutines"
	values, err := h.metrics(resident, live, goroutines)
	return weight{values[resident], values[live], values[goroutines]}, err
}

func (m *millionHub) reportMemory(rest, worked weight, took time.Duration) {
	row := func(what string, w weight) []string {
		each := func(a, b float64) string { return fmt.Sprintf("%.0f B", (a-b)/float64(m.plan.subscriptions)) }
		return []string{
			what, fmt.Sprintf("%.1f MB", w.resident/1e6), each(w.resident, m.empty.resident),
			each(w.live, m.empty.live), fmt.Sprintf("%.0f", w.goroutines),
		}
	}
	m.report.table([]string{m.on.String() + ", default environment", "RSS", "RSS each, beyond the empty hub", "live heap each, at the last collection", "goroutines"}, [][]string{
		{"no subscriptions", fmt.Sprintf("%.1f MB", m.empty.resident/1e6), "", "", fmt.Sprintf("%.0f", m.empty.goroutines)},
		row(fmt.Sprintf("idle, %s after the start", m.plan.settle), rest),
		row(fmt.Sprintf("%s after one notification to all, which took %s", m.plan.settle, seconds(took)), worked),
	})
	m.report.put(goalMemory, m.on, (rest.resident-m.empty.resident)/float64(m.plan.subscriptions))
	m.report.put(goalWorked, m.on, (worked.resident-m.empty.resident)/float64(m.plan.subscriptions))
}

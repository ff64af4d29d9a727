package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// subscriptionsGauge is the hub's metric of the subscriptions that it serves.
const subscriptionsGauge = "carillon_delivery_subscriptions"

// weight is what a hub process holds at rest.
type weight struct{ live, resident, goroutines float64 }

// weighIdle measures what an idle subscription costs: a hub with none beside
// the same hub with many, both freshly started, so that nothing of the work of
// subscribing is counted.
func weighIdle(ctx context.Context, p plan, binary, store, target string, stdout, stderr io.Writer) error {
	// A low GOGC makes the collector run often: what it reports as live is recent.
	if err := os.Setenv("GOGC", "10"); err != nil {
		return err
	}
	h, err := startHub(ctx, binary, store, target)
	if err != nil {
		return err
	}
	defer func() { h.stop() }()
	empty, err := h.weigh(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%d idle subscriptions are being made…\n", p.idle)
	begin := time.Now()
	if err := h.subscribe(ctx, h.topic("idle"), p.idle); err != nil {
		return err
	}
	if err := h.awaitSubscriptions(ctx, p.idle); err != nil {
		return err
	}
	made := time.Since(begin)
	h.stop()

	begin = time.Now()
	if h, err = startHub(ctx, binary, store, target); err != nil {
		return err
	}
	if err := h.awaitSubscriptions(ctx, p.idle); err != nil {
		return err
	}
	loaded := time.Since(begin)
	full, err := h.weigh(ctx)
	if err != nil {
		return err
	}
	each := func(a, b float64) float64 { return (b - a) / float64(p.idle) }
	fmt.Fprintf(stdout, "\n%d idle subscriptions: %.0f bytes of live heap each, %.0f bytes resident each\n",
		p.idle, each(empty.live, full.live), each(empty.resident, full.resident))
	fmt.Fprintf(stdout, "goroutines: %.0f without any, %.0f with all of them\n", empty.goroutines, full.goroutines)
	fmt.Fprintf(stdout, "made and verified in %s, loaded at a start in %s\n", made.Round(100*time.Millisecond), loaded.Round(10*time.Millisecond))
	return nil
}

// awaitSubscriptions returns when the hub serves n subscriptions.
func (h *hub) awaitSubscriptions(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	for {
		serving, err := h.metric(ctx, subscriptionsGauge)
		if err != nil {
			return err
		}
		if int(serving) >= n {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the hub serves %.0f of %d subscriptions: %w", serving, n, err)
		}
	}
}

// weigh reads the process's figures after two more collections, which reading
// them brings about.
func (h *hub) weigh(ctx context.Context) (weight, error) {
	cycles, err := h.metric(ctx, "go_gc_cycles_total_gc_cycles_total")
	if err != nil {
		return weight{}, err
	}
	for {
		now, err := h.metric(ctx, "go_gc_cycles_total_gc_cycles_total")
		if err != nil {
			return weight{}, err
		}
		if now >= cycles+2 {
			break
		}
		if err := ctx.Err(); err != nil {
			return weight{}, err
		}
	}
	var w weight
	for name, into := range map[string]*float64{
		"go_gc_heap_live_bytes":         &w.live,
		"process_resident_memory_bytes": &w.resident,
		"go_goroutines":                 &w.goroutines,
	} {
		if *into, err = h.metric(ctx, name); err != nil {
			return weight{}, err
		}
	}
	return w, nil
}

package machine

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The memory of a hub is mostly its table of subscriptions, of which little is
// ever garbage. By its own rule Go's collector would let as much again lie about.
const (
	// garbageRoom is how much garbage may lie about before it is collected, as far as
	// the bounds on the collector's percentage allow it.
	garbageRoom = 64 << 20
	// leastPercent bounds what collecting often costs, mostPercent is Go's own rule.
	leastPercent, mostPercent = 25, 100
	// memoryLook is how often the heap is looked at.
	memoryLook = 2 * time.Second
)

// KeepMemory holds the garbage of the process within bounds until ctx ends. subscriptions
// returns how many the table has, once it is loaded: then KeepMemory gives back what the
// loading has left. Where the operator says how the collector is to work (GOGC) it does
// nothing. It is for a process that does little else: it sets Go's collector for all of it.
func KeepMemory(ctx context.Context, subscriptions func() (n int, loaded bool)) {
	if os.Getenv("GOGC") != "" {
		return
	}
	defer debug.SetGCPercent(mostPercent) // for who shares the process: tests
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	percent, table := mostPercent, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if now, loaded := subscriptions(); loaded && now > table+table/4+10_000 {
			debug.FreeOSMemory()
			table = now
		}
		if p := collectorPercent(liveHeap()); p != percent {
			debug.SetGCPercent(p)
			percent = p
		}
	}
}

// collectorPercent is the percentage at which garbageRoom lies about beside so many
// bytes in use, in steps, as each change stops the process for a moment.
func collectorPercent(live uint64) int {
	const step = 5
	percent := int(min(mostPercent, 100*garbageRoom/max(live, 1)))
	return max(percent-percent%step, leastPercent)
}

// liveHeap is how many bytes were in use at the end of the latest collection.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

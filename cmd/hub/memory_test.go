package main

import (
	"runtime"
	"testing"
)

func TestCollectorPercent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		live uint64
		want int
	}{
		{0, 100},
		{10 << 20, 100},
		{garbageRoom, 100},
		{2 * garbageRoom, 50},
		{garbageRoom + garbageRoom/10, 90},
		{100 * garbageRoom, 25},
	} {
		if got := collectorPercent(tt.live); got != tt.want {
			t.Errorf("%d bytes in use: %d%%, want %d%%", tt.live, got, tt.want)
		}
	}
	runtime.GC()
	if liveHeap() == 0 {
		t.Error("the collector's metric is not there any more")
	}
}

package machine_test

import (
	"runtime"
	"testing"

	"carillon/internal/machine"
)

func TestCollectorPercent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		live uint64
		want int
	}{
		{0, 100},
		{10 << 20, 100},
		{machine.GarbageRoom, 100},
		{2 * machine.GarbageRoom, 50},
		{machine.GarbageRoom + machine.GarbageRoom/10, 90},
		{100 * machine.GarbageRoom, 25},
	} {
		if got := machine.CollectorPercent(tt.live); got != tt.want {
			t.Errorf("%d bytes in use: %d%%, want %d%%", tt.live, got, tt.want)
		}
	}
	runtime.GC()
	if machine.LiveHeap() == 0 {
		t.Error("the collector's metric is not there any more")
	}
}

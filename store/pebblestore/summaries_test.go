//go:build !race

package pebblestore_test

import (
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery/deliverytest"
)

// A list of what a log has copies no body. Pebble copies values of its own under the race detector,
// at random, to find who uses them too long: nothing is measured there.
func TestSummariesReadNoBody(t *testing.T) {
	deliverytest.RunSummaries(t, 1<<20, func(t *testing.T) deliverytest.Harness {
		return deliveryHarnessOn(newWorld(t, vfs.NewMem()))
	}, func(*testing.T) int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.TotalAlloc)
	})
}

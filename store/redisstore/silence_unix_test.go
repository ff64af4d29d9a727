//go:build unix

package redisstore_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"carillon/subscription"
)

// While the server is silent, waiting takes no work.
func TestASilentServerCostsNothing(t *testing.T) {
	const length = 2 * time.Second
	w := newWorld(t)
	k := newKeeper(t, w, time.Second).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	w.server.Pause(t)
	defer w.server.Resume(t)
	before := used(t)
	eventually(t, func() error {
		if age := time.Since(k.db.Shards().State().LastRenewal); age < length {
			return fmt.Errorf("the server has answered %s ago", age)
		}
		return nil
	})
	if work := used(t) - before; work > length/4 {
		t.Errorf("waiting for %s took %s of a processor", length, work)
	}
}

// used is the time of a processor that this process has had.
func used(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

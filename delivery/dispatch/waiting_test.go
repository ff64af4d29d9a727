package dispatch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery/dispatch"
	"carillon/delivery/send"
)

// One of many subscriptions to a topic waits: the metric and the operator's answer agree. Once it has
// everything, and gets a notification once more, no wait is reported.
func TestOldestOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{KeepAtLeast: 1000 * time.Hour, RetryFirst: time.Hour, RetryMax: time.Hour}, s)
		var broke atomic.Bool
		const last = "https://last.example/"
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if broke.Load() && a.Callback == last {
				return broken
			}
			return delivered
		})
		for i := range 3000 {
			d.subscribe(e, fmt.Sprintf("https://c%d.example/", i))
		}
		sub := d.subscribe(e, last)
		d.publish("1")
		time.Sleep(time.Hour)
		broke.Store(true)
		d.publish("2")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		age := func() float64 {
			found := d.OldestWaiting(t.Context())
			if found.IsZero() {
				return 0
			}
			return time.Since(found).Seconds()
		}
		equal(t, "the metric", d.metric("oldest_waiting_seconds", ""), 10*60)
		equal(t, "an operator is told", age(), 10*60)
		broke.Store(false)
		time.Sleep(2 * time.Hour)
		broke.Store(true)
		if _, _, err := d.Replay(t.Context(), sub.ID, 1, 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		equal(t, "behind in a replay", d.metric("behind", ""), 1)
		equal(t, "the metric in a replay", d.metric("oldest_waiting_seconds", ""), 0)
		equal(t, "an operator is told in a replay", age(), 0)
	})
}

package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
)

// burst publishes one notification to 10,000 callbacks and returns when the last
// healthy one had it. A healthy callback takes 5 ms; kind says what a callback is.
func burst(t *testing.T, kind func(i int) (url string)) (last time.Duration) {
	t.Helper()
	const callbacks = 10_000
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun time.Time
		healthy := 0
		e := newEngine()
		d := start(t, e, dispatch.Config{}, sendFunc(func(ctx context.Context, a *send.Attempt) send.Outcome {
			name, _, _ := strings.Cut(strings.TrimPrefix(a.Callback, "https://"), ".")
			switch {
			case strings.HasPrefix(name, "hangs"):
				return hang(ctx)
			case strings.HasPrefix(name, "refuses"):
				return send.Outcome{Class: delivery.ClassRefused}
			case strings.HasPrefix(name, "fails"):
				time.Sleep(time.Millisecond)
				return broken
			case name == "slow":
				return work(time.Second)
			}
			out := work(5 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			healthy++
			last = max(last, time.Since(begun))
			return out
		}))
		want := 0
		for i := range callbacks {
			url := kind(i)
			if strings.HasPrefix(url, "https://healthy") {
				want++
			}
			d.Activated(subscriptionOf(topicURL, url))
		}
		synctest.Wait()
		mu.Lock()
		begun = time.Now()
		mu.Unlock()
		d.publish("x")
		time.Sleep(4 * time.Second) // no retry is due before
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		equal(t, "healthy ones that had it", healthy, want)
	})
	return last
}

// While a healthy callback waits, every slot is taken. So the last of them starts, at the latest, when
// all slots together have spent the time that all attempts may spend. That is 5 ms for a healthy
// callback, 1 ms for one that fails, and a 20th of SlowAfter for one that hangs.
func TestSickCallbacksInABurst(t *testing.T) {
	const slots = 512
	bound := func(spent time.Duration) time.Duration { return spent/slots + 5*time.Millisecond }
	own := func(i int) string { return fmt.Sprintf("https://healthy%d.example/", i) }
	for _, c := range []struct {
		name string
		kind func(i int) string
		most time.Duration
	}{
		{"all healthy", own, bound(10_000 * 5 * time.Millisecond)},
		{"one in ten hangs, one in twenty refuses, one in twenty fails", func(i int) string {
			switch {
			case i%10 == 3:
				return fmt.Sprintf("https://hangs%d.example/", i)
			case i%20 == 0:
				return fmt.Sprintf("https://refuses%d.example/", i)
			case i%20 == 1:
				return fmt.Sprintf("https://fails%d.example/", i)
			}
			return own(i)
		}, bound(8000*5*time.Millisecond + 500*time.Millisecond + 1000*12500*time.Microsecond)},
		// It has at most 16 at a time, which is where a host begins, until the first
		// of them has succeeded.
		{"one host has three in ten, and takes a second for each", func(i int) string {
			if i%10 < 3 {
				return fmt.Sprintf("https://slow.example/%d", i)
			}
			return own(i)
		}, bound(7000*5*time.Millisecond + 16*12500*time.Microsecond)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if last := burst(t, c.kind); last > c.most {
				t.Errorf("the last healthy one had it after %s, at most %s", last, c.most)
			} else {
				t.Logf("the last healthy one had it after %s, at most %s", last, c.most)
			}
		})
	}
}

// A host that is far away loses slots while others need them, but keeps how many it
// may have at a time, and gets no more than that.
func TestFarHostUnderPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		var mu sync.Mutex
		now, most, done := 0, 0, 0
		d := start(t, e, dispatch.Config{MaxInFlight: 40, MaxPerHost: 32, MaxSlow: 4000}, sendFunc(
			func(ctx context.Context, a *send.Attempt) send.Outcome {
				if !strings.HasPrefix(a.Callback, "https://far.") {
					return hang(ctx)
				}
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				now--
				done++
				return delivered
			}))
		for i := range 1500 {
			d.Activated(subscriptionOf(topicURL, fmt.Sprintf("https://far.example/%d", i)))
			d.Activated(subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i)))
		}
		synctest.Wait()
		d.publish("x")
		time.Sleep(8 * time.Second)
		synctest.Wait()
		equal(t, "at a time", most, 32)
		equal(t, "delivered", done, 1500)
	})
}

// No attempt gives its slot back before SlowAfter while others are free.
func TestNoPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		d := start(t, e, dispatch.Config{MaxInFlight: 20}, sendFunc(
			func(ctx context.Context, _ *send.Attempt) send.Outcome { return hang(ctx) }))
		for i := range 20 {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		d.publish("x")
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		equal(t, "slow, while nobody waits", d.Stats().Slow, 0)
		late := d.subscribe(e, "https://late.example/")
		d.publish("y")
		synctest.Wait()
		equal(t, "slow, when somebody does", d.Stats().Slow, 20)
		equal(t, "in flight", d.Stats().InFlight, 21)
		_ = late
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		equal(t, "slow", d.Stats().Slow, 20)
	})
}

// Slots that become short while attempts are under way already are noticed then.
func TestPressureThatArises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		d := start(t, e, dispatch.Config{MaxInFlight: 20}, sendFunc(
			func(ctx context.Context, _ *send.Attempt) send.Outcome { return hang(ctx) }))
		d.subscribe(e, "https://first.example/")
		d.publish("x")
		time.Sleep(10 * time.Millisecond)
		for i := range 39 {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		synctest.Wait()
		d.publish("y")
		time.Sleep(25 * time.Millisecond)
		synctest.Wait()
		equal(t, "in flight", d.Stats().InFlight, 40)
	})
}

// An attempt that gave its slot back early counts for its host until it is slow.
func TestEarlyAttemptsOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		var mu sync.Mutex
		dead := 0
		d := start(t, e, dispatch.Config{MaxInFlight: 40, MaxSlow: 4000}, sendFunc(
			func(ctx context.Context, a *send.Attempt) send.Outcome {
				if strings.HasPrefix(a.Callback, "https://dead.") {
					mu.Lock()
					dead++
					mu.Unlock()
				}
				return hang(ctx)
			}))
		for i := range 100 {
			d.Activated(subscriptionOf(topicURL, fmt.Sprintf("https://dead.example/%d", i)))
			for other := range 4 { // with the one before more than there are slots
				d.Activated(subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/%d", other, i)))
			}
		}
		synctest.Wait()
		d.publish("x")
		var got []int
		for range 3 {
			time.Sleep(240 * time.Millisecond)
			synctest.Wait()
			mu.Lock()
			got = append(got, dead)
			mu.Unlock()
		}
		// Ten at a time, which is where a host begins, then half as many, and half of those.
		equal(t, "attempts", fmt.Sprint(got), "[10 15 17]")
	})
}

// An attempt that could not give its slot back, as too many were slow, does so when one of them ends.
func TestSlotIsGivenBackWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		var mu sync.Mutex
		var started []time.Duration
		begun := time.Now()
		d := start(t, e, dispatch.Config{MaxInFlight: 1, MaxSlow: 1}, sendFunc(
			func(ctx context.Context, _ *send.Attempt) send.Outcome {
				mu.Lock()
				started = append(started, time.Since(begun))
				first := len(started) == 1
				mu.Unlock()
				if first {
					return work(time.Second)
				}
				return hang(ctx)
			}))
		for i := range 3 {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		d.publish("x")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		equal(t, "started", fmt.Sprint(started), "[0s 12.5ms 1s]")
	})
}

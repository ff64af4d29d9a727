package dispatch_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
)

// hang is a callback that never answers: the deadline of 30 s ends it.
func hang(ctx context.Context) send.Outcome {
	select {
	case <-ctx.Done():
		return send.Outcome{Err: ctx.Err()}
	case <-time.After(30 * time.Second):
		return send.Outcome{Class: delivery.ClassTimeout}
	}
}

// work is a healthy callback that takes its time.
func work(took time.Duration) send.Outcome {
	time.Sleep(took)
	return delivered
}

// One in ten hangs until the deadline; the others must not notice, whether the
// callbacks are on hosts of their own or all on one.
func TestHangingCallbacks(t *testing.T) {
	for _, c := range []struct {
		name     string
		callback string
		within   time.Duration
	}{
		{"hosts of their own", "https://h%d.example/", time.Second},
		{"one host", "https://one.example/%d", 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				var healthy atomic.Int64
				hanging := map[string]bool{}
				d := start(t, e, dispatch.Config{}, sendFunc(func(ctx context.Context, a *send.Attempt) send.Outcome {
					if hanging[a.Callback] {
						return hang(ctx)
					}
					defer healthy.Add(1)
					return work(5 * time.Millisecond)
				}))
				const callbacks = 4000
				for i := range callbacks {
					url := fmt.Sprintf(c.callback, i)
					hanging[url] = i%10 == 0
					d.subscribe(e, url)
				}
				for round := range 5 {
					healthy.Store(0)
					d.publish("x")
					time.Sleep(c.within)
					synctest.Wait()
					if got := healthy.Load(); got != callbacks*9/10 {
						t.Errorf("round %d: %d of %d healthy callbacks had it within %s", round, got, callbacks*9/10, c.within)
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// A host with many callbacks that all hang gets few slots; a healthy one all it
// may have.
func TestHostLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		var mu sync.Mutex
		now, most := map[byte]int{}, map[byte]int{}
		d := start(t, e, dispatch.Config{MaxPerHost: 32}, sendFunc(func(ctx context.Context, a *send.Attempt) send.Outcome {
			h := a.Callback[len("https://")]
			mu.Lock()
			now[h]++
			most[h] = max(most[h], now[h])
			mu.Unlock()
			defer func() {
				mu.Lock()
				now[h]--
				mu.Unlock()
			}()
			switch h {
			case 'd':
				return hang(ctx)
			case 'f':
				time.Sleep(10 * time.Millisecond)
				return broken
			}
			return work(10 * time.Millisecond)
		}))
		for i := range 2000 {
			d.subscribe(e, fmt.Sprintf("https://dead.example/%d", i))
			d.subscribe(e, fmt.Sprintf("https://failing.example/%d", i))
			d.subscribe(e, fmt.Sprintf("https://healthy.example/%d", i))
		}
		d.publish("x")
		time.Sleep(29 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		equal(t, "healthy, at most", most['h'], 32)
		equal(t, "failing, now", now['f'], 1)
		// Half as many with each generation, then one at a time.
		if most['d'] > 8+4+2+1+29*4 {
			t.Errorf("%d attempts under way to a host that hangs", most['d'])
		}
		equal(t, "healthy, all done", d.Stats().Ready+d.Stats().Waiting+now['d']+now['f'], 4000)
	})
}

func TestMaxInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		var started atomic.Int64
		d := start(t, e, dispatch.Config{MaxInFlight: 20, MaxSlow: 30}, sendFunc(
			func(ctx context.Context, _ *send.Attempt) send.Outcome {
				started.Add(1)
				return hang(ctx)
			}))
		for i := range 200 {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		d.publish("x")
		synctest.Wait()
		equal(t, "at once", started.Load(), 20)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		equal(t, "with the slow ones", started.Load(), 50)
		equal(t, "in flight", d.Stats().InFlight, 50)
		equal(t, "slow", d.Stats().Slow, 30)
		equal(t, "slow, as shown", d.metric("slow", ""), 30)
		equal(t, "in flight, as shown", d.metric("in_flight", ""), 50)
		equal(t, "goroutines for the rest", d.Stats().Ready, 150)
	})
}

// Retries have a quarter of the slots, however many are due.
func TestRetryLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		var retries, most atomic.Int64
		d := start(t, e, dispatch.Config{MaxInFlight: 20, MaxSlow: -1, RetryMax: 10 * time.Second}, sendFunc(
			func(ctx context.Context, a *send.Attempt) send.Outcome {
				if a.Number == 1 {
					if a.Callback[len("https://")] == 'd' {
						return broken
					}
					return delivered
				}
				if n := retries.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer retries.Add(-1)
				return hang(ctx)
			}))
		for i := range 100 {
			d.subscribe(e, fmt.Sprintf("https://d%d.example/", i))
		}
		healthy := d.subscribe(e, "https://healthy.example/")
		d.publish("x")
		time.Sleep(25 * time.Second)
		d.publish("y")
		synctest.Wait()
		equal(t, "retries at a time", most.Load(), 5)
		p, _ := d.Position(healthy.ID)
		equal(t, "the healthy one, at once", p.Settled, 2)
	})
}

// Hosts take turns, however many callbacks they have, and callbacks within one.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{MaxInFlight: 1, MaxSlow: -1}, s)
		hold := make(chan struct{})
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { <-hold; return delivered })
		for i := range 10 {
			d.subscribe(e, fmt.Sprintf("https://big.example/%d", i))
		}
		d.subscribe(e, "https://small.example/")
		d.publish("x")
		d.publish("y")
		close(hold)
		synctest.Wait()
		all := s.take()
		equal(t, "attempts", len(all), 22)
		var big []delivery.Seq
		for i, a := range all {
			if a.callback != "https://small.example/" {
				big = append(big, a.seq)
			} else if i > 4 {
				t.Errorf("the small host's notification %d came as number %d", a.seq, i)
			}
		}
		// No callback has a second turn before all had a first.
		equal(t, "sent within the big host", fmt.Sprint(big), "[1 1 1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2 2 2]")
	})
}

// Publishing costs nothing for each subscriber, and waking them no memory.
func TestWakeAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		d := start(t, e, dispatch.Config{MaxInFlight: 1, MaxSlow: -1}, sendFunc(
			func(ctx context.Context, _ *send.Attempt) send.Outcome {
				<-ctx.Done()
				return send.Outcome{Err: ctx.Err()}
			}))
		const subscribers = 20_000
		for i := range subscribers {
			d.Activated(subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/%d", i%100, i)))
		}
		synctest.Wait()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d.publish("x")
		synctest.Wait()
		runtime.ReadMemStats(&after)
		equal(t, "woken", d.Stats().Ready, subscribers-1)
		if n := after.Mallocs - before.Mallocs; n > 500 {
			t.Errorf("%d allocations to wake %d subscriptions", n, subscribers)
		}
	})
}

// A publication while a topic's subscriptions are being woken reaches those that were passed already.
func TestPublishDuringAWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		var sent atomic.Int64
		var d *running
		d = start(t, e, dispatch.Config{}, sendFunc(func(context.Context, *send.Attempt) send.Outcome {
			if sent.Add(1) == 100 { // of those that were woken first
				d.publish("y")
			}
			return delivered
		}))
		const subscribers = 20_000
		for i := range subscribers {
			d.Activated(subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/%d", i%50, i)))
		}
		synctest.Wait()
		d.publish("x")
		synctest.Wait()
		for _, sub := range d.Subscribers(topicURL) {
			if p, _ := d.Position(sub.ID); p.Settled != 2 {
				t.Fatalf("%s stands at %d of 2", sub.Callback, p.Settled)
			}
		}
	})
}

// The body is in memory once, however many deliveries of it are in flight.
func TestBodyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		s.setAnswer(func(ctx context.Context, _ *send.Attempt) send.Outcome { return work(time.Second) })
		first := start(t, e, dispatch.Config{}, s)
		first.publish("x")
		first.publish("y")
		first.stop() // what it published is not in the cache of the next
		for i := range 100 {
			sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i))
			e.subs[sub.ID] = sub
		}
		slow := make(chan struct{})
		e.slowRead = slow
		start(t, e, dispatch.Config{CacheBytes: -1}, s) // held while in use only
		synctest.Wait()
		close(slow)
		synctest.Wait()
		all := s.take()
		equal(t, "in flight", len(all), 100)
		for _, a := range all {
			if a.note != all[0].note {
				t.Fatal("two copies of one notification")
			}
		}
		equal(t, "reads", e.reads, 1)
	})
}

// Those who give up together share what they read to find out how far.
func TestGiveUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		first := start(t, e, dispatch.Config{}, s)
		for range 64 {
			first.publish("x")
		}
		first.stop() // what it published is not in the cache of the next
		for i := range 300 {
			sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i))
			e.subs[sub.ID] = sub
		}
		time.Sleep(2 * time.Hour)
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		e.reads = 0
		d := start(t, e, dispatch.Config{RetryFor: time.Second, KeepAtLeast: time.Hour}, s) // no room for a second attempt
		synctest.Wait()
		equal(t, "gave up everything", d.metric("gaps_total", "given_up"), 300)
		if e.reads > 10 { // the first one, and a halving of 64
			t.Errorf("%d reads of a body", e.reads)
		}
	})
}

// The cache forgets what was not used for longest.
func TestCacheBound(t *testing.T) {
	for bytes, want := range map[int64]int{0: 10, 1 << 20: 10, 16 << 10: 12, -1: 12} {
		synctest.Test(t, func(t *testing.T) {
			e, s := newEngine(), &attempts{}
			d := start(t, e, dispatch.Config{}, s)
			for i := range 10 {
				d.publish(fmt.Sprintf("%04096d", i))
			}
			d.stop()
			s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return work(time.Second) })
			d = start(t, e, dispatch.Config{CacheBytes: bytes}, s)
			e.with(func() { e.reads = 0 })
			for i := range 2 { // one reads the last two, then one all ten
				sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i))
				sub.Start = 8 * uint64(1-i)
				d.Activated(sub)
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			equal(t, fmt.Sprintf("reads with %d bytes", bytes), e.reads, want)
		})
	}
}

// TestIdleSubscriptions prints what an idle subscription weighs.
func TestIdleSubscriptions(t *testing.T) {
	const n = idleSubscriptions
	for _, c := range []struct {
		name   string
		hosts  int
		topics int
		most   int64
	}{
		{"one topic, a thousand hosts", 1000, 1, 400},
		{"a host each", n, 1, 800},
		{"a thousand topics", 1000, 1000, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine()
			d := start(t, e, dispatch.Config{}, &attempts{})
			var before, after runtime.MemStats
			goroutines := runtime.NumGoroutine()
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range n {
				topic := fmt.Sprintf("https://source.example/sets/%d/change/", i%c.topics)
				d.Activated(subscriptionOf(topic, fmt.Sprintf("https://h%d.example/hooks/%08d", i%c.hosts, i)))
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
			t.Logf("%d idle subscriptions: %d bytes each, %d goroutines in all", n, each, runtime.NumGoroutine())
			if each > c.most {
				t.Errorf("an idle subscription takes %d bytes, at most %d", each, c.most)
			}
			if more := runtime.NumGoroutine() - goroutines; more > 5 { // Run and its loops
				t.Errorf("%d more goroutines than without subscriptions", more)
			}
			equal(t, "subscriptions", d.Stats().Subscriptions, n)
		})
	}
}

// BenchmarkIdleSubscription reports what one more subscription takes.
func BenchmarkIdleSubscription(b *testing.B) {
	d, err := dispatch.New(dispatch.Config{}, newEngine().stores(), newEngine(), &attempts{}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range subscription.Shards {
		if err := d.Gained(b.Context(), delivery.Tenure{Shard: subscription.Shard(i)}); err != nil {
			b.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	i := 0
	for b.Loop() {
		d.Activated(subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/hooks/%08d", i%1000, i)))
		i++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(i), "B/subscription")
	runtime.KeepAlive(d)
}

// BenchmarkDeliver is the machinery alone: a Sender that does nothing.
func BenchmarkDeliver(b *testing.B) {
	e := newEngine()
	var left atomic.Int64
	done := make(chan struct{})
	d := start(b, e, dispatch.Config{}, sendFunc(func(context.Context, *send.Attempt) send.Outcome {
		if left.Add(-1) == 0 {
			done <- struct{}{}
		}
		return delivered
	}))
	const subscribers = 1000
	for i := range subscribers {
		d.Activated(subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/%d", i%100, i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		left.Store(subscribers)
		d.publish("x")
		<-done
	}
	b.ReportMetric(float64(b.N)*subscribers/b.Elapsed().Seconds(), "deliveries/s")
}

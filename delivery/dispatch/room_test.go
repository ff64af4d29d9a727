package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/topic"
)

const kib = 1 << 10

// bigTopic is the topic of a body of so many KiB, which is published to it with a
// subscription on a host of its own.
func bigTopic(t *testing.T, d *running, name string, size int) (callback string) {
	t.Helper()
	topicURL := "https://example.com/" + name
	callback = "https://" + name + ".example/"
	d.Activated(subscriptionOf(topicURL, callback))
	synctest.Wait() // its head is read
	body := []byte(strings.Repeat("x", size*kib))
	if _, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL), Body: body}); err != nil {
		t.Fatal(err)
	}
	return callback
}

// times notes when each callback had its delivery, and what the bodies took.
type times struct {
	mu   sync.Mutex
	d    *running
	at   map[string]time.Time
	most int64
}

func (w *times) arrived(callback string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[callback] = time.Now()
	held, _ := w.d.HeldBytes()
	w.most = max(w.most, held)
}

// Attempts hold no more than MaxBytes of bodies. An entry that waits for room holds neither a slot nor
// a body, small bodies do not wait, and all have their turn.
func TestMaxBytes(t *testing.T) {
	for _, c := range []struct {
		name         string
		size         int // KiB
		most         int64
		within, same time.Duration
	}{
		// Three at a time, for a second each, in the order of coming.
		{"three at a time", 300, 3 * 300 * kib, 7 * time.Second, 0},
		{"each larger than all", 2000, 2000 * kib, 20 * time.Second, 0},
		{"small ones do not count", 64, 0, time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, w := newEngine(), &times{at: map[string]time.Time{}}
				w.d = start(t, e, dispatch.Config{MaxBytes: 1000 * kib, CacheBytes: -1, MaxSlow: -1}, sendFunc(
					func(_ context.Context, a *send.Attempt) send.Outcome {
						w.arrived(a.Callback)
						if len(a.Notification.Body) < kib {
							return delivered
						}
						return work(time.Second)
					}))
				begun := time.Now()
				const bodies = 20
				for i := range bodies {
					bigTopic(t, w.d, fmt.Sprint("big", i), c.size)
				}
				synctest.Wait()
				held, cached := w.d.HeldBytes()
				equal(t, "held", held, c.most)
				equal(t, "cached", cached, 0)
				if c.most > 0 {
					equal(t, "wait without a slot", w.d.Stats().Ready, bodies-int(c.most)/(c.size*kib))
				}
				small := bigTopic(t, w.d, "small", 0)
				synctest.Wait()
				w.mu.Lock()
				equal(t, "a small one, after", w.at[small].Sub(begun), 0)
				w.mu.Unlock()
				time.Sleep(c.within - time.Millisecond)
				if c.most > 0 {
					equal(t, "the last one is under way", w.d.Stats().InFlight > 0, true)
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
				equal(t, "all had theirs", len(w.at), bodies+1)
				equal(t, "in flight", w.d.Stats().InFlight, 0)
				equal(t, "held at most", w.most, c.most)
				held, _ = w.d.HeldBytes()
				equal(t, "held at the end", held, 0)
				if e.reads > 2*bodies+1 { // once to find no room, and once when there is some
					t.Errorf("%d reads of %d bodies", e.reads, bodies+1)
				}
			})
		})
	}
}

// One body that many wait for is read a few times, not once for each.
func TestManyWaitForOneBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		var sent atomic.Int64
		d := start(t, e, dispatch.Config{MaxBytes: 100 * kib, CacheBytes: -1}, sendFunc(
			func(_ context.Context, a *send.Attempt) send.Outcome {
				if a.Notification.Topic.String() == topicURL {
					sent.Add(1)
					return work(time.Millisecond)
				}
				return work(10 * time.Second)
			}))
		bigTopic(t, d, "first", 90)
		synctest.Wait()
		const subscribers = 5000
		for i := range subscribers {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/%d", i%100, i))
		}
		e.with(func() { e.reads = 0 })
		d.publish(strings.Repeat("x", 80*kib))
		synctest.Wait()
		equal(t, "sent while there is no room", sent.Load(), 0)
		equal(t, "in flight", d.Stats().InFlight, 1)
		equal(t, "ready", d.Stats().Ready, subscribers)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		equal(t, "sent", sent.Load(), subscribers)
		if e.reads > 20 {
			t.Errorf("%d reads of one body", e.reads)
		}
	})
}

// Callbacks that hang hold bodies until the deadline. Once they are known they leave
// half of the room to others, however many of them there are.
func TestBodiesOfHangingCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := newEngine(), &times{at: map[string]time.Time{}}
		w.d = start(t, e, dispatch.Config{MaxBytes: 1000 * kib, RetryFirst: time.Second, RetryMax: 2 * time.Second}, sendFunc(
			func(ctx context.Context, a *send.Attempt) send.Outcome {
				w.arrived(a.Callback)
				if strings.HasPrefix(a.Callback, "https://dead") {
					return hang(ctx)
				}
				return delivered
			}))
		for i := range 10 {
			bigTopic(t, w.d, fmt.Sprint("dead", i), 200)
		}
		// All had their first attempt, and failed.
		time.Sleep(5 * time.Minute)
		for i := range 20 {
			time.Sleep(7 * time.Second)
			begun := time.Now()
			healthy := bigTopic(t, w.d, fmt.Sprint("healthy", i), 400)
			synctest.Wait()
			if held, _ := w.d.HeldBytes(); held > 400*kib || held == 0 {
				t.Errorf("those that hang hold %d bytes", held)
			}
			w.mu.Lock()
			equal(t, "the healthy one, after", w.at[healthy].Sub(begun), 0)
			w.mu.Unlock()
		}
	})
}

// Callbacks that hang take turns to hold a body. Others wait for room no longer than until
// those end that came in time.
func TestHangingCallbacksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hang = 30 * time.Second
		w := &times{at: map[string]time.Time{}}
		cfg := dispatch.Config{MaxBytes: 200 * kib, CacheBytes: -1, RetryFirst: time.Second, RetryMax: time.Second}
		w.d = start(t, newEngine(), cfg, sendFunc(func(ctx context.Context, a *send.Attempt) send.Outcome {
			if strings.HasPrefix(a.Callback, "https://hangs.") {
				work(hang)
				return send.Outcome{Class: delivery.ClassTimeout}
			}
			if a.Number == 1 {
				return send.Outcome{Class: delivery.ClassServerError} // it is careful from now on
			}
			w.arrived(a.Callback)
			return delivered
		}))
		// One after another they try, so that one at least is always under way.
		for i := range 10 {
			w.d.Activated(subscriptionOf("https://example.com/held", fmt.Sprint("https://hangs.example/", i)))
		}
		bigTopic(t, w.d, "held", 90)
		time.Sleep(10 * hang)
		synctest.Wait()
		equal(t, "holds the body", w.d.Stats().InFlight > 0, true)
		begun := time.Now()
		waits := bigTopic(t, w.d, "waits", 90)
		time.Sleep(3 * hang)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if at, got := w.at[waits]; !got {
			t.Error("who waits for room gets none while others hang by turns")
		} else if took := at.Sub(begun); took > 2*hang {
			t.Errorf("it took %s", took)
		}
	})
}

// A subscription that ends, whose lease ends or whose shard is lost while it waits for
// room is passed over.
func TestEndWhileWaitingForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := newEngine(), &times{at: map[string]time.Time{}}
		w.d = start(t, e, dispatch.Config{MaxBytes: 100 * kib}, sendFunc(func(_ context.Context, a *send.Attempt) send.Outcome {
			w.arrived(a.Callback)
			return work(10 * time.Second)
		}))
		bigTopic(t, w.d, "first", 90)
		synctest.Wait()
		ends := w.d.subscribe(e, "https://ends.example/")
		stays := w.d.subscribe(e, "https://stays.example/")
		expires := subscriptionOf(topicURL, "https://expires.example/")
		expires.Expires = time.Now().Add(time.Second)
		w.d.Activated(expires)
		w.d.publish(strings.Repeat("x", 80*kib))
		synctest.Wait()
		equal(t, "wait", w.d.Stats().Ready, 3)
		w.d.Ended(ends.ID)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "had theirs", len(w.at), 2)
		equal(t, "one that stays had it", w.at[stays.Callback].IsZero(), false)
		equal(t, "ready", w.d.Stats().Ready, 0)
	})
}

// Two bodies of one topic that wait for room are not read before there is some.
func TestTwoBodiesOfOneTopicWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := newEngine(), &times{at: map[string]time.Time{}}
		w.d = start(t, e, dispatch.Config{MaxBytes: 100 * kib, CacheBytes: 100 * kib}, sendFunc(
			func(_ context.Context, a *send.Attempt) send.Outcome {
				w.arrived(a.Callback)
				return work(10 * time.Second)
			}))
		e.with(func() { e.readTime = 5 * time.Millisecond })
		bigTopic(t, w.d, "first", 90)
		synctest.Wait()
		first := w.d.subscribe(e, "https://a.example/")
		synctest.Wait()
		w.d.publish(strings.Repeat("x", 80*kib))
		synctest.Wait()
		second := w.d.subscribe(e, "https://b.example/") // begins behind the first body
		w.d.publish(strings.Repeat("y", 80*kib))
		time.Sleep(time.Second)
		e.with(func() { e.reads = 0 })
		time.Sleep(8 * time.Second)
		synctest.Wait()
		equal(t, "reads while there is no room", e.readsSoFar(), 0)
		equal(t, "ready", w.d.Stats().Ready, 2)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "had theirs", len(w.at), 3)
		equal(t, "at rest", w.d.Stats().Ready+w.d.Stats().InFlight, 0)
		for _, s := range []string{first.Callback, second.Callback} {
			equal(t, s+" had it", w.at[s].IsZero(), false)
		}
		if e.reads > 6 {
			t.Errorf("%d reads of two bodies", e.reads)
		}
	})
}

// An entry waits for a body that is removed from its log meanwhile. It then wants another one, of
// another size.
func TestTrimmedWhileWaitingForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := newEngine(), &times{at: map[string]time.Time{}}
		w.d = start(t, e, dispatch.Config{MaxBytes: 300 * kib, CacheBytes: -1}, sendFunc(
			func(_ context.Context, a *send.Attempt) send.Outcome {
				w.arrived(a.Callback)
				switch a.Callback {
				case "https://first.example/":
					return work(time.Minute)
				case "https://second.example/":
					return work(2 * time.Minute)
				}
				return work(time.Second)
			}))
		bigTopic(t, w.d, "first", 110)
		bigTopic(t, w.d, "second", 150)
		w.d.subscribe(e, "https://a.example/")
		w.d.subscribe(e, "https://b.example/")
		synctest.Wait()
		w.d.publish(strings.Repeat("x", 100*kib))
		w.d.publish(strings.Repeat("y", 250*kib))
		synctest.Wait()
		equal(t, "wait", w.d.Stats().Ready, 2)
		e.with(func() { e.logs[topicURL][0], e.readTime, e.reads = nil, 5*time.Millisecond, 0 })
		// There is room for the first of the two, which is gone, and not for the second.
		time.Sleep(90 * time.Second)
		synctest.Wait()
		equal(t, "wait for the other one", w.d.Stats().Ready, 2)
		equal(t, "reads while there is no room for it", e.readsSoFar(), 1)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		equal(t, "had theirs", len(w.at), 4)
		equal(t, "reads", e.readsSoFar(), 2)
	})
}

// However many end while they wait for room, who is behind them has its turn as soon as
// there is some.
func TestManyEndWhileWaitingForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := newEngine(), &times{at: map[string]time.Time{}}
		w.d = start(t, e, dispatch.Config{MaxBytes: 100 * kib}, sendFunc(func(_ context.Context, a *send.Attempt) send.Outcome {
			w.arrived(a.Callback)
			return work(10 * time.Second)
		}))
		bigTopic(t, w.d, "first", 90)
		for i := range 2000 {
			s := subscriptionOf(topicURL, fmt.Sprintf("https://expires%d.example/", i))
			s.Expires = time.Now().Add(5 * time.Second)
			w.d.Activated(s)
		}
		synctest.Wait()
		w.d.publish(strings.Repeat("x", 80*kib))
		synctest.Wait()
		stays := bigTopic(t, w.d, "second", 90)
		synctest.Wait()
		equal(t, "wait", w.d.Stats().Ready, 2001)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		equal(t, "the one that stays has it", w.at[stays].IsZero(), false)
		equal(t, "ready", w.d.Stats().Ready, 0)
	})
}

// A retry has its turn, also where others keep more than half of the room in use, and a
// large body where smaller ones do.
func TestBusyRoomIsForAll(t *testing.T) {
	for name, c := range map[string]struct {
		cache int64
		size  int // KiB
		fails int
	}{
		"a retry":                  {0, 200, 1},
		"a retry, and no cache":    {-1, 200, 1},
		"a large one":              {0, 900, 0},
		"a large one, no cache":    {-1, 900, 0},
		"a large one that retries": {-1, 900, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				var attempts, others atomic.Int64
				cfg := dispatch.Config{MaxBytes: 1000 * kib, CacheBytes: c.cache, RetryFirst: time.Second, RetryMax: 2 * time.Second}
				d := start(t, e, cfg, sendFunc(func(_ context.Context, a *send.Attempt) send.Outcome {
					if a.Callback != "https://one.example/" {
						others.Add(1)
						return work(200 * time.Millisecond)
					}
					if attempts.Add(1) <= int64(c.fails) {
						return broken
					}
					return delivered
				}))
				const topics = 8
				for i := range topics {
					d.Activated(subscriptionOf(fmt.Sprint("https://example.com/t", i), fmt.Sprintf("https://t%d.example/", i)))
				}
				synctest.Wait()
				body := []byte(strings.Repeat("x", 300*kib))
				const rounds = 40
				for i := range rounds * topics {
					if i == topics {
						bigTopic(t, d, "one", c.size)
					}
					if _, err := d.Publish(
						t.Context(),
						delivery.Publication{Topic: topic.Parse(fmt.Sprint("https://example.com/t", i%topics)), Body: body},
					); err != nil {
						t.Fatal(err)
					}
					time.Sleep(75 * time.Millisecond)
				}
				equal(t, "attempts at the one", attempts.Load(), int64(c.fails)+1)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				equal(t, "deliveries of others", others.Load(), rounds*topics)
				held, _ := d.HeldBytes()
				equal(t, "held at the end", held, 0)
			})
		})
	}
}

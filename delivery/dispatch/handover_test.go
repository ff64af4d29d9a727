package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
	"carillon/topic"
)

// callbackIn returns the n-th callback whose subscription is in the shard.
func callbackIn(s subscription.Shard, n int) string {
	for i := 0; ; i++ {
		c := fmt.Sprintf("https://h%d.example/", i)
		if subscription.ShardOf(subscription.NewID(topicURL, c)) != s {
			continue
		}
		if n--; n < 0 {
			return c
		}
	}
}

// taking answers after a time that is the callback's.
func taking(times map[string]time.Duration) func(context.Context, *send.Attempt) send.Outcome {
	return func(ctx context.Context, a *send.Attempt) send.Outcome {
		select {
		case <-time.After(times[a.Callback]):
			return delivered
		case <-ctx.Done():
			return send.Outcome{Err: ctx.Err()}
		}
	}
}

// A shard that is handed over finishes what is under way, begins nothing, and its
// positions are saved under the old epoch. The others go on meanwhile.
func TestLostFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{FlushInterval: time.Hour}, s)
		mine, mate, other := callbackIn(3, 0), callbackIn(3, 1), callbackIn(4, 0)
		s.setAnswer(taking(map[string]time.Duration{mine: 2 * time.Second, mate: time.Second, other: time.Second}))
		sub, second := d.subscribe(e, mine), d.subscribe(e, mate)
		d.subscribe(e, other)
		for range 5 {
			d.publish("x")
		}
		synctest.Wait()
		s.take()
		begun := time.Now()
		d.Lost(3)
		equal(t, "waited", time.Since(begun), 2*time.Second)
		equal(t, "saved", e.positions[sub.ID].Settled, 1)
		equal(t, "saved, of the faster", e.positions[second.ID].Settled, 1)
		for _, a := range s.take() {
			if a.callback != other {
				t.Errorf("an attempt to %s began", a.callback)
			}
		}
		if p, ok := d.Position(sub.ID); ok {
			t.Errorf("the shard is still there: %+v", p)
		}
		d.Lost(3)  // which is not there
		d.Lost(64) // nor is this
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for _, a := range s.take() {
			equal(t, "sent to", a.callback, other)
		}
		equal(t, "reports of attempts under way", strings.Count(d.logs.String(), "attempts under way"), 0)
	})
}

// Entries that wait for their turn when a shard is lost do not start any more, nor do those that come
// due.
func TestLostTakesOffNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{MaxInFlight: 1, MaxSlow: -1}, s)
		failed, queued, flying := callbackIn(3, 0), callbackIn(3, 1), callbackIn(3, 2)
		hold := make(chan struct{})
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			switch {
			case a.Callback == failed && a.Number == 1:
				return send.Outcome{Class: delivery.ClassServerError, Status: 503, RetryAfter: time.Second}
			case a.Callback == flying:
				<-hold
			}
			return delivered
		})
		d.subscribe(e, failed)
		d.publish("1")
		synctest.Wait()
		d.subscribe(e, flying)
		d.publish("2")
		synctest.Wait()
		d.subscribe(e, queued)
		d.publish("3")
		synctest.Wait()
		s.take()
		lost := make(chan struct{})
		go func() { d.Lost(3); close(lost) }()
		time.Sleep(2 * time.Second) // the retry is due, too
		synctest.Wait()
		close(hold)
		<-lost
		synctest.Wait()
		equal(t, "attempts", len(s.take()), 0)
	})
}

// Callbacks that hang hold up the first of several shards that are lost in a row, and
// not each of them.
func TestLostWaitsOnceForWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{HandoverTimeout: 5 * time.Second, SlowAfter: 250 * time.Millisecond}, s)
		hang := map[string]time.Duration{}
		var subs []subscription.Subscription
		for shard := range subscription.Shard(3) {
			hang[callbackIn(shard, 0)] = time.Minute
			subs = append(subs, d.subscribe(e, callbackIn(shard, 0)))
		}
		fast := d.subscribe(e, callbackIn(2, 1))
		s.setAnswer(taking(hang))
		d.publish("x")
		synctest.Wait()
		lost := func(s subscription.Shard) time.Duration {
			begun := time.Now()
			d.Lost(s)
			return time.Since(begun)
		}
		equal(t, "the first", lost(0), 5*time.Second)
		equal(t, "the second", lost(1), 250*time.Millisecond)
		time.Sleep(time.Second)
		synctest.Wait()
		equal(t, "the third, a little later", lost(2), 250*time.Millisecond)
		equal(t, "saved", e.positions[fast.ID].Settled, 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "a late answer changes nothing", len(e.positions), 1)
		_, known := d.Position(subs[0].ID)
		equal(t, "still known", known, false)
		d.stop()
		equal(t, "reports of attempts under way", strings.Count(d.logs.String(), "a shard was lost with attempts under way"), 3)
	})
}

// A store that does not answer holds up the loss of a shard for a bound.
func TestLostWhileASaveHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{HandoverTimeout: 2 * time.Second}, s)
		sub := d.subscribe(e, callback)
		e.with(func() { e.slowSave = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } })
		d.publish("x")
		time.Sleep(time.Second) // a Save is under way
		synctest.Wait()
		begun := time.Now()
		d.Lost(subscription.ShardOf(sub.ID))
		equal(t, "waited", time.Since(begun), 2*time.Second)
		equal(t, "shards", d.Stats().Shards, subscription.Shards-1)
		e.with(func() { e.slowSave = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "saved afterwards", len(e.positions), 0)
		d.stop()
		if !strings.Contains(d.logs.String(), "a shard was lost with positions not saved") {
			t.Errorf("the log does not say so: %s", d.logs)
		}
	})
}

// Shards that are lost in a row while the store hangs wait for it once, and not each
// of them, whether Run goes on or has ended. A later row waits again.
func TestLostInARowWhileSavesHang(t *testing.T) {
	for _, ended := range []bool{false, true} {
		t.Run(fmt.Sprint("Run has ended ", ended), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := newEngine(), &attempts{}
				d := start(t, e, dispatch.Config{FlushInterval: time.Hour, HandoverTimeout: 5 * time.Second}, s)
				for shard := range subscription.Shard(subscription.Shards) {
					d.subscribe(e, callbackIn(shard, 0))
				}
				d.publish("x")
				synctest.Wait()
				e.with(func() { e.slowSave = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } })
				if ended {
					d.stop()
				}
				lost := func(from, to subscription.Shard) time.Duration {
					begun := time.Now()
					for shard := from; shard < to; shard++ {
						d.Lost(shard)
					}
					return time.Since(begun)
				}
				equal(t, "half of them", lost(0, 32), 5*time.Second)
				time.Sleep(10 * time.Second)
				equal(t, "some of the others, later", lost(32, 48), 5*time.Second)
				time.Sleep(10 * time.Second)
				e.with(func() { e.slowSave = nil })
				equal(t, "the others, when it works again", lost(48, subscription.Shards), 0)
				equal(t, "saved", len(e.positions), 16)
			})
		})
	}
}

// When Run has ended nothing is under way, and shards are handed back at once.
func TestLostAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, callback)
		d.publish("x")
		synctest.Wait()
		d.stop()
		saves := e.saves
		begun := time.Now()
		for shard := range subscription.Shard(subscription.Shards) {
			d.Lost(shard)
		}
		equal(t, "waited", time.Since(begun), 0)
		equal(t, "saved", e.positions[sub.ID].Settled, 1)
		equal(t, "saves with nothing new", e.saves, saves)
		equal(t, "shards", d.Stats().Shards, 0)
	})
}

func TestSure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		d.subscribe(e, callback)
		equal(t, "unsure before it was ever told", d.Stats().Unsure, false)
		d.surety.Sure(time.Now().Add(10 * time.Second))
		d.publish("1")
		synctest.Wait()
		sameSeqs(t, "while sure", s.seqs(), 1)
		s.setAnswer(taking(map[string]time.Duration{callback: 2 * time.Second}))
		time.Sleep(9 * time.Second)
		synctest.Wait()
		d.publish("2")
		d.publish("3")
		time.Sleep(time.Hour)
		synctest.Wait()
		sameSeqs(t, "no longer sure: what was begun is finished, and no more", s.seqs(), 2)
		equal(t, "unsure", d.Stats().Unsure, true)
		equal(t, "unsure, as shown", d.metric("unsure", ""), 1)
		equal(t, "saved meanwhile", e.positions[subscription.NewID(topicURL, callback)].Settled, 2)
		d.surety.Sure(time.Now().Add(10 * time.Second))
		synctest.Wait()
		sameSeqs(t, "sure again", s.seqs(), 3)
		equal(t, "unsure", d.Stats().Unsure, false)
		d.surety.Sure(time.Time{})
		equal(t, "unsure of all", d.Stats().Unsure, true)
	})
}

func TestGainedIsBrokenOff(t *testing.T) {
	for _, members := range []int{0, 1} {
		t.Run(fmt.Sprint(members, " members"), func(t *testing.T) { testGainedIsBrokenOff(t, members) })
	}
}

func testGainedIsBrokenOff(t *testing.T, members int) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		sub := subscriptionOf(topicURL, callback)
		if members > 0 {
			e.subs[sub.ID] = sub
		}
		shard := subscription.ShardOf(sub.ID)
		hook := &slowMembers{engine: e, begun: make(chan struct{}), more: make(chan struct{})}
		d, err := dispatch.New(dispatch.Config{}, dispatch.Stores{Log: e, Cursors: hook}, e, s, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Gained(ctx, delivery.Tenure{Shard: shard, Epoch: 1}) }()
		<-hook.begun
		equal(t, "loading", d.Stats().Loading, 1)
		equal(t, "shards", d.Stats().Shards, 0)
		cancel()
		close(hook.more) // an engine that does not look at its context
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Gained: %v", err)
		}
		equal(t, "loading", d.Stats().Loading, 0)
		equal(t, "subscriptions", d.Stats().Subscriptions, 0)
		d.Lost(shard) // it is called also for one that failed
	})
}

// endlessMembers gives none before its context ends.
type endlessMembers struct {
	*engine
	end func(ctx context.Context) error // what it gives then, if that is not nil
}

func (m endlessMembers) Members(ctx context.Context, _ subscription.Shard) iter.Seq2[delivery.Member, error] {
	return func(yield func(delivery.Member, error) bool) {
		<-ctx.Done()
		if err := m.end(ctx); err != nil {
			yield(delivery.Member{}, err)
		}
	}
}

// A store that hangs is tried again, as one that is away.
func TestGainedFromAStoreThatHangs(t *testing.T) {
	for name, end := range map[string]func(context.Context) error{
		"gives the context's error": context.Context.Err,
		"gives one of its own":      func(context.Context) error { return errOdd },
		"just ends":                 func(context.Context) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				d, err := dispatch.New(dispatch.Config{}, dispatch.Stores{Log: e, Cursors: endlessMembers{e, end}}, e, &attempts{}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Gained(t.Context(), delivery.Tenure{Epoch: 1}); !errors.Is(err, delivery.ErrUnavailable) {
					t.Errorf("Gained: %v", err)
				}
				equal(t, "loading", d.Stats().Loading, 0)
				// The time of who asks is not the store's trouble.
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := d.Gained(ctx, delivery.Tenure{Epoch: 2}); err == nil || errors.Is(err, delivery.ErrUnavailable) {
					t.Errorf("Gained within a second: %v", err)
				}
			})
		})
	}
}

// A shard that is lost while its members are read is not taken after all.
func TestLostWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		sub := subscriptionOf(topicURL, callback)
		e.subs[sub.ID] = sub
		shard := subscription.ShardOf(sub.ID)
		hook := &slowMembers{engine: e, begun: make(chan struct{}), more: make(chan struct{})}
		d, err := dispatch.New(dispatch.Config{}, dispatch.Stores{Log: e, Cursors: hook}, e, s, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- d.Gained(t.Context(), delivery.Tenure{Shard: shard, Epoch: 1}) }()
		<-hook.begun
		d.Lost(shard)
		close(hook.more)
		if err := <-done; !errors.Is(err, delivery.ErrFenced) {
			t.Errorf("Gained: %v", err)
		}
		equal(t, "subscriptions", d.Stats().Subscriptions, 0)
	})
}

// A shard gained again under a later epoch replaces the table of before. It is read anew, and unsaved
// positions of before are saved under neither epoch.
func TestGainedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{FlushInterval: time.Minute}, s)
		sub := d.subscribe(e, callback)
		shard := subscription.ShardOf(sub.ID)
		d.publish("1")
		d.publish("2")
		synctest.Wait()
		sameSeqs(t, "before", s.seqs(), 1, 2)
		e.with(func() {
			e.positions[sub.ID] = delivery.Position{Settled: 1}
			e.epochs[shard]++
		})
		if err := d.Gained(t.Context(), delivery.Tenure{Shard: shard, Epoch: e.epochs[shard]}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sameSeqs(t, "again, from what was stored", s.seqs(), 2)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "saved under the later epoch", e.positions[sub.ID].Settled, 2)
		equal(t, "subscriptions", d.Stats().Subscriptions, 1)
		d.publish("3")
		synctest.Wait()
		sameSeqs(t, "what is new, once", s.seqs(), 3)
		equal(t, "shards", d.Stats().Shards, subscription.Shards)
	})
}

// Another process has published: this one hears of it, or finds out by itself.
func TestPublishedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		d.subscribe(e, callback)
		other := start(t, newEngine(), dispatch.Config{}, s) // it knows nothing of this topic
		publish := func() delivery.Seq {
			r, err := e.Append(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL)}, newID(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return r.Seq
		}
		synctest.Wait()
		first := publish()
		synctest.Wait()
		sameSeqs(t, "not told", s.seqs())
		d.Published(topicURL, first)
		other.Published(topicURL, first)
		synctest.Wait()
		sameSeqs(t, "told", s.seqs(), 1)
		d.Published(topicURL, first) // again, late
		publish()
		publish()
		d.Refresh()
		synctest.Wait()
		sameSeqs(t, "found", s.seqs(), 2, 3)
	})
}

// Ten thousand topics are looked at in a handful of calls; one that cannot be read
// holds up none of the others.
func TestRefreshIsFewCalls(t *testing.T) {
	const topics = 10_000
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		of := func(i int) string { return fmt.Sprintf("https://source.example/%05d/", i) }
		for i := range topics {
			d.Activated(subscriptionOf(of(i), callback))
		}
		synctest.Wait()
		calls := func() []int {
			var calls []int
			e.with(func() { calls, e.headCalls = e.headCalls, nil })
			return calls
		}
		calls()
		for i := range topics {
			if i%1000 == 500 {
				if _, err := e.Append(t.Context(), delivery.Publication{Topic: topic.Parse(of(i))}, newID(), time.Now()); err != nil {
					t.Fatal(err)
				}
			}
		}
		d.Refresh()
		synctest.Wait()
		equal(t, "delivered", len(s.take()), 10)
		all := 0
		made := calls()
		for _, n := range made {
			all += n
		}
		equal(t, "calls", len(made), 10)
		equal(t, "heads", all, topics)

		e.with(func() { e.headErr, e.headless = errOdd, of(77) })
		for _, i := range []int{76, 77, 78} {
			if _, err := e.Append(t.Context(), delivery.Publication{Topic: topic.Parse(of(i))}, newID(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		d.Refresh()
		synctest.Wait()
		equal(t, "delivered beside one that cannot be read", len(s.take()), 2)
		if n := len(calls()); n > 40 {
			t.Errorf("%d calls for one topic that cannot be read", n)
		}
		equal(t, "failures counted", d.metric("read_failures_total", ""), 1)
		e.with(func() { e.headErr = nil })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		equal(t, "delivered when it can be", len(s.take()), 1)
	})
}

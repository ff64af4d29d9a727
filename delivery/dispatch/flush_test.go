package dispatch_test

import (
	"context"
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
)

// slowMembers stops before it gives the members of a shard.
type slowMembers struct {
	*engine
	begun, more chan struct{}
}

func (s *slowMembers) Members(ctx context.Context, shard subscription.Shard) iter.Seq2[delivery.Member, error] {
	return func(yield func(delivery.Member, error) bool) {
		close(s.begun)
		<-s.more
		s.engine.Members(ctx, shard)(yield)
	}
}

func TestFlushTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		d := start(t, e, dispatch.Config{}, &attempts{})
		for i := range 100 {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		d.publish("x")
		d.publish("y")
		synctest.Wait()
		equal(t, "saves before the interval", e.saves, 0)
		equal(t, "unsaved", d.Stats().Unsaved, 200)
		equal(t, "unsaved, as shown", d.metric("unsaved", ""), 200)
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		equal(t, "saves", e.saves, 1)
		equal(t, "positions", len(e.positions), 100)
		equal(t, "unsaved", d.Stats().Unsaved, 0)
		time.Sleep(time.Hour)
		equal(t, "saves with nothing new", e.saves, 1)
	})
}

// Half of FlushCount is saved without waiting, and FlushCount is never passed
// by more than what is in flight.
func TestFlushCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{FlushCount: 10, FlushInterval: time.Hour, MaxInFlight: 3, MaxSlow: -1}, s)
		d.subscribe(e, callback)
		for range 4 {
			d.publish("x")
		}
		synctest.Wait()
		equal(t, "saves below half", e.saves, 0)
		d.publish("x")
		synctest.Wait()
		equal(t, "saves at half", e.saves, 1)

		e.with(func() { e.saveErr = errAway })
		for i := range 40 {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		s.take()
		d.publish("y")
		synctest.Wait()
		if n := len(s.take()); n > 10+3 {
			t.Errorf("%d deliveries without a save, FlushCount is 10 and 3 may be in flight", n)
		}
	})
}

func TestSaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, callback)
		e.with(func() { e.saveErr = errAway })
		d.publish("1")
		time.Sleep(time.Second)
		synctest.Wait()
		equal(t, "paused", d.Stats().Paused, true)
		equal(t, "paused, as shown", d.metric("paused", ""), 1)
		sameSeqs(t, "delivered", s.seqs(), 1)
		d.publish("2") // durable, whatever the cursors do
		time.Sleep(time.Minute)
		synctest.Wait()
		sameSeqs(t, "while nothing can be saved", s.seqs())
		if d.metric("flush_failures_total", "") < 5 {
			t.Error("it was not tried again")
		}
		e.with(func() { e.saveErr = nil })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		sameSeqs(t, "afterwards", s.seqs(), 2)
		equal(t, "saved", e.positions[sub.ID].Settled, 2)
		equal(t, "paused", d.Stats().Paused, false)
		equal(t, "paused, as shown", d.metric("paused", ""), 0)
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{DrainTimeout: 10 * time.Second}, s)
		s.setAnswer(func(ctx context.Context, a *send.Attempt) send.Outcome {
			select {
			case <-time.After(map[string]time.Duration{callback: 5 * time.Second}[a.Callback] + time.Second):
				return delivered
			case <-ctx.Done():
				return send.Outcome{Err: ctx.Err()}
			}
		})
		slow := d.subscribe(e, callback)
		s2 := d.subscribe(e, "https://two.example/")
		d.publish("1")
		d.publish("2")
		synctest.Wait()
		begun := time.Now()
		d.stop()
		equal(t, "end after the slowest", time.Since(begun), 6*time.Second)
		equal(t, "saved, slow", e.positions[slow.ID].Settled, 1)
		equal(t, "saved", e.positions[s2.ID].Settled, 1)
		equal(t, "attempts: none starts after the end", len(s.take()), 2)

		hang := start(t, e, dispatch.Config{DrainTimeout: 10 * time.Second}, sendFunc(
			func(ctx context.Context, _ *send.Attempt) send.Outcome {
				<-ctx.Done()
				return send.Outcome{Err: ctx.Err()}
			}))
		synctest.Wait()
		equal(t, "in flight", hang.Stats().InFlight, 2)
		begun = time.Now()
		hang.stop()
		equal(t, "end at the limit", time.Since(begun), 10*time.Second)
		equal(t, "broken off is not a failure", e.positions[slow.ID], delivery.Position{Settled: 1})
	})
}

// A call that hangs in the engine does not hold up the end, if it keeps to its context.
func TestEndWhileASaveHangs(t *testing.T) {
	for name, wait := range map[string]time.Duration{"before the end": time.Second, "at the end": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				e.slowSave = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
				d := start(t, e, dispatch.Config{DrainTimeout: 2 * time.Second}, &attempts{})
				d.subscribe(e, callback)
				d.publish("x")
				time.Sleep(wait)
				synctest.Wait()
				begun := time.Now()
				d.stop()
				equal(t, "end", time.Since(begun), 5*time.Second)
				if !strings.Contains(d.logs.String(), "some deliveries will come twice") {
					t.Errorf("the log does not say so: %s", d.logs)
				}
			})
		})
	}
}

// A Save that is under way at the end is not broken off.
func TestEndWhileASaveIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.slowSave = func(ctx context.Context) error { time.Sleep(3 * time.Second); return ctx.Err() }
		d := start(t, e, dispatch.Config{}, &attempts{})
		sub := d.subscribe(e, callback)
		d.publish("x")
		time.Sleep(time.Second)
		d.stop()
		equal(t, "saves", e.saves, 1)
		equal(t, "saved", e.positions[sub.ID].Settled, 1)
	})
}

// Outcomes that cannot be saved any more, as their shard is lost, do not hold up others.
func TestUnsavedOutcomesGoWithTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		d := start(t, e, dispatch.Config{HandoverTimeout: time.Second}, &attempts{})
		sub := d.subscribe(e, callback)
		e.with(func() { e.saveErr = errAway })
		d.publish("x")
		time.Sleep(time.Second)
		synctest.Wait()
		equal(t, "unsaved", d.Stats().Unsaved, 1)
		d.Lost(subscription.ShardOf(sub.ID))
		equal(t, "unsaved after the loss", d.Stats().Unsaved, 0)
		e.with(func() { e.saveErr = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "unsaved at the end", d.Stats().Unsaved, 0)
	})
}

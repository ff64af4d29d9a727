package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
)

// regain loses a shard and gains it again while its Save hangs, under an epoch that is higher by so
// much.
func (r *running) regain(e *engine, shard subscription.Shard, by uint64) {
	r.t.Helper()
	r.Lost(shard) // waits for HandoverTimeout
	e.with(func() { e.slowSave = nil; e.epochs[shard] += by })
	if err := r.Gained(r.t.Context(), delivery.Tenure{Shard: shard, Epoch: e.epochs[shard]}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	equal(r.t, "shards once it is gained again", r.Stats().Shards, subscription.Shards)
}

// A Save that is refused under an old epoch, and reports that after the shard was lost and
// gained again, drops nothing of the new tenure.
func TestRefusedAfterGainedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{HandoverTimeout: 5 * time.Second}, s)
		sub := d.subscribe(e, callback)
		e.with(func() {
			e.slowSave = func(context.Context) error { time.Sleep(8 * time.Second); return nil }
		})
		d.publish("1")
		time.Sleep(time.Second) // a Save is under way
		synctest.Wait()
		d.regain(e, subscription.ShardOf(sub.ID), 2) // another process had it in between
		time.Sleep(time.Minute)                      // the Save is refused meanwhile
		synctest.Wait()
		sameSeqs(t, "delivered, again as it was not saved", s.seqs(), 1, 1)
		equal(t, "shards after the late refusal", d.Stats().Shards, subscription.Shards)
		d.publish("2")
		synctest.Wait()
		sameSeqs(t, "delivered", s.seqs(), 2)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "saved", e.positions[sub.ID].Settled, 2)
		equal(t, "unsaved", d.Stats().Unsaved, 0)
	})
}

// A Save that fails after its shard was lost and gained again leaves nothing to be saved in the new
// tenure, even under the same epoch: that goes by what was stored.
func TestFailedAfterGainedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d := start(t, e, dispatch.Config{
			HandoverTimeout: 5 * time.Second, RetryFor: time.Nanosecond, RetryFirst: time.Millisecond, RetryMax: time.Millisecond,
		}, s)
		sub := d.subscribe(e, callback)
		e.with(func() {
			e.slowSave = func(context.Context) error { time.Sleep(8 * time.Second); return errAway }
		})
		d.publish("1")
		time.Sleep(time.Second) // it is given up, which is being saved
		synctest.Wait()
		equal(t, "given up", d.metric("gaps_total", "given_up"), 1)
		s.setAnswer(nil)
		s.take()
		d.regain(e, subscription.ShardOf(sub.ID), 0)
		sameSeqs(t, "delivered after all", s.seqs(), 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		e.with(func() { equal(t, "gaps", len(e.gaps), 0) })
		equal(t, "saved", e.positions[sub.ID].Settled, 1)
		equal(t, "unsaved", d.Stats().Unsaved, 0)
	})
}

// held answers when it is let go; later attempts succeed at once.
func held(outcome send.Outcome) (answer func(context.Context, *send.Attempt) send.Outcome, letGo func()) {
	first, hold := make(chan struct{}, 1), make(chan struct{})
	first <- struct{}{}
	return func(context.Context, *send.Attempt) send.Outcome {
		select {
		case <-first:
			<-hold
			return outcome
		default:
			return delivered
		}
	}, func() { close(hold) }
}

// An attempt that hangs while its shard is lost and gained again, or while its subscription ends and
// begins anew, keeps deliveries one at a time: the next one begins when it has ended.
func TestOneAtATimeOverTenures(t *testing.T) {
	for name, c := range map[string]struct {
		again func(d *running, e *engine, sub subscription.Subscription)
		want  []delivery.Seq
	}{
		"gained again": {func(d *running, e *engine, sub subscription.Subscription) {
			d.regain(e, subscription.ShardOf(sub.ID), 1)
		}, []delivery.Seq{1, 2}},
		"subscribed again": {func(d *running, e *engine, sub subscription.Subscription) {
			e.with(func() { delete(e.subs, sub.ID) })
			d.Ended(sub.ID)
			d.subscribe(e, sub.Callback)
		}, []delivery.Seq{2}},
	} {
		for _, outcome := range []send.Outcome{delivered, broken} {
			t.Run(name+", "+outcome.Class.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e, s := newEngine(), &attempts{}
					d := start(t, e, dispatch.Config{}, s)
					answer, letGo := held(outcome)
					s.setAnswer(answer)
					sub := d.subscribe(e, callback)
					d.publish("1")
					synctest.Wait()
					s.take()
					c.again(d, e, sub)
					d.publish("2")
					time.Sleep(time.Minute)
					synctest.Wait()
					sameSeqs(t, "while the first hangs", s.seqs())
					if err := d.RetryNow(t.Context(), sub.ID); err == nil {
						t.Error("RetryNow makes an attempt beside it")
					}
					letGo()
					synctest.Wait()
					sameSeqs(t, "when it has ended", s.seqs(), c.want...)
					equal(t, "in flight", d.Stats().InFlight, 0)
					position, _ := d.Position(sub.ID)
					equal(t, "failures of what is new", position.Failures, 0)
				})
			})
		}
	}
}

// A 410 from a callback whose shard has moved to another process ends nothing here: the owner
// of the shard gets its own 410.
func TestGoneAfterTheShard(t *testing.T) {
	for name, again := range map[string]bool{"lost": false, "gained again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := newEngine(), &attempts{}
				d := start(t, e, dispatch.Config{}, s)
				answer, letGo := held(gone)
				s.setAnswer(answer)
				sub := d.subscribe(e, callback)
				d.publish("1")
				synctest.Wait()
				if again {
					d.regain(e, subscription.ShardOf(sub.ID), 1)
				} else {
					d.Lost(subscription.ShardOf(sub.ID))
				}
				letGo()
				synctest.Wait()
				e.with(func() { equal(t, "subscriptions that are stored", len(e.subs), 1) })
			})
		})
	}
}

// A gap of an earlier subscription with the same ID does not become one of the next, whether
// that is saved yet, being saved, or could not be.
func TestGapOfAnEarlierLife(t *testing.T) {
	for name, saving := range map[string]func(context.Context) error{
		"not saved yet": nil,
		"not saved":     func(context.Context) error { time.Sleep(time.Second); return errAway },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := newEngine(), &attempts{}
				d := start(t, e, dispatch.Config{
					FlushInterval: time.Second, RetryFor: time.Nanosecond, RetryFirst: time.Millisecond, RetryMax: time.Millisecond,
				}, s)
				s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
				sub := d.subscribe(e, callback)
				if saving != nil {
					e.with(func() { e.slowSave = saving })
				}
				d.publish("1")
				time.Sleep(500 * time.Millisecond)
				if saving != nil {
					time.Sleep(time.Second)
				}
				synctest.Wait()
				equal(t, "given up", d.metric("gaps_total", "given_up"), 1)
				e.with(func() { delete(e.subs, sub.ID); delete(e.positions, sub.ID) })
				d.Ended(sub.ID)
				d.subscribe(e, callback)
				s.setAnswer(nil)
				s.take()
				e.with(func() { e.slowSave = nil })
				d.publish("2")
				time.Sleep(time.Minute)
				synctest.Wait()
				sameSeqs(t, "delivered", s.seqs(), 2)
				wantGaps(t, "the new one", e.gapsOf(sub.ID))
				equal(t, "saved", e.positions[sub.ID].Settled, 2)
			})
		})
	}
}

package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
)

// A retry comes at once, and changes nothing about those that come by themselves; where
// there is nothing to retry that is said.
func TestRetryNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{RetryFirst: time.Hour, RetryMax: 2 * time.Hour}, s)
		sub := d.subscribe(e, callbackIn(0, 0))
		wrong := func(what string, id subscription.ID, want error) {
			t.Helper()
			if err := d.RetryNow(t.Context(), id); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", what, err, want)
			}
		}
		wrong("everything is delivered", sub.ID, delivery.ErrNothingToDo)
		wrong("nobody subscribed", newID(), delivery.ErrNoSubscription)
		hang := make(chan struct{})
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { <-hang; return broken })
		d.publish("x")
		synctest.Wait()
		wrong("one is under way", sub.ID, delivery.ErrUnderWay)
		close(hang)
		synctest.Wait()
		s.take()
		before, _ := d.Position(sub.ID)
		for range 3 {
			if err := d.RetryNow(t.Context(), sub.ID); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got := s.take()
			if len(got) != 1 || got[0].number != 2 {
				t.Fatalf("attempts after a retry: %+v, want one with number 2", got)
			}
			if p, _ := d.Position(sub.ID); p != before {
				t.Fatalf("after a retry that failed it stands at %+v; before, at %+v", p, before)
			}
		}
		s.setAnswer(nil)
		if err := d.RetryNow(t.Context(), sub.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, "delivered", len(s.take()), 1)
		time.Sleep(24 * time.Hour)
		equal(t, "attempts afterwards", len(s.take()), 0)
		d.Lost(subscription.ShardOf(sub.ID))
		wrong("the shard is another's", sub.ID, delivery.ErrNotHeld)
	})
}

// One of many that wait for a host which is allowed a single attempt at a time comes
// before the others, and beside one that hangs.
func TestRetryNowOfABusyHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{RetryFirst: time.Hour, RetryMax: time.Hour, MaxPerHost: 8, SlowAfter: 48 * time.Hour}, s)
		var subs []subscription.Subscription
		for i := range 50 {
			subs = append(subs, d.subscribe(e, fmt.Sprintf("https://one.example/%d", i)))
		}
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d.publish("x")
		synctest.Wait()
		equal(t, "attempts", len(s.take()), 50)
		hang := make(chan struct{})
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { <-hang; return broken })
		var first []attempt
		for len(first) == 0 {
			time.Sleep(time.Minute)
			first = s.take()
		}
		equal(t, "attempts at a time", len(first), 1)
		s.setAnswer(nil)
		var hurried []string
		for _, sub := range subs {
			if p, _ := d.Position(sub.ID); p.NextAttempt.After(time.Now()) && len(hurried) < 3 {
				if err := d.RetryNow(t.Context(), sub.ID); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				hurried = append(hurried, sub.Callback)
			}
		}
		got := s.take()
		equal(t, "attempts beside the one that hangs", len(got), 3)
		for i := range got {
			equal(t, "callback", got[i].callback, hurried[i])
		}
		close(hang)
	})
}

// A retry by hand that fails leaves the planned attempt where it is, and that one counts as ever. The
// callback's Retry-After is heeded.
func TestRetryNowKeepsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{RetryFirst: time.Hour, RetryMax: 8 * time.Hour}, s)
		sub := d.subscribe(e, callbackIn(0, 0))
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d.publish("x")
		synctest.Wait()
		planned, _ := d.Position(sub.ID)
		retry := func() delivery.Position {
			t.Helper()
			if err := d.RetryNow(t.Context(), sub.ID); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			p, _ := d.Position(sub.ID)
			return p
		}
		equal(t, "the plan after a retry", retry(), planned)
		hang := make(chan struct{})
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { <-hang; return broken })
		equal(t, "the plan while a retry is under way", retry(), planned)
		if now, ok := d.Standing(sub.ID); !ok || !now.Position.NextAttempt.IsZero() {
			t.Errorf("while a retry is under way the next attempt is shown at %s", now.Position.NextAttempt)
		}
		close(hang)
		synctest.Wait()
		s.take()
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		time.Sleep(time.Until(planned.NextAttempt))
		synctest.Wait()
		equal(t, "attempts at the planned time", len(s.take()), 1)
		after, _ := d.Position(sub.ID)
		equal(t, "failures after it", after.Failures, planned.Failures+1)

		asked := broken
		asked.RetryAfter = 7 * time.Hour
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return asked })
		p := retry()
		equal(t, "failures after a retry", p.Failures, after.Failures)
		equal(t, "the next attempt", p.NextAttempt, time.Now().Add(7*time.Hour))
	})
}

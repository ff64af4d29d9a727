package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// A retry comes at once, and counts what failed before; where there is nothing to retry
// that is said.
func TestRetryNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, delivery.Config{RetryFirst: time.Hour, RetryMax: 2 * time.Hour}, s)
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
		s.setAnswer(func(context.Context, *delivery.Attempt) delivery.Outcome { <-hang; return broken })
		d.publish("x")
		synctest.Wait()
		wrong("one is under way", sub.ID, delivery.ErrUnderWay)
		close(hang)
		synctest.Wait()
		s.take()
		for number := uint32(2); number < 5; number++ {
			if err := d.RetryNow(t.Context(), sub.ID); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got := s.take()
			if len(got) != 1 || got[0].number != number {
				t.Fatalf("attempts after a retry: %+v, want one with number %d", got, number)
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
		d := start(t, e, delivery.Config{RetryFirst: time.Hour, RetryMax: time.Hour, MaxPerHost: 8, SlowAfter: 48 * time.Hour}, s)
		var subs []subscription.Subscription
		for i := range 50 {
			subs = append(subs, d.subscribe(e, fmt.Sprintf("https://one.example/%d", i)))
		}
		s.setAnswer(func(context.Context, *delivery.Attempt) delivery.Outcome { return broken })
		d.publish("x")
		synctest.Wait()
		equal(t, "attempts", len(s.take()), 50)
		hang := make(chan struct{})
		s.setAnswer(func(context.Context, *delivery.Attempt) delivery.Outcome { <-hang; return broken })
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

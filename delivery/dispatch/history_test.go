package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/report"
	"carillon/delivery/send"
	"carillon/subscription"
)

// The latest attempts are remembered with all that an operator asks of them, and those
// that failed stay though many others deliver.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{RetryFirst: time.Minute}, s)
		sub := d.subscribe(e, "https://one.example/hook")
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			time.Sleep(20 * time.Millisecond)
			if a.Callback == sub.Callback && a.Notification.Seq == 1 && a.Number == 1 {
				return send.Outcome{Class: delivery.ClassRefused, Err: errors.New(`broken: "what a stranger said"`)}
			}
			if a.Callback == sub.Callback && a.Notification.Seq == 1 && a.Number == 2 {
				return broken
			}
			return delivered
		})
		d.publish("x")
		time.Sleep(time.Hour)
		for i := range 3000 {
			d.subscribe(e, fmt.Sprintf("https://other.example/%d", i))
		}
		for range 8 {
			d.publish("y")
			time.Sleep(time.Hour)
		}
		got := d.Attempts(sub.ID)
		if len(got) < 3 {
			t.Fatalf("%d attempts are remembered: %+v", len(got), got)
		}
		for i := 1; i < len(got); i++ {
			if got[i].At.After(got[i-1].At) {
				t.Errorf("%+v comes after %+v", got[i], got[i-1])
			}
		}
		last := got[0]
		last.At = time.Time{}
		equal(t, "the last", last, report.Attempt{
			Took: 20 * time.Millisecond, Seq: 9, Number: 1, Class: delivery.ClassDelivered, Status: 200,
		})
		failed := slices.DeleteFunc(got, func(a report.Attempt) bool { return a.Class == delivery.ClassDelivered })
		if len(failed) != 2 {
			t.Fatalf("failures went: %+v", failed)
		}
		equal(t, "status", failed[0].Status, 500)
		equal(t, "number", failed[0].Number, 2)
		equal(t, "class", failed[1].Class, delivery.ClassRefused)
		equal(t, "error", failed[1].Error, "broken: …")
	})
}

// Of many subscriptions in a busy hub most are still shown their last delivery.
func TestAttemptsOfABusyHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const subscribers = 10_000
		e := newEngine()
		d := start(t, e, dispatch.Config{}, &attempts{})
		var ids []subscription.ID
		for i := range subscribers {
			sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/%d", i%100, i))
			d.Activated(sub)
			ids = append(ids, sub.ID)
		}
		for range 2 {
			d.publish("x")
			synctest.Wait()
		}
		shown := 0
		for _, id := range ids {
			if len(d.Attempts(id)) > 0 {
				shown++
			}
		}
		if shown < subscribers*8/10 {
			t.Errorf("%d of %d are shown something", shown, subscribers)
		}
	})
}

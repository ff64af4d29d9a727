package delivery_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// A retry that leaves the last slot of its host to a fresh one is not forgotten
// when that one ends in the queue.
func TestRetryBehindOneThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		const retried, ends, holds = "https://h.example/retried", "https://h.example/ends", "https://other.example/"
		release := make(chan struct{})
		s.setAnswer(func(_ context.Context, a *delivery.Attempt) delivery.Outcome {
			switch {
			case a.Callback == holds:
				<-release
			case a.Callback == retried && a.Number < 3:
				return delivery.Outcome{Class: delivery.ClassServerError, Status: 503, RetryAfter: time.Minute}
			}
			return delivered
		})
		d := start(t, e, delivery.Config{MaxInFlight: 1, MaxSlow: -1}, s)
		publishTo := func(callback string) subscription.ID {
			sub := subscriptionOf(topicURL+callback, callback)
			d.Activated(sub)
			if _, err := d.Publish(t.Context(), delivery.Publication{Topic: sub.Topic}); err != nil {
				t.Fatal(err)
			}
			return sub.ID
		}
		id := publishTo(retried)
		time.Sleep(90 * time.Second) // two failures: the host's latest attempt was a retry
		publishTo(holds)
		synctest.Wait()
		ended := publishTo(ends)
		time.Sleep(time.Minute) // the third attempt is due
		synctest.Wait()
		equal(t, "waiting for the slot", d.Stats().Ready, 2)
		d.Ended(ended)
		close(release)
		synctest.Wait()
		p, _ := d.Position(id)
		equal(t, "settled", p.Settled, 1)
	})
}

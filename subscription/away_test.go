package subscription_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/subscription"
)

// A renewal does not fail because the topic's server is away: the callback
// would take hub.mode=denied as final though its subscription lives on.
func TestRenewWhileTheTopicIsAway(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		h.submit(subscribe(callback, "old"))
		synctest.Wait()
		first := h.mustBeActive(callback)
		h.validate = func(context.Context, string) error { return errAway }
		pass(time.Hour)
		h.submit(subscribe(callback, "new"))
		pass(5 * time.Minute)
		got := h.mustBeActive(callback)
		if got.Secret != "new" || !got.Expires.After(first.Expires) || got.Start != first.Start {
			t.Errorf("got %+v, was %+v", got, first)
		}
		h.mustBeSettled()
		h.mustCount("denied", 0)
	})
}

// Nor is it renewed once its lease is over: then it is a new subscription.
func TestSubscribeAgainWhileTheTopicIsAway(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.SweepInterval = 1000 * time.Hour
		h.run()
		h.submit(subscribe(callback, "old"))
		synctest.Wait()
		h.validate = func(context.Context, string) error { return errAway }
		pass(subscription.DefaultLease)
		h.submit(subscribe(callback, "new"))
		pass(5 * time.Minute)
		h.mustCount("denied", 1)
		h.mustCount("renewed", 0)
	})
}

// A topic check that has no time does not count against the topic.
func TestTopicCheckBusy(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		var busy atomic.Bool
		busy.Store(true)
		h.validate = func(context.Context, string) error {
			if busy.Load() {
				return subscription.ErrBusy
			}
			return nil
		}
		h.run()
		h.submit(subscribe(callback, ""))
		pass(10 * time.Minute)
		h.mustCount("denied", 0)
		busy.Store(false)
		pass(time.Minute)
		h.mustBeActive(callback)
	})
}

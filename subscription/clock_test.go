package subscription_test

import (
	"sync/atomic"
	"testing"
	"time"

	"carillon/subscription"
)

// A clock that is set forward for a while ends no subscription; one that stays there does, after an
// hour.
func TestClockSetForward(t *testing.T) {
	for name, back := range map[string]bool{"and back": true, "and left there": false} {
		t.Run(name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.only = []subscription.Shard{shardOf(callback)}
				var ahead atomic.Int64
				h.cfg.Clock = func() time.Time { return time.Unix(0, time.Now().UnixNano()+ahead.Load()) }
				h.run()
				h.submit(subscribe(callback, ""))
				pass(time.Minute)
				ahead.Store(int64(2 * subscription.DefaultLease))
				pass(50 * time.Minute)
				h.mustBeActive(callback)
				if back {
					ahead.Store(0)
				}
				pass(12 * time.Hour)
				if n := len(h.roster.members()); back && n != 1 || !back && n != 0 {
					t.Errorf("%d are active", n)
				}
			})
		})
	}
}

// A clock that is set forward while a round is under way ends no subscription: the round goes by the
// time before.
func TestClockSetForwardDuringARound(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		var armed atomic.Bool
		var ahead atomic.Int64
		h.cfg.Clock = func() time.Time {
			now := time.Unix(0, time.Now().UnixNano()+ahead.Load())
			if armed.Load() {
				ahead.Store(int64(2 * subscription.DefaultLease))
			}
			return now
		}
		h.run()
		h.submit(subscribe(callback, ""))
		pass(time.Minute)
		armed.Store(true)
		pass(50 * time.Minute)
		h.mustBeActive(callback)
		pass(time.Hour)
		if n := len(h.roster.members()); n != 0 {
			t.Errorf("%d are active long after the clock was set", n)
		}
	})
}

// A lease that is granted while the clock is set back lasts as long as it was to, when the clock is
// set right again.
func TestClockSetBackWhileVerified(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.only = []subscription.Shard{shardOf(callback)}
		var ahead atomic.Int64
		h.cfg.Clock = func() time.Time { return time.Unix(0, time.Now().UnixNano()+ahead.Load()) }
		h.run()
		pass(time.Minute)
		ahead.Store(-int64(2 * subscription.DefaultLease))
		h.submit(subscribe(callback, ""))
		pass(time.Minute)
		ahead.Store(0)
		pass(subscription.DefaultLease - time.Hour)
		h.mustBeActive(callback)
		pass(2 * time.Hour)
		if n := len(h.roster.members()); n != 0 {
			t.Errorf("%d are active when the lease is over", n)
		}
	})
}

// A request while the clock is set forward, and not believed, is a renewal if the lease stands by the
// time before: its subscription keeps its pending notifications.
func TestRenewalWhileClockIsSetForward(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		var behind atomic.Int64
		behind.Store(int64(2 * subscription.DefaultLease))
		h.cfg.Clock = func() time.Time { return time.Unix(0, time.Now().UnixNano()-behind.Load()) }
		h.run()
		h.submit(subscribe(callback, "one"))
		pass(time.Minute)
		h.roster.set(headAfter, nil)
		behind.Store(0)
		h.submit(subscribe(callback, "two"))
		pass(time.Minute)
		h.mustStart(headBefore)
	})
}

// A renewal counts as one also while the clock is set back. An end of the former subscription, after a
// 410 of its callback, leaves the renewed one alone.
func TestRenewedWhileClockIsSetBack(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		var behind atomic.Int64
		h.cfg.Clock = func() time.Time { return time.Unix(0, time.Now().UnixNano()-behind.Load()) }
		h.run()
		behind.Store(int64(time.Hour))
		h.submit(subscribe(callback, ""))
		pass(time.Minute)
		before := h.mustBeActive(callback)
		h.submit(subscribe(callback, ""))
		pass(time.Minute)
		if removed, err := h.service.Remove(t.Context(), before); removed || err != nil {
			t.Errorf("a subscription that was renewed: %v, %v", removed, err)
		}
		h.mustBeActive(callback)
	})
}

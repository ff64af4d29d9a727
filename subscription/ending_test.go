package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon/subscription"
	"carillon/subscription/subscriptiontest"
)

// Leases end within a SweepInterval, in portions, and delivery hears of it
// (WebSub §5.3.1).
func TestExpiry(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.SweepPortion = 10
		h.run()
		for i := range 35 {
			w := subscribe(fmt.Sprintf("http://d%d.example/", i), "")
			w.Lease, w.LeaseGiven = time.Duration(300+i%2)*time.Second, true
			h.submit(w)
		}
		pass(299 * time.Second)
		if n := len(h.roster.members()); n != 35 {
			t.Errorf("%d are active before the end", n)
		}
		pass(12 * time.Second)
		if n, m := len(h.roster.members()), len(h.memory.members()); n != 0 || m != 0 {
			t.Errorf("%d are delivered to and %d stored after the end", n, m)
		}
		if n := h.metric("carillon_subscription_expired_total", ""); n != 35 {
			t.Errorf("%v were counted", n)
		}
	})
}

// A renewal that comes between reading and removing stands.
func TestSweepAndRenewal(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.only = []subscription.Shard{shardOf(callback)}
		store := &hooked{Store: h.memory}
		store.expired = func(subs []subscription.Subscription) {
			if len(subs) > 0 {
				store.expired = nil
				h.submit(subscribe(callback, "renewed"))
				synctest.Wait()
			}
		}
		h.store = store
		h.run()
		h.submit(subscribe(callback, ""))
		pass(subscription.DefaultLease + time.Second)
		pass(time.Minute)
		if sub := h.mustBeActive(callback); sub.Secret != "renewed" {
			t.Errorf("got %+v", sub)
		}
		if n := h.metric("carillon_subscription_expired_total", ""); n != 0 {
			t.Errorf("%v were counted as expired", n)
		}
	})
}

// A renewal that is asked for in time and confirmed after the end of the lease
// carries the subscription on, also if the process ends in between.
func TestRenewalAcrossTheEnd(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.only = []subscription.Shard{shardOf(callback)}
				h.run()
				h.submit(subscribe(callback, ""))
				synctest.Wait()
				first := h.mustBeActive(callback)
				h.roster.set(20, nil)
				h.confirm = func(context.Context, subscription.Request, string) error {
					if time.Now().Before(first.Expires.Add(20 * time.Second)) {
						return errAway
					}
					return nil
				}
				pass(subscription.DefaultLease - 20*time.Second)
				h.submit(subscribe(callback, "renewed"))
				if restart {
					pass(time.Second)
					h.crash()
					pass(30 * time.Second)
					h.run()
				}
				pass(2 * time.Minute)
				if sub := h.mustBeActive(callback); sub.Secret != "renewed" || sub.Start != first.Start || !sub.Created.Equal(first.Created) {
					t.Errorf("got %+v, want a renewal of %+v", sub, first)
				}
				if slices.Contains(h.roster.history(), "ended") {
					t.Errorf("delivery was told %q", h.roster.history())
				}
				h.mustCount("renewed", 1)
			})
		})
	}
}

// A renewal that comes to nothing keeps the subscription no longer, and neither does
// one that takes for ever, nor a request that came after the end. Others are not
// kept by them.
func TestRenewalDoesNotKeepForEver(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		for i := range 9 {
			h.only = append(h.only, shardOf(fmt.Sprintf("http://d%d.example/", i)))
		}
		h.cfg.SweepPortion, h.cfg.PerHost = 2, 1
		h.cfg.Lease.Default = time.Hour
		h.run()
		for i := range 9 {
			h.submit(subscribe(fmt.Sprintf("http://d%d.example/", i), ""))
		}
		synctest.Wait()
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			return errAway
		}
		pass(h.cfg.Lease.Default - 2*time.Minute)
		h.submit(subscribe("http://d8.example/", "fails in time"))
		pass(119 * time.Second)
		for i := range 5 {
			h.submit(subscribe(fmt.Sprintf("http://d%d.example/", i), "renewed"))
		}
		pass(12 * time.Second)
		h.submit(subscribe("http://d8.example/", "too late"))
		if n := len(h.roster.members()); n != 5 {
			t.Errorf("%d last beyond their lease, want those 5 that are being renewed", n)
		}
		pass(2 * time.Minute)
		if n, m := len(h.roster.members()), len(h.memory.members()); n != 0 || m != 0 {
			t.Errorf("%d are delivered to and %d stored when no renewal is left", n, m)
		}
	})
}

// TestRenewalTime bounds how long a renewal that never ends keeps a subscription.
func TestRenewalTime(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.only = []subscription.Shard{shardOf(callback)}
		h.cfg.PerHost = 1
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			if r.Callback != callback {
				return hang(ctx, r, challenge)
			}
			return nil
		}
		pass(subscription.DefaultLease - time.Second)
		for i, n := 0, 0; n < 100; i++ { // the host is busy with these for an hour
			if other := fmt.Sprintf("http://destination.example/%d", i); shardOf(other) == shardOf(callback) {
				h.submit(subscribe(other, ""))
				n++
			}
		}
		synctest.Wait()
		h.submit(subscribe(callback, "renewed"))
		pass(430 * time.Second)
		if sub := h.mustBeActive(callback); sub.Secret != "" {
			t.Errorf("the renewal was not kept waiting: %+v", sub)
		}
		pass(30 * time.Second)
		if sub, found := h.active(callback); found {
			t.Errorf("got %+v", sub)
		}
	})
}

// A new subscription that is confirmed while the old one is being removed: delivery
// hears of the end first and of the beginning then.
func TestSweepAndNewSubscription(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.only = []subscription.Shard{shardOf(callback)}
		h.cfg.SweepInterval = 7 * time.Second // not just when the lease ends
		store := &hooked{Store: h.memory}
		store.removed = func() { <-time.After(time.Second) }
		h.store = store
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		h.confirm = func(context.Context, subscription.Request, string) error {
			for len(h.memory.members()) > 0 {
				<-time.After(time.Millisecond)
			}
			return nil // removed from the store, and delivery does not know yet
		}
		pass(subscription.DefaultLease + time.Second)
		h.submit(subscribe(callback, "new"))
		pass(time.Minute)
		if sub := h.mustBeActive(callback); sub.Secret != "new" {
			t.Errorf("got %+v", sub)
		}
		if want := []string{"activated", "ended", "activated"}; !slices.Equal(h.roster.history(), want) {
			t.Errorf("delivery was told %q, want %q", h.roster.history(), want)
		}
	})
}

// An active subscription can be ended at any time. Its callback gets the denial (WebSub §5.2, H30),
// again if it does not answer.
func TestDeny(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.deny = func(context.Context, string) error {
			if h.timesTold() < 3 {
				return errAway
			}
			return nil
		}
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		sub := h.mustBeActive(callback)
		if err := h.service.Deny(t.Context(), sub, "the topic left"); err != nil {
			t.Fatal(err)
		}
		if _, found := h.active(callback); found {
			t.Error("still active when Deny returned")
		}
		pass(2 * time.Minute)
		if want := slices.Repeat([]denial{{topic, callback, "the topic left"}}, 3); !slices.Equal(h.denials, want) {
			t.Errorf("told %q", h.denials)
		}
		if err := h.service.Deny(t.Context(), sub, "again"); !errors.Is(err, subscription.ErrNotFound) {
			t.Errorf("a second time: %v", err)
		}
		h.mustBeSettled()
		h.mustCount("denied", 0) // that counts requests
	})
}

func TestDenyRenewed(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		sub := h.mustBeActive(callback)
		pass(time.Second)
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		if err := h.service.Deny(t.Context(), sub, "no"); !errors.Is(err, subscription.ErrSuperseded) {
			t.Errorf("got %v", err)
		}
		h.mustBeActive(callback)
	})
}

// A request that comes while the callback gets a denial counts more than the denial, and a pending one
// is not disturbed by it.
func TestDenyAndRequest(t *testing.T) {
	for _, pendingFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("pending first %v", pendingFirst), func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.deny = func(context.Context, string) error { return errAway }
				h.run()
				h.submit(subscribe(callback, ""))
				synctest.Wait()
				sub := h.mustBeActive(callback)
				h.confirm = func(context.Context, subscription.Request, string) error { <-time.After(time.Second); return nil }
				told := 0
				if pendingFirst {
					h.submit(subscribe(callback, "new"))
				}
				if err := h.service.Deny(t.Context(), sub, "no"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !pendingFirst {
					told = 1
					h.submit(subscribe(callback, "new"))
				}
				pass(2 * time.Minute)
				if n := len(h.denials); n != told {
					t.Errorf("told %d times, want %d", n, told)
				}
				if sub := h.mustBeActive(callback); sub.Secret != "new" {
					t.Errorf("got %+v", sub)
				}
				h.mustBeSettled()
			})
		})
	}
}

// Deny may be repeated after trouble with the store, whether it was carried out
// or not, and delivery learns of the end in any case.
func TestDenyFaults(t *testing.T) {
	for _, persisted := range []bool{false, true} {
		for _, repeat := range []bool{false, true} {
			t.Run(fmt.Sprintf("persisted %v, repeated %v", persisted, repeat), func(t *testing.T) {
				inTown(t, func(t *testing.T, h *town) {
					h.store = subscriptiontest.NewFaulty(h.memory, subscriptiontest.Fault{At: 4, Persisted: persisted})
					h.run()
					h.submit(subscribe(callback, ""))
					synctest.Wait()
					sub := h.mustBeActive(callback)
					if err := h.service.Deny(t.Context(), sub, "no"); !errors.Is(err, subscription.ErrUnavailable) {
						t.Fatalf("Deny: %v", err)
					}
					if repeat {
						if err := h.service.Deny(t.Context(), sub, "no"); err != nil {
							t.Fatalf("Deny again: %v", err)
						}
					}
					pass(time.Minute)
					if _, found := h.active(callback); found != (!persisted && !repeat) {
						t.Errorf("active: %v", found)
					}
					if n := len(h.denials); repeat != (n == 1) {
						t.Errorf("told %d times", n)
					}
				})
			})
		}
	}
}

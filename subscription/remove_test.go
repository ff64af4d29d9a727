package subscription_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon/subscription"
	"carillon/subscription/subscriptiontest"
)

// Delivery hears of the effect of Remove, also where the store's answer was lost, and the callback
// gets no denial.
func TestRemove(t *testing.T) {
	for _, c := range []struct {
		name   string
		faulty bool
		fault  subscriptiontest.Fault
	}{
		{name: "no fault"},
		{"not persisted", true, subscriptiontest.Fault{At: 4}}, // after Submit, KeepStart and Activate
		{"persisted", true, subscriptiontest.Fault{At: 4, Persisted: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				if c.faulty {
					h.store = subscriptiontest.NewFaulty(h.memory, c.fault)
				}
				h.run()
				h.submit(subscribe(callback, ""))
				synctest.Wait()
				sub := h.mustBeActive(callback)
				if c.faulty {
					if _, err := h.service.Remove(t.Context(), sub); !errors.Is(err, subscription.ErrUnavailable) {
						t.Fatalf("got error %v", err)
					}
					if n := h.metric("carillon_subscription_store_errors_total", ""); n != 1 {
						t.Errorf("%v store errors were counted", n)
					}
				}
				if removed, err := h.service.Remove(t.Context(), sub); !removed || err != nil {
					t.Errorf("got %v, %v", removed, err)
				}
				if _, found := h.active(callback); found {
					t.Error("still active")
				}
				if removed, err := h.service.Remove(t.Context(), sub); removed || err != nil {
					t.Errorf("a second time: %v, %v", removed, err)
				}
				pass(time.Minute)
				if n := h.timesTold(); n != 0 {
					t.Errorf("the callback was told %d times", n)
				}
			})
		})
	}
}

// A Remove whose answer was lost, and which is not repeated, is found out about.
func TestRemoveInDoubt(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.store = subscriptiontest.NewFaulty(h.memory, subscriptiontest.Fault{At: 4, Persisted: true})
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		if _, err := h.service.Remove(t.Context(), h.mustBeActive(callback)); err == nil {
			t.Fatal("no error")
		}
		pass(time.Minute)
		if _, found := h.active(callback); found {
			t.Error("still active")
		}
	})
}

// A subscription that was renewed since it was read stands, and delivery hears of it.
func TestRemoveOfRenewed(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		old := h.mustBeActive(callback)
		pass(time.Second)
		h.submit(subscribe(callback, "renewed"))
		synctest.Wait()
		if removed, err := h.service.Remove(t.Context(), old); removed || err != nil {
			t.Errorf("got %v, %v", removed, err)
		}
		if sub := h.mustBeActive(callback); sub.Secret != "renewed" {
			t.Errorf("got %+v", sub)
		}
	})
}

// A renewal that is confirmed while the subscription is being removed is a new
// one: it does not take over the start of what is gone, which has no position
// any more.
func TestRemoveAndNewSubscription(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		store := &hooked{Store: h.memory}
		begun := make(chan struct{})
		store.removed = func() { close(begun); <-time.After(time.Second) }
		h.store = store
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		old := h.mustBeActive(callback)
		h.confirm = func(context.Context, subscription.Request, string) error { <-begun; return nil }
		h.roster.set(90, nil)
		h.submit(subscribe(callback, "new"))
		synctest.Wait()
		if removed, err := h.service.Remove(t.Context(), old); !removed || err != nil {
			t.Errorf("got %v, %v", removed, err)
		}
		pass(time.Minute)
		if sub := h.mustBeActive(callback); sub.Secret != "new" || sub.Start != 90 {
			t.Errorf("got %+v", sub)
		}
		if want := []string{"activated", "ended", "activated"}; !slices.Equal(h.roster.history(), want) {
			t.Errorf("delivery was told %q, want %q", h.roster.history(), want)
		}
	})
}

// Remove waits for a call before it no longer than its caller wants.
func TestRemoveGivesUp(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		store := &hooked{Store: h.memory}
		store.submit = func() { <-time.After(3 * time.Second) }
		h.store = store
		h.build()
		sub := subscription.Subscription{ID: subscription.NewID(topic, callback), Topic: topic, Callback: callback}
		done := make(chan error)
		go func() { done <- h.service.Submit(t.Context(), subscribe(callback, "")) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := h.service.Remove(ctx, sub); !errors.Is(err, subscription.ErrUnavailable) || time.Since(begun) != time.Second {
			t.Errorf("got error %v after %s", err, time.Since(begun))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Remove and Deny wait for an earlier call for the same ID. Whether this process is sure of its
// shards counts when that has ended.
func TestRemoveAsksAfterItHasWaited(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, s *subscription.Service, sub subscription.Subscription) error{
		"Remove": func(ctx context.Context, s *subscription.Service, sub subscription.Subscription) error {
			_, err := s.Remove(ctx, sub)
			return err
		},
		"Deny": func(ctx context.Context, s *subscription.Service, sub subscription.Subscription) error {
			return s.Deny(ctx, sub, "it left")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				store := &hooked{Store: h.memory}
				h.store = store
				h.run()
				h.submit(subscribe(callback, ""))
				synctest.Wait()
				sub := h.mustBeActive(callback)
				store.submit = func() { <-time.After(3 * time.Second) }
				submitted, ended := make(chan error), make(chan error)
				go func() { submitted <- h.service.Submit(t.Context(), subscribe(callback, "")) }()
				synctest.Wait() // it has the lock
				h.surety.Sure(time.Now().Add(time.Second))
				go func() { ended <- end(t.Context(), h.service, sub) }()
				if err := <-submitted; err != nil {
					t.Error(err)
				}
				if err := <-ended; !errors.Is(err, subscription.ErrUnavailable) {
					t.Errorf("got error %v", err)
				}
				if n := len(h.memory.members()); n != 1 || h.timesTold() != 0 {
					t.Errorf("%d subscriptions are left, and %d callbacks were told", n, h.timesTold())
				}
			})
		})
	}
}

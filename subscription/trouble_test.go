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

// hooked is a store that lets a test step in.
type hooked struct {
	subscription.Store
	submit    func()                            // before Submit
	submitted func() error                      // after Submit: its error
	activate  activateFunc                      // in the place of Activate
	removed   func()                            // after Remove
	expired   func([]subscription.Subscription) // after Expired
}

type activateFunc func(ctx context.Context, r subscription.Request, sub subscription.Subscription) error

func (s *hooked) Submit(ctx context.Context, r subscription.Request) error {
	if s.submit != nil {
		s.submit()
	}
	err := s.Store.Submit(ctx, r)
	if s.submitted != nil {
		return s.submitted()
	}
	return err
}

func (s *hooked) Activate(ctx context.Context, r subscription.Request, sub subscription.Subscription) error {
	if s.activate != nil {
		return s.activate(ctx, r, sub)
	}
	return s.Store.Activate(ctx, r, sub)
}

func (s *hooked) Remove(ctx context.Context, sub subscription.Subscription) (bool, error) {
	removed, err := s.Store.Remove(ctx, sub)
	if s.removed != nil {
		s.removed()
	}
	return removed, err
}

func (s *hooked) Expired(
	ctx context.Context, shard subscription.Shard, now time.Time, limit int,
) ([]subscription.Subscription, error) {
	subs, err := s.Store.Expired(ctx, shard, now, limit)
	if s.expired != nil {
		s.expired(subs)
	}
	return subs, err
}

// A request that was answered 202 is verified though the process died in between.
func TestCrashBeforeVerification(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.build()
		h.submit(subscribe(callback, "s"))
		h.crash()
		h.service = nil
		h.run()
		synctest.Wait()
		if sub := h.mustBeActive(callback); sub.Secret != "s" {
			t.Errorf("got %+v", sub)
		}
		h.mustBeSettled()
	})
}

// A process that dies during a verification, or after it and before the
// subscription is stored, has changed nothing, and the next asks again.
func TestCrashAroundConfirmation(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		t.Run(fmt.Sprintf("confirmed %v", confirmed), func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.run()
				h.submit(subscribe(callback, "old"))
				synctest.Wait()
				before := h.mustBeActive(callback)
				h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
					if !confirmed {
						return hang(ctx, r, challenge)
					}
					h.memory.setDown(true)
					return nil
				}
				h.submit(subscribe(callback, "new"))
				pass(time.Second)
				h.crash()
				if after := h.mustBeActive(callback); after != before {
					t.Errorf("got %+v, want %+v", after, before)
				}
				h.confirm = nil
				h.run()
				synctest.Wait()
				if sub := h.mustBeActive(callback); sub.Secret != "new" || !sub.Created.Equal(before.Created) {
					t.Errorf("got %+v", sub)
				}
				if n := h.timesAsked(); n != 3 {
					t.Errorf("asked %d times", n)
				}
				h.mustBeSettled()
			})
		})
	}
}

// Stopping waits for what is in flight and leaves the rest to the next start.
func TestStop(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.DrainTimeout = 5 * time.Second
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			if r.Callback != callback {
				return hang(ctx, r, challenge)
			}
			<-time.After(3 * time.Second)
			return nil
		}
		h.run()
		h.submit(subscribe(callback, ""))
		h.submit(subscribe("http://hanging.example/", ""))
		synctest.Wait()
		begun := time.Now()
		h.stop()
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("stopping took %v", took)
		}
		h.mustBeActive(callback)
		if n := h.memory.unsettled(); n != 1 {
			t.Errorf("%d requests are left to the next start, want 1", n)
		}
		h.confirm = nil
		h.run()
		synctest.Wait()
		h.mustBeActive("http://hanging.example/")
	})
}

// A call that never comes back does not keep Run from ending, which says so.
func TestStopIsBounded(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		release := make(chan struct{})
		h.confirm = func(context.Context, subscription.Request, string) error { <-release; return errAway }
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		h.cancel()
		if err := <-h.ended; err == nil {
			t.Error("Run returned nil")
		}
		close(release)
		h.cancel = nil
	})
}

// A store is away at the start, and away after the confirmation: nothing ends, nothing is lost and no
// callback is asked twice.
func TestStoreAway(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.memory.setDown(true)
		h.build()
		if err := h.service.Gained(t.Context(), 0); !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("Gained: %v", err)
		}
		h.start()
		pass(5 * time.Minute)
		if err := h.service.Submit(t.Context(), subscribe(callback, "")); !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("Submit: %v", err)
		}
		h.memory.setDown(false)
		h.gain()
		pass(time.Minute)
		h.confirm = func(context.Context, subscription.Request, string) error { h.memory.setDown(true); return nil }
		h.submit(subscribe(callback, ""))
		pass(time.Hour)
		h.memory.setDown(false)
		pass(time.Minute)
		h.mustBeActive(callback)
		h.mustBeSettled()
		if n := h.timesAsked(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// Without the head of the topic no callback is asked; it is read until it is there.
func TestHeadAway(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.roster.set(0, subscription.ErrUnavailable)
		h.run()
		h.submit(subscribe(callback, ""))
		pass(10 * time.Minute)
		if n := h.timesAsked(); n != 0 {
			t.Errorf("asked %d times", n)
		}
		h.roster.set(12, nil)
		pass(time.Minute)
		if sub := h.mustBeActive(callback); sub.Start != 12 {
			t.Errorf("starts after %d", sub.Start)
		}
	})
}

// A store that hangs is given up after StoreTimeout, and called again.
func TestStoreHangs(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		calls := 0
		h.store = &hooked{Store: h.memory, activate: func(ctx context.Context, r subscription.Request, sub subscription.Subscription) error {
			if calls++; calls < 3 {
				<-ctx.Done()
				return ctx.Err()
			}
			return h.memory.Activate(ctx, r, sub)
		}}
		h.run()
		h.submit(subscribe(callback, ""))
		pass(time.Minute)
		h.mustBeActive(callback)
		if n := h.timesAsked(); n != 1 || calls != 3 {
			t.Errorf("asked %d times, stored %d times", n, calls)
		}
	})
}

// insist submits as a subscriber does that tries again after a 503.
func (h *town) insist(w subscription.Wish) {
	h.t.Helper()
	for range 3 {
		err := h.service.Submit(h.t.Context(), w)
		if err == nil {
			return
		}
		if !errors.Is(err, subscription.ErrUnavailable) {
			h.t.Errorf("Submit: %v", err)
		}
		pass(time.Second)
	}
	h.t.Error("Submit went on failing")
}

// The fault table: each call that changes the store fails once, before or after
// it changed it. The outcome is the same as without a fault, delivery knows what
// the store knows, and each accepted request is verified once.
func TestFaults(t *testing.T) {
	const other, third = "http://other.example/", "http://third.example/"
	for at := 1; at <= 18; at++ {
		for _, persisted := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, persisted %v", at, persisted), func(t *testing.T) {
				inTown(t, func(t *testing.T, h *town) {
					h.store = subscriptiontest.NewFaulty(h.memory, subscriptiontest.Fault{At: at, Persisted: persisted})
					h.cfg.Lease = subscription.LeaseRules{Min: time.Minute}
					h.confirm = func(_ context.Context, r subscription.Request, _ string) error {
						if r.Secret == "bad" {
							return subscription.ErrNoIntent
						}
						return nil
					}
					h.run()
					h.insist(subscribe(callback, "one")) // calls 1 to 3
					pass(time.Minute)
					h.insist(subscribe(callback, "two")) // a renewal: 4 to 6
					pass(time.Minute)
					short := subscribe(other, "")
					short.Lease, short.LeaseGiven = time.Minute, true
					h.insist(short) // 7 to 9, and Remove: 10
					pass(3 * time.Minute)
					if _, found := h.active(other); found {
						t.Error("the lease did not end")
					}
					h.insist(subscribe(callback, "bad")) // 11, 12, and Drop: 13
					pass(time.Minute)
					if sub := h.mustBeActive(callback); sub.Secret != "two" {
						t.Errorf("got %+v", sub)
					}
					h.insist(subscribe(third, "three")) // 14 to 16
					h.insist(unsubscribe(callback))     // 17, 18
					pass(time.Minute)
					if _, found := h.active(callback); found {
						t.Error("still subscribed")
					}
					if sub := h.mustBeActive(third); sub.Secret != "three" {
						t.Errorf("got %+v", sub)
					}
					h.mustBeSettled()
					if n := h.timesAsked(); n != 6 {
						t.Errorf("asked %d times for 6 accepted requests", n)
					}
					for outcome, n := range map[string]float64{
						"activated": 3, "renewed": 1, "unsubscribed": 1, "no_intent": 1, "superseded": 0,
					} {
						h.mustCount(outcome, n)
					}
				})
			})
		}
	}
}

// A Submit that failed but reached the store has not taken the place of the
// request that was accepted before it, and nothing comes of it later.
func TestFailedSubmitSupersedesNothing(t *testing.T) {
	for _, earlier := range []bool{true, false} {
		t.Run(fmt.Sprintf("earlier request %v", earlier), func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				at := 1
				if earlier {
					at = 2
				}
				h.store = subscriptiontest.NewFaulty(h.memory, subscriptiontest.Fault{At: at, Persisted: true})
				h.build()
				h.gain()
				if earlier {
					h.submit(subscribe(callback, "accepted"))
				}
				err := h.service.Submit(t.Context(), subscribe(callback, "refused"))
				if !errors.Is(err, subscription.ErrUnavailable) {
					t.Fatalf("Submit: %v", err)
				}
				h.start()
				pass(time.Minute)
				sub, found := h.active(callback)
				if found != earlier || found && sub.Secret != "accepted" {
					t.Errorf("got %+v, %v", sub, found)
				}
				if n := h.timesAsked(); earlier != (n == 1) {
					t.Errorf("asked %d times", n)
				}
				h.mustBeSettled()
			})
		})
	}
}

// A shard is gained while a request is being stored: the request is carried out
// once if that succeeds, and not at all if it seems to fail.
func TestStartDuringSubmit(t *testing.T) {
	for _, result := range []error{nil, subscription.ErrUnavailable} {
		t.Run(fmt.Sprint(result), func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.store = &hooked{Store: h.memory, submitted: func() error {
					h.start()
					go h.gain()
					<-time.After(time.Second)
					return result
				}}
				h.build()
				if err := h.service.Submit(t.Context(), subscribe(callback, "")); !errors.Is(err, result) {
					t.Errorf("Submit: %v", err)
				}
				pass(time.Minute)
				if _, found := h.active(callback); found != (result == nil) {
					t.Errorf("active: %v", found)
				}
				h.mustCount("superseded", 0)
				h.mustBeSettled()
			})
		})
	}
}

// A subscription that is denied before Run carries on with a request for it: the
// request is not lost.
func TestDenyBeforeStart(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		h.submit(subscribe(callback, "old"))
		synctest.Wait()
		sub := h.mustBeActive(callback)
		h.stop()
		h.build()
		h.submit(subscribe(callback, "new"))
		h.build()
		if err := h.service.Deny(t.Context(), sub, "no"); err != nil {
			t.Fatal(err)
		}
		h.run()
		synctest.Wait()
		if sub := h.mustBeActive(callback); sub.Secret != "new" {
			t.Errorf("got %+v", sub)
		}
		h.mustBeSettled()
	})
}

// A later request takes the place of one that is being verified, or waits to be
// verified again: only the later counts, and the two are never in flight at once.
func TestReplace(t *testing.T) {
	for _, c := range []struct {
		name  string
		first func(ctx context.Context, r subscription.Request, challenge string) error
		asked []subscription.Secret
	}{
		{"while it hangs", hang, []subscription.Secret{"one", "three"}},
		{"while it waits for a retry", func(
			context.Context, subscription.Request, string,
		) error {
			return errAway
		}, []subscription.Secret{"one", "three"}},
		{"just as it is confirmed", func(ctx context.Context, _ subscription.Request, _ string) error {
			<-ctx.Done()
			<-time.After(time.Second) // does not heed ctx at once
			return nil
		}, []subscription.Secret{"one", "three"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
					if r.Secret == "one" {
						return c.first(ctx, r, challenge)
					}
					return nil
				}
				h.run()
				h.submit(subscribe(callback, "one"))
				pass(time.Second)
				// Both come before the first one's goroutine has ended.
				h.submit(subscribe(callback, "two"))
				h.submit(subscribe(callback, "three"))
				pass(20 * time.Second) // one that hangs is not broken off
				if sub := h.mustBeActive(callback); sub.Secret != "three" {
					t.Errorf("got %+v", sub)
				}
				var asked []subscription.Secret
				for _, r := range h.asked {
					if r.Secret != "two" { // may have had its turn in between
						asked = append(asked, r.Secret)
					}
				}
				if !slices.Equal(asked, c.asked) || h.most != 1 {
					t.Errorf("asked %d times, %d at once", len(h.asked), h.most)
				}
				h.mustBeSettled()
				h.mustCount("superseded", 2)
				h.mustCount("activated", 1)
			})
		})
	}
}

// A request that another process replaced is forgotten without a word, and the
// one that took its place is carried out.
func TestReplacedElsewhere(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		later := [16]byte{1}
		h.confirm = func(ctx context.Context, r subscription.Request, _ string) error {
			if r.Token == later {
				return nil
			}
			r.Token = later
			if r.Mode == subscription.ModeSubscribe {
				r.Secret = "later"
			}
			return h.memory.Submit(ctx, r)
		}
		h.run()
		h.submit(subscribe(callback, "earlier"))
		h.submit(unsubscribe("http://other.example/"))
		synctest.Wait()
		if sub := h.mustBeActive(callback); sub.Secret != "later" {
			t.Errorf("got %+v", sub)
		}
		h.mustCount("superseded", 2)
		h.mustCount("activated", 1)
		h.mustCount("unsubscribed", 1)
		h.mustBeSettled()
	})
}

// A subscription that was stored by a call that seemed to fail reaches delivery
// though its request was replaced before the call was repeated.
func TestReplaceInDoubt(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.store = subscriptiontest.NewFaulty(h.memory, subscriptiontest.Fault{At: 3, Persisted: true})
		h.confirm = func(_ context.Context, r subscription.Request, _ string) error {
			if r.Secret == "two" {
				return subscription.ErrNoIntent
			}
			return nil
		}
		h.run()
		h.submit(subscribe(callback, "one"))
		synctest.Wait()
		h.submit(subscribe(callback, "two"))
		pass(time.Minute)
		if sub := h.mustBeActive(callback); sub.Secret != "one" {
			t.Errorf("got %+v", sub)
		}
		h.mustBeSettled()
	})
}

// Before Run: a Submit that fails neither loses the request from before, nor is
// carried out itself though a denial comes on top.
func TestFailedSubmitBeforeStart(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.build()
		h.submit(subscribe(callback, "accepted"))
		h.store = subscriptiontest.NewFaulty(h.memory, subscriptiontest.Fault{At: 1})
		h.build()
		if err := h.service.Submit(t.Context(), subscribe(callback, "refused")); !errors.Is(err, subscription.ErrUnavailable) {
			t.Fatalf("Submit: %v", err)
		}
		h.run()
		synctest.Wait()
		sub := h.mustBeActive(callback)
		if sub.Secret != "accepted" {
			t.Errorf("got %+v", sub)
		}
		h.stop()

		h.store = subscriptiontest.NewFaulty(h.memory, subscriptiontest.Fault{At: 1, Persisted: true})
		h.build()
		h.gain()
		if err := h.service.Submit(t.Context(), subscribe(callback, "refused")); !errors.Is(err, subscription.ErrUnavailable) {
			t.Fatalf("Submit: %v", err)
		}
		if err := h.service.Deny(t.Context(), sub, "no"); err != nil {
			t.Fatal(err)
		}
		h.start()
		synctest.Wait()
		if _, found := h.active(callback); found || h.timesAsked() != 1 || h.timesTold() != 1 {
			t.Errorf("active %v, asked %d times, told %d times", found, h.timesAsked(), h.timesTold())
		}
		h.mustBeSettled()
	})
}

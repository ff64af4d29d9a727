package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/subscription"
)

// shared is one store of several processes, which hear of each other's requests
// unless they are deaf.
type shared struct {
	*memory
	mu   sync.Mutex
	deaf bool
	ears []*town
	full bool // it takes no more requests
}

func (s *shared) setDeaf(deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = deaf
}

func (s *shared) Submit(ctx context.Context, r subscription.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return fmt.Errorf("shard is full: %w", subscription.ErrBusy)
	}
	err := s.memory.Submit(ctx, r)
	if err == nil && !s.deaf {
		for _, h := range s.ears {
			h.service.Requested(r.ID)
		}
	}
	return err
}

// inTowns runs a test with two processes on one store. Neither has a shard.
func inTowns(t *testing.T, test func(t *testing.T, store *shared, a, b *town)) {
	t.Helper()
	inTown(t, func(t *testing.T, a *town) {
		store := &shared{memory: a.memory}
		b := &town{t: t, world: &world{}, memory: a.memory, roster: newRoster(), log: a.log}
		for _, h := range []*town{a, b} {
			h.store = store
			h.build()
			store.ears = append(store.ears, h)
			h.start()
		}
		defer b.stop()
		test(t, store, a, b)
	})
}

// take gives the process a shard, and delivery what it holds, as cmd/hub does.
func (h *town) take(shard subscription.Shard) {
	h.t.Helper()
	if err := h.service.Gained(h.t.Context(), shard); err != nil {
		h.t.Fatalf("Gained: %v", err)
	}
	for id, sub := range h.memory.members() {
		if subscription.ShardOf(id) == shard {
			h.roster.Activated(sub)
		}
	}
}

// leave takes it away again.
func (h *town) leave(shard subscription.Shard) {
	h.service.Lost(shard)
	for id := range h.roster.members() {
		if subscription.ShardOf(id) == shard {
			h.roster.Ended(id)
		}
	}
}

// Any process takes a request, and the owner of its shard carries it out: at the store's call, or when
// it looks, or when it gains the shard.
func TestRequestOfAnother(t *testing.T) {
	for _, how := range []string{"told", "refreshed", "gained"} {
		t.Run(how, func(t *testing.T) {
			inTowns(t, func(t *testing.T, store *shared, a, b *town) {
				store.setDeaf(how != "told")
				if how != "gained" {
					b.take(shardOf(callback))
				}
				a.submit(subscribe(callback, "s"))
				if n := a.metric("carillon_subscription_requests_total", "subscribe"); n != 1 {
					t.Errorf("%v requests were counted where it came in", n)
				}
				if n := a.metric("carillon_subscription_pending", ""); n != 0 {
					t.Errorf("%v are pending where it came in", n)
				}
				pass(time.Minute)
				switch how {
				case "refreshed":
					b.service.Refresh()
				case "gained":
					b.take(shardOf(callback))
				}
				synctest.Wait()
				if sub := b.mustBeActive(callback); sub.Secret != "s" {
					t.Errorf("got %+v", sub)
				}
				if n, m := a.timesAsked(), b.timesAsked(); n != 0 || m != 1 {
					t.Errorf("asked %d times and %d times", n, m)
				}
				b.mustBeSettled()
			})
		})
	}
}

// A request that is replaced through another process counts no more, at whatever stage. The owner
// carries out the replacement, with or without a message about it.
func TestReplacedThroughAnother(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		for name, first := range map[string]func(context.Context, subscription.Request, string) error{
			"while it hangs": hang,
			"while it waits": func(context.Context, subscription.Request, string) error { return errAway },
			"as it is confirmed": func(context.Context, subscription.Request, string) error {
				<-time.After(3 * time.Second)
				return nil
			},
		} {
			t.Run(fmt.Sprintf("%s, deaf %v", name, deaf), func(t *testing.T) {
				inTowns(t, func(t *testing.T, store *shared, a, b *town) {
					store.setDeaf(deaf)
					b.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
						if r.Secret == "one" {
							return first(ctx, r, challenge)
						}
						return nil
					}
					b.take(shardOf(callback))
					b.submit(subscribe(callback, "one"))
					pass(2 * time.Second)
					a.submit(subscribe(callback, "two"))
					if deaf {
						b.service.Refresh()
					}
					pass(20 * time.Second) // one that hangs is not broken off
					if sub := b.mustBeActive(callback); sub.Secret != "two" {
						t.Errorf("got %+v", sub)
					}
					b.mustCount("superseded", 1)
					b.mustCount("activated", 1)
					b.mustBeSettled()
					if b.most != 1 {
						t.Errorf("%d verifications at once", b.most)
					}
				})
			})
		}
	}
}

// A shard that is handed over in the middle of a verification: the callback is asked
// once more by the next owner, and the first one's answer changes nothing.
func TestHandedOver(t *testing.T) {
	for name, slow := range map[string]func(ctx context.Context, r subscription.Request, challenge string) error{
		"heeds": hang,
		"does not heed": func(context.Context, subscription.Request, string) error {
			<-time.After(10 * time.Second)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTowns(t, func(t *testing.T, _ *shared, a, b *town) {
				a.confirm = slow
				a.take(shardOf(callback))
				a.submit(subscribe(callback, "s"))
				pass(time.Second)
				begun := time.Now()
				a.leave(shardOf(callback))
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("Lost took %v", took)
				}
				if n := a.metric("carillon_subscription_pending", ""); n != 0 {
					t.Errorf("%v are pending after the loss", n)
				}
				b.take(shardOf(callback))
				pass(time.Minute)
				b.mustBeActive(callback)
				if n, m := a.timesAsked(), b.timesAsked(); n != 1 || m != 1 {
					t.Errorf("asked %d times and then %d times", n, m)
				}
				a.mustCount("activated", 0)
				b.mustCount("activated", 1)
				if n := len(a.roster.members()); n != 0 {
					t.Errorf("delivery of the former owner has %d subscriptions", n)
				}
			})
		})
	}
}

// A request that waits to be repeated when its shard is lost is not sent by the former owner any more,
// and is sent by it again if the shard comes back.
func TestLostAndBack(t *testing.T) {
	inTowns(t, func(t *testing.T, _ *shared, a, _ *town) {
		a.confirm = func(context.Context, subscription.Request, string) error { return errAway }
		a.take(shardOf(callback))
		a.submit(subscribe(callback, "s"))
		pass(time.Second)
		a.leave(shardOf(callback))
		pass(time.Hour)
		if n := a.timesAsked(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		a.confirm = nil
		a.take(shardOf(callback))
		synctest.Wait()
		a.mustBeActive(callback)
		a.mustBeSettled()
	})
}

// A write under way when the shard is lost is finished, and delivery hears of it before Lost returns.
func TestLostWhileWriting(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.store = &hooked{Store: h.memory, activate: func(ctx context.Context, r subscription.Request, sub subscription.Subscription) error {
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			return h.memory.Activate(ctx, r, sub)
		}}
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		h.service.Lost(shardOf(callback))
		h.mustBeActive(callback)
	})
}

// A store that hangs holds up Lost for no more than a moment.
func TestLostIsBounded(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.store = &hooked{Store: h.memory, activate: func(ctx context.Context, _ subscription.Request, _ subscription.Subscription) error {
			<-time.After(time.Minute)
			return ctx.Err()
		}}
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		begun := time.Now()
		h.service.Lost(shardOf(callback))
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		pass(2 * time.Minute)
	})
}

// A former owner that does not know of its loss settles a request late: the new
// one's delivery is level with the store, whatever itself had found out.
func TestStaleOwnerSettles(t *testing.T) {
	for name, answer := range map[string]error{
		"confirmed here too": nil,
		"refused here":       subscription.ErrNoIntent,
		"no answer here":     errAway,
	} {
		for _, mode := range []subscription.Mode{subscription.ModeSubscribe, subscription.ModeUnsubscribe} {
			t.Run(fmt.Sprintf("%s, %s", name, mode), func(t *testing.T) {
				inTowns(t, func(t *testing.T, _ *shared, a, b *town) {
					shard := shardOf(callback)
					a.take(shard)
					a.submit(subscribe(callback, "old"))
					synctest.Wait()
					stopped := make(chan struct{})
					a.confirm = func(context.Context, subscription.Request, string) error { <-stopped; return nil }
					w := subscribe(callback, "new")
					if w.Mode = mode; mode == subscription.ModeUnsubscribe {
						w.Secret = ""
					}
					a.submit(w)
					pass(time.Second)
					// a is stopped, and knows nothing; b takes over.
					b.confirm = func(context.Context, subscription.Request, string) error {
						if b.timesAsked() == 1 {
							<-time.After(time.Second)
						}
						return answer
					}
					b.take(shard)
					synctest.Wait()
					close(stopped)
					pass(2 * time.Minute)
					sub, found := b.active(callback)
					if found != (mode == subscription.ModeSubscribe) || found && sub.Secret != "new" {
						t.Errorf("got %+v, %v", sub, found)
					}
					b.mustBeSettled()
				})
			})
		}
	}
}

// The other way round: a process that comes late finds that out, and takes up the newer state.
func TestStaleOwnerIsLate(t *testing.T) {
	inTowns(t, func(t *testing.T, store *shared, a, b *town) {
		store.setDeaf(true)
		shard := shardOf(callback)
		a.confirm = func(_ context.Context, r subscription.Request, _ string) error {
			if r.Secret == "one" {
				<-time.After(time.Minute)
			}
			return nil
		}
		a.take(shard)
		a.submit(subscribe(callback, "one"))
		pass(time.Second)
		b.take(shard)
		synctest.Wait()
		b.mustBeActive(callback)
		b.leave(shard)
		b.submit(subscribe(callback, "two"))
		pass(2 * time.Minute)
		if sub := a.mustBeActive(callback); sub.Secret != "two" {
			t.Errorf("got %+v", sub)
		}
		a.mustCount("superseded", 1)
		a.mustBeSettled()
	})
}

// Leases are ended by the owner of their shard, and by no other.
func TestSweptByTheOwner(t *testing.T) {
	inTowns(t, func(t *testing.T, _ *shared, a, b *town) {
		shard := shardOf(callback)
		b.take(shard)
		a.take((shard + 1) % subscription.Shards)
		w := subscribe(callback, "")
		w.Lease, w.LeaseGiven = 10*time.Minute, true
		a.submit(w)
		synctest.Wait()
		b.mustBeActive(callback)
		b.leave(shard)
		pass(20 * time.Minute)
		if n := len(b.memory.members()); n != 1 {
			t.Errorf("%d subscriptions are left without an owner", n)
		}
		b.take(shard)
		pass(time.Minute)
		if _, found := b.active(callback); found {
			t.Error("the lease did not end")
		}
		if n, m := a.metric("carillon_subscription_expired_total", ""), b.metric("carillon_subscription_expired_total", ""); n != 0 || m != 1 {
			t.Errorf("%v and %v were counted", n, m)
		}
	})
}

// A former owner that does not know of its loss sweeps: a subscription that its next owner is renewing
// keeps its place, though this one did not hear of the request.
func TestStaleOwnerSweeps(t *testing.T) {
	inTowns(t, func(t *testing.T, store *shared, a, b *town) {
		shard := shardOf(callback)
		a.take(shard)
		w := subscribe(callback, "s")
		w.Lease, w.LeaseGiven = 10*time.Minute, true
		a.roster.set(5, nil)
		a.submit(w)
		synctest.Wait()
		first := a.mustBeActive(callback)
		b.take(shard)
		b.roster.set(9, nil)
		b.confirm = func(context.Context, subscription.Request, string) error {
			if b.timesAsked() <= 2 {
				return errAway
			}
			return nil
		}
		pass(9*time.Minute + 50*time.Second)
		store.setDeaf(true)
		b.submit(w) // in time: 10 s before the end of the lease
		pass(2 * time.Minute)
		if sub := b.mustBeActive(callback); sub.Start != first.Start || !sub.Expires.After(first.Expires) {
			t.Errorf("it was renewed as %+v, and was %+v", sub, first)
		}
		if n := a.metric("carillon_subscription_expired_total", ""); n != 0 {
			t.Errorf("%v were ended", n)
		}
	})
}

// A process that may have lost its shards without knowing ends no subscription, in no way.
func TestUnsureEndsNothing(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		w := subscribe(callback, "")
		w.Lease, w.LeaseGiven = 10*time.Minute, true
		h.submit(w)
		synctest.Wait()
		sub := h.mustBeActive(callback)
		h.surety.Sure(time.Now().Add(time.Minute))
		pass(time.Minute)
		if err := h.service.Deny(t.Context(), sub, "it left"); !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("Deny: %v", err)
		}
		if removed, err := h.service.Remove(t.Context(), sub); removed || !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("Remove: %v, %v", removed, err)
		}
		pass(20 * time.Minute)
		if n := len(h.memory.members()); n != 1 || h.timesTold() != 0 {
			t.Errorf("%d subscriptions are left, and %d callbacks were told", n, h.timesTold())
		}
		h.surety.Sure(time.Now().Add(time.Hour))
		pass(time.Minute)
		if n := len(h.memory.members()); n != 0 {
			t.Errorf("%d subscriptions are left once it is sure again", n)
		}
	})
}

// listing is a store whose listings are old by the time that they are given.
type listing struct {
	subscription.Store
	listed func() // between the listing and its use
}

func (s *listing) Requests(ctx context.Context, shard subscription.Shard) iter.Seq2[subscription.Request, error] {
	all := maps.Collect(s.Store.Requests(ctx, shard))
	return func(yield func(subscription.Request, error) bool) {
		if len(all) > 0 && s.listed != nil {
			s.listed()
		}
		for r, err := range all {
			if !yield(r, err) {
				return
			}
		}
	}
}

// A listing that is older than what happened since neither repeats what is settled
// nor brings back what was replaced.
func TestOldListing(t *testing.T) {
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprintf("replaced %v", later), func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.confirm = func(context.Context, subscription.Request, string) error { <-time.After(time.Second); return nil }
				store := &listing{Store: h.memory}
				h.store = store
				h.run()
				h.submit(subscribe(callback, "one"))
				synctest.Wait()
				store.listed = func() {
					store.listed = nil
					if later {
						h.submit(subscribe(callback, "two"))
					}
					<-time.After(10 * time.Second)
				}
				h.service.Refresh()
				pass(time.Minute)
				asked, secret := 1, subscription.Secret("one")
				if later {
					asked, secret = 2, "two"
				}
				if sub := h.mustBeActive(callback); sub.Secret != secret || h.timesAsked() != asked {
					t.Errorf("got %+v, asked %d times, want %d", sub, h.timesAsked(), asked)
				}
				h.mustBeSettled()
			})
		})
	}
}

// Refresh and Requested are not lost though the store is away for long, and one of
// them makes good for the other.
func TestRefreshAfterTrouble(t *testing.T) {
	for _, requested := range []bool{false, true} {
		t.Run(fmt.Sprintf("requested %v", requested), func(t *testing.T) {
			inTowns(t, func(t *testing.T, store *shared, a, b *town) {
				store.setDeaf(true)
				b.take(shardOf(callback))
				a.submit(subscribe(callback, ""))
				b.memory.setDown(true)
				if requested {
					b.service.Requested(subscription.NewID(topic, callback))
				} else {
					b.service.Refresh()
				}
				pass(time.Hour)
				b.memory.setDown(false)
				pass(time.Minute)
				b.mustBeActive(callback)
			})
		})
	}
}

// However many requests are reported at once, all arrive, and a report never waits.
func TestManyRequested(t *testing.T) {
	inTowns(t, func(t *testing.T, store *shared, a, b *town) {
		const requests = 10_000
		store.setDeaf(true)
		for shard := range subscription.Shard(subscription.Shards) {
			b.take(shard)
		}
		var ids []subscription.ID
		for i := range requests {
			callback := fmt.Sprintf("http://d%d.example/", i)
			a.submit(subscribe(callback, ""))
			ids = append(ids, subscription.NewID(topic, callback))
		}
		for _, id := range ids {
			b.service.Requested(id)
		}
		pass(time.Second)
		if n := len(b.roster.members()); n != requests {
			t.Errorf("%d of %d are active", n, requests)
		}
	})
}

// A request in another process's shard is refused where the store is full, with
// nothing left of it, and not because of what is pending here.
func TestBusyStore(t *testing.T) {
	inTowns(t, func(t *testing.T, store *shared, a, _ *town) {
		store.full = true
		for range 2 {
			if err := a.service.Submit(t.Context(), subscribe(callback, "")); !errors.Is(err, subscription.ErrBusy) {
				t.Errorf("Submit: %v", err)
			}
			a.take(shardOf(callback))
		}
		if n, m := a.memory.unsettled(), a.metric("carillon_subscription_pending", ""); n != 0 || m != 0 {
			t.Errorf("%d requests are stored, %v pending", n, m)
		}
		if n := a.metric("carillon_subscription_store_errors_total", ""); n != 0 {
			t.Errorf("%v store errors were counted", n)
		}
		a.stop()
		a.confirm = hang
		a.cfg.MaxPending = 1
		a.build()
		a.start()
		a.take(shardOf(callback))
		store.full = false
		a.submit(subscribe(callback, ""))
		for i := range 100 {
			other := fmt.Sprintf("http://d%d.example/", i)
			err := a.service.Submit(t.Context(), subscribe(other, ""))
			if busy := shardOf(other) == shardOf(callback); errors.Is(err, subscription.ErrBusy) != busy {
				t.Errorf("shard %d: %v", shardOf(other), err)
			}
		}
	})
}

// A Submit that fails in another process's shard leaves the stored requests to their owner: those
// accepted before are not lost with it.
func TestFailedSubmitElsewhere(t *testing.T) {
	inTowns(t, func(t *testing.T, store *shared, a, b *town) {
		b.take(shardOf(callback))
		b.confirm = func(context.Context, subscription.Request, string) error { <-time.After(time.Second); return nil }
		a.submit(subscribe(callback, "accepted"))
		failing := &hooked{Store: store, submitted: func() error { return subscription.ErrUnavailable }}
		c := &town{t: t, world: &world{}, memory: a.memory, roster: newRoster(), log: a.log, store: failing}
		c.build()
		if err := c.service.Submit(t.Context(), subscribe(callback, "refused")); !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("Submit: %v", err)
		}
		pass(time.Minute)
		b.mustBeActive(callback)
		b.mustBeSettled()
		if n := c.metric("carillon_subscription_pending", ""); n != 0 {
			t.Errorf("%v are pending", n)
		}
	})
}

// A process that was the owner a moment ago may still deny and remove. The store counts, and the
// callback gets the denial, unless a pending request decides.
func TestDenyAndRemoveElsewhere(t *testing.T) {
	for _, pending := range []bool{false, true} {
		t.Run(fmt.Sprintf("pending %v", pending), func(t *testing.T) {
			inTowns(t, func(t *testing.T, _ *shared, a, _ *town) {
				shard := shardOf(callback)
				a.take(shard)
				a.submit(subscribe(callback, ""))
				synctest.Wait()
				sub := a.mustBeActive(callback)
				a.leave(shard)
				told := 1
				if pending {
					a.submit(subscribe(callback, "new"))
					told = 0
				}
				if err := a.service.Deny(t.Context(), sub, "it left"); err != nil {
					t.Errorf("Deny: %v", err)
				}
				if removed, err := a.service.Remove(t.Context(), sub); removed || err != nil {
					t.Errorf("Remove: %v, %v", removed, err)
				}
				pass(time.Minute)
				if n := a.timesTold(); n != told || len(a.memory.members()) != 0 {
					t.Errorf("told %d times, want %d; %d are stored", n, told, len(a.memory.members()))
				}
			})
		})
	}
}

// A denial that is being sent when its shard is lost is sent to its end, once, and one that waits for
// its next attempt is not sent.
func TestNoticesOfALostShard(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer error
		told   int
	}{{"being told", nil, 1}, {"without answer", errAway, 1}} {
		t.Run(c.name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				var cut error
				h.deny = func(ctx context.Context, _ string) error {
					<-time.After(3 * time.Second)
					cut = ctx.Err()
					return c.answer
				}
				h.run()
				h.submit(subscribe(callback, ""))
				synctest.Wait()
				if err := h.service.Deny(t.Context(), h.mustBeActive(callback), "no"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				h.service.Lost(shardOf(callback))
				pass(5 * time.Minute)
				if n := h.timesTold(); n != c.told || cut != nil {
					t.Errorf("told %d times, want %d; broken off: %v", n, c.told, cut)
				}
				if n := h.metric("carillon_subscription_pending", ""); n != 0 {
					t.Errorf("%v are pending", n)
				}
			})
		})
	}
}

// A call of the store that failed in a shard which is lost then is no concern of this
// process any more.
func TestDoubtsOfALostShard(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		sub := h.mustBeActive(callback)
		h.memory.setDown(true)
		if _, err := h.service.Remove(t.Context(), sub); err == nil {
			t.Fatal("no error")
		}
		h.memory.setDown(false)
		h.service.Lost(shardOf(callback))
		before := h.roster.history()
		pass(time.Minute)
		if after := h.roster.history(); !slices.Equal(before, after) {
			t.Errorf("delivery was told %q, then %q", before, after)
		}
	})
}

// Gained that fails leaves nothing behind, and can be tried again; a shard that
// there is not is an error of another kind.
func TestGainedFails(t *testing.T) {
	inTowns(t, func(t *testing.T, _ *shared, a, _ *town) {
		a.submit(subscribe(callback, ""))
		a.memory.setDown(true)
		if err := a.service.Gained(t.Context(), shardOf(callback)); !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		a.memory.setDown(false)
		a.service.Requested(subscription.NewID(topic, callback))
		a.service.Refresh()
		pass(time.Minute)
		if n := a.timesAsked(); n != 0 {
			t.Errorf("asked %d times without the shard", n)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.service.Gained(done, shardOf(callback)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := a.service.Gained(t.Context(), subscription.Shards); err == nil || errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		a.service.Lost(subscription.Shards)
		a.take(shardOf(callback))
		synctest.Wait()
		a.mustBeActive(callback)
	})
}

package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/subscription"
)

// refuse answers something else than the challenge.
func refuse(context.Context, subscription.Request, string) error { return subscription.ErrNoIntent }

// mustWait checks that Submit refuses the wish for now, and gives how long.
func (h *town) mustWait(w subscription.Wish, want error) time.Duration {
	h.t.Helper()
	err := h.service.Submit(h.t.Context(), w)
	var later *subscription.Later
	if !errors.As(err, &later) || !errors.Is(err, want) {
		h.t.Fatalf("Submit: %v, want %v and how long to wait", err, want)
	}
	return later.After
}

// busiest counts the most verifications that began within any stretch of time as long as d.
func (w *world) busiest(d time.Duration) (most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, from := range w.askedAt {
		n := 0
		for _, at := range w.askedAt[i:] {
			if at.Sub(from) < d {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// A site takes so many pending requests, whatever names and ports its callbacks
// have, a client so many, and others are not touched by that.
func TestPendingPerHostAndClient(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.MaxPendingPerHost, h.cfg.MaxPendingPerClient = 3, 2
		h.confirm = hang
		h.run()
		from := func(client, callback string) subscription.Wish {
			w := subscribe(callback, "")
			w.Client = client
			return w
		}
		h.submit(from("a", "http://one.victim.com/"))
		h.submit(from("a", "https://two.victim.com:8443/"))
		synctest.Wait() // their topic is checked
		if wait := h.mustWait(from("a", "http://elsewhere.com/"), subscription.ErrClientBusy); wait <= 0 {
			t.Errorf("wait %v", wait)
		}
		h.submit(from("b", "http://VICTIM.com./"))
		synctest.Wait()
		if wait := h.mustWait(from("", "http://three.victim.com/"), subscription.ErrHostBusy); wait <= 0 {
			t.Errorf("wait %v", wait)
		}
		h.submit(from("b", "http://elsewhere.com/"))
		// A request that replaces another needs no room, from any client.
		h.submit(from("a", "http://one.victim.com/"))
		h.submit(from("c", "http://VICTIM.com./"))
		pass(5 * time.Minute) // all are settled
		h.mustBeSettled()
		h.confirm = nil
		for i := range 10 {
			h.submit(from("a", fmt.Sprintf("http://%d.victim.com/", i)))
			synctest.Wait()
		}
		h.mustBeSettled()
	})
}

// Counts are given back also where the shard is lost, and where the store fails.
func TestCountsAreGivenBack(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.MaxPendingPerHost = 1
		h.confirm = hang
		h.run()
		h.submit(subscribe(callback, ""))
		h.service.Lost(shardOf(callback))
		h.memory.setDown(true)
		other := callback + "2"
		if err := h.service.Submit(t.Context(), subscribe(other, "")); !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("Submit: %v", err)
		}
		h.memory.setDown(false)
		h.submit(subscribe(other, ""))
		synctest.Wait() // the topic is checked
		h.mustWait(subscribe(callback+"3", ""), subscription.ErrHostBusy)
		pass(5 * time.Minute)
		h.submit(subscribe(callback+"3", ""))
	})
}

// A host that has refused twenty verifications in a row, whichever of its names they
// were sent to, is asked once a second; others do not notice, all that was accepted is
// carried through, and one confirmation ends it.
func TestPace(t *testing.T) {
	for name, answer := range map[string]func(context.Context, subscription.Request, string) error{
		"refuses": refuse, "does not answer": func(context.Context, subscription.Request, string) error { return errAway },
	} {
		t.Run(name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
					if strings.Contains(r.Callback, "victim") {
						return answer(ctx, r, challenge)
					}
					return nil
				}
				h.run()
				var err error
				taken := 0
				for ; err == nil && taken < 200; taken++ {
					if taken == 30 {
						synctest.Wait()
					}
					err = h.service.Submit(t.Context(), unsubscribe(fmt.Sprintf("http://n%d.victim.com/", taken)))
				}
				if !errors.Is(err, subscription.ErrHostBusy) || taken < 100 || taken > 125 {
					t.Errorf("%d requests are taken, then %v", taken, err)
				}
				synctest.Wait()
				if n := h.timesAsked(); n < 20 || n > 24 {
					t.Errorf("asked %d times at once, want twenty and what was under way", n)
				}
				wait := h.mustWait(unsubscribe("http://more.victim.com/"), subscription.ErrHostBusy)
				if wait < time.Second || wait > time.Minute {
					t.Errorf("wait %v", wait)
				}
				h.submit(subscribe(callback, ""))
				synctest.Wait()
				h.mustBeActive(callback)
				before := h.timesAsked()
				pass(10 * time.Second)
				if n := h.timesAsked() - before; n < 9 || n > 10 {
					t.Errorf("asked %d times in 10 s", n)
				}
				pass(20 * time.Minute)
				h.mustBeSettled()
				if n := h.busiest(10 * time.Second); n > 36 {
					t.Errorf("asked %d times within 10 s", n)
				}
			})
		})
	}
}

func TestOneConfirmationEndsThePace(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			if strings.HasSuffix(r.Callback, "/good") {
				return nil
			}
			return refuse(ctx, r, challenge)
		}
		h.run()
		for i := range 20 {
			h.submit(unsubscribe(fmt.Sprintf("http://host.example/%d", i)))
		}
		pass(10 * time.Second)
		h.submit(unsubscribe("http://host.example/good"))
		synctest.Wait()
		for i := range 10 {
			h.submit(unsubscribe(fmt.Sprintf("http://host.example/%d", i)))
		}
		synctest.Wait() // and no time passes
		h.mustBeSettled()
	})
}

// A stranger that sends the same request without pause has the callback asked no more often
// than it answers, and no more than the pace allows.
func TestSupersedingIsPaced(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		var answers atomic.Bool
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			if answers.Load() {
				return nil
			}
			return hang(ctx, r, challenge)
		}
		h.run()
		for range 1000 {
			h.submit(unsubscribe(callback))
			synctest.Wait()
		}
		if n := h.timesAsked(); n > 25 {
			t.Errorf("asked %d times for 1000 requests at once", n)
		}
		before := h.timesAsked()
		for range 600 {
			h.submit(unsubscribe(callback))
			pass(100 * time.Millisecond)
		}
		if n := h.timesAsked() - before; n > 60 {
			t.Errorf("asked %d times within a minute", n)
		}
		if _, most := h.atOnce(); most != 1 {
			t.Errorf("%d at once", most)
		}
		answers.Store(true)
		pass(2 * time.Minute)
		h.mustBeSettled()
	})
}

// A stranger who brings a host into bad standing does not keep those who subscribed from
// there from renewing.
func TestRenewingAtAHostInBadStanding(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.MaxPendingBad = 10
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			if r.Callback == callback {
				return nil
			}
			return refuse(ctx, r, challenge)
		}
		h.run()
		h.submit(subscribe(callback, "old"))
		synctest.Wait()
		for i := range 25 {
			h.submit(unsubscribe(fmt.Sprintf("%s&%d", callback, i)))
		}
		synctest.Wait()
		for i := 30; ; i++ {
			if err := h.service.Submit(t.Context(), unsubscribe(fmt.Sprintf("%s&%d", callback, i))); err != nil {
				break
			}
		}
		h.submit(subscribe(callback, "new"))
		pass(time.Minute)
		if sub := h.mustBeActive(callback); sub.Secret != "new" {
			t.Error("it was not renewed")
		}
	})
}

// Denials to callbacks that never confirmed anything are paced like verifications.
func TestDenialsArePaced(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.validate = func(_ context.Context, topic string) error {
			return &subscription.Refusal{Reason: "no"}
		}
		h.run()
		for i := range 100 {
			w := subscribe(fmt.Sprintf("http://victim.example/%d", i), "")
			w.Topic = fmt.Sprintf("http://t%d.example/", i) // one of each, so that it is not they who are paced
			h.submit(w)
		}
		synctest.Wait()
		if n := h.timesTold(); n < 20 || n > 24 {
			t.Errorf("told %d times at once", n)
		}
		pass(10 * time.Second)
		if n := h.timesTold(); n > 34 {
			t.Errorf("told %d times within 10 s", n)
		}
		pass(5 * time.Minute)
		if n := h.timesTold(); n != 100 {
			t.Errorf("told %d of 100", n)
		}
		h.mustBeSettled()
	})
}

// Topics at a site that names this hub nowhere are asked about once a second, and only so
// many wait.
func TestTopicsArePaced(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.validate = func(context.Context, string) error { return &subscription.Refusal{Reason: "no"} }
		h.run()
		wish := func(i int) subscription.Wish {
			w := subscribe(fmt.Sprintf("http://d%d.example/", i), "")
			w.Topic = fmt.Sprintf("http://victim.example/?%d", i)
			return w
		}
		for i := range 40 {
			h.submit(wish(i))
		}
		synctest.Wait()
		if n := h.timesChecked(); n < 20 || n > 24 {
			t.Errorf("%d checks at once", n)
		}
		taken := 40
		for ; ; taken++ {
			if err := h.service.Submit(t.Context(), wish(taken)); errors.Is(err, subscription.ErrHostBusy) {
				break
			} else if err != nil || taken > 150 {
				t.Fatalf("%d are taken: %v", taken, err)
			}
		}
		if taken < 100 {
			t.Errorf("%d are taken", taken)
		}
		pass(10 * time.Second)
		if n := h.timesChecked(); n > 34 {
			t.Errorf("%d checks within 10 s", n)
		}
	})
}

// A validator that is busy says when to come again.
func TestValidatorTellsWhen(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.validate = func(context.Context, string) error {
			if h.timesChecked() > 1 {
				return nil
			}
			return &subscription.Later{Err: subscription.ErrBusy, After: time.Minute}
		}
		h.run()
		h.submit(subscribe(callback, ""))
		pass(59 * time.Second)
		if n := h.timesChecked(); n != 1 {
			t.Errorf("%d checks", n)
		}
		pass(2 * time.Second)
		h.mustBeActive(callback)
	})
}

// However many send the same request at once, one is asked about at a time, the last
// one counts, and each of them was accepted.
func TestSameRequestAtOnce(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.confirm = func(ctx context.Context, _ subscription.Request, _ string) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", subscription.ErrNoAnswer, ctx.Err())
			}
		}
		h.run()
		const senders = 200
		var all sync.WaitGroup
		for i := range senders {
			all.Go(func() {
				w := subscribe(callback, "")
				w.Client = fmt.Sprint(i % 10)
				if err := h.service.Submit(t.Context(), w); err != nil {
					t.Errorf("Submit: %v", err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if n := h.metric("carillon_subscription_pending", ""); n != 1 {
			t.Errorf("%v are pending, want 1", n)
		}
		pass(time.Minute)
		if _, most := h.atOnce(); most != 1 {
			t.Errorf("%d verifications at once", most)
		}
		if n := h.timesAsked(); n > 25 {
			t.Errorf("asked %d times for %d requests at once", n, senders)
		}
		h.mustBeActive(callback)
		h.mustBeSettled()
		h.mustCount("superseded", senders-1)
	})
}

// However many requests for one topic and callback come at once and after each other, of
// whatever kind, their callback works on two verifications at most: it works on to its end
// also when the hub has hung up.
func TestAtMostTwoVerificationsAtOnce(t *testing.T) {
	for name, wishes := range map[string][]subscription.Wish{
		"the same":              {subscribe(callback, "s")},
		"other secrets":         {subscribe(callback, "one"), subscribe(callback, "two"), subscribe(callback, "three")},
		"leaving and returning": {subscribe(callback, "s"), unsubscribe(callback)},
	} {
		for _, renewal := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, renewal %v", name, renewal), func(t *testing.T) {
				inTown(t, func(t *testing.T, h *town) {
					h.run()
					if renewal {
						h.submit(subscribe(callback, "before"))
						synctest.Wait()
					}
					var works, most atomic.Int64
					h.confirm = func(ctx context.Context, _ subscription.Request, _ string) error {
						if now := works.Add(1); now > most.Load() {
							most.Store(now)
						}
						done := make(chan struct{})
						time.AfterFunc(3*time.Second, func() { works.Add(-1); close(done) })
						select {
						case <-done:
							return nil
						case <-ctx.Done():
							return fmt.Errorf("%w: %w", subscription.ErrNoAnswer, ctx.Err())
						}
					}
					for range 500 {
						for _, w := range wishes {
							h.submit(w)
						}
						synctest.Wait()
					}
					for i := range 300 {
						h.submit(wishes[i%len(wishes)])
						pass(100 * time.Millisecond)
					}
					h.submit(subscribe(callback, "last"))
					pass(time.Minute)
					if most.Load() > 2 {
						t.Errorf("the callback worked on %d verifications at once", most.Load())
					}
					if sub := h.mustBeActive(callback); sub.Secret != "last" {
						t.Errorf("got %+v", sub)
					}
					h.mustBeSettled()
				})
			})
		}
	}
}

// A subscriber that asks again before its callback has answered, time after time, is
// subscribed all the same.
func TestImpatientSubscriber(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.confirm = func(context.Context, subscription.Request, string) error {
			<-time.After(3 * time.Second)
			return nil
		}
		h.run()
		for range 5 {
			h.submit(subscribe(callback, "s"))
			pass(time.Second)
		}
		h.mustBeActive(callback)
	})
}

// While a thousand hosts hang, each with requests without end, and all the names of a
// stranger's domain, callbacks that answer are verified at once.
func TestThousandHangingHosts(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			if strings.Contains(r.Callback, "hanging") {
				return hang(ctx, r, challenge)
			}
			return nil
		}
		h.run()
		for n := range 5 {
			for i := range 1000 {
				h.submit(unsubscribe(fmt.Sprintf("http://hanging%d.example/%d", i, n)))
			}
			for i := range 400 {
				h.submit(unsubscribe(fmt.Sprintf("http://x%d.hanging.com/%d", i, n)))
			}
		}
		healthy := 0
		for second := range 60 {
			for range 5 {
				healthy++
				h.submit(subscribe(fmt.Sprintf("http://healthy%d.example/", healthy), ""))
			}
			pass(time.Second)
			// Within the first seconds the hub finds out who hangs.
			if n := len(h.roster.members()); second >= 5 && n != healthy {
				t.Fatalf("after %d s %d of %d healthy callbacks are verified", second+1, n, healthy)
			}
		}
		if _, most := h.atOnce(); most > 256+1024 {
			t.Errorf("%d verifications at once", most)
		}
	})
}

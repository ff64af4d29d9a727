package subscription_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon/subscription"
)

func TestSubscribe(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		begun := time.Now()
		w := subscribe(callback, "s3cret")
		w.Lease, w.LeaseGiven = time.Hour, true
		h.submit(w)
		synctest.Wait()

		want := subscription.Subscription{
			ID: subscription.NewID(topic, callback), Topic: topic, Callback: callback, Secret: "s3cret",
			Start: 7, Lease: time.Hour, Expires: begun.Add(time.Hour).UTC(), Created: begun.UTC(),
		}
		if got := h.mustBeActive(callback); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if r := h.asked[0]; r.Lease != time.Hour || r.Mode != subscription.ModeSubscribe || r.Callback != callback || r.Topic != topic {
			t.Errorf("the callback was asked about %+v", r)
		}
		if !slices.Equal(h.checks, []string{topic}) {
			t.Errorf("checked topics: %q", h.checks)
		}
		h.mustBeSettled()
		h.mustCount("activated", 1)
		if n := h.metric("carillon_subscription_requests_total", "subscribe"); n != 1 {
			t.Errorf("%v requests were counted", n)
		}
	})
}

// The challenge is random, single-use and within the alphabet of WebSub §5.3.
func TestChallenge(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.confirm = func(context.Context, subscription.Request, string) error { return errAway }
		h.run()
		h.submit(subscribe(callback, ""))
		pass(2 * time.Minute)
		alphabet := regexp.MustCompile(`^[-+./0-9=A-Z_a-z]{32,}$`)
		for _, c := range h.challenges {
			if !alphabet.MatchString(c) {
				t.Errorf("challenge %q", c)
			}
		}
		slices.Sort(h.challenges)
		if n := len(slices.Compact(h.challenges)); n != 4 {
			t.Errorf("%d different challenges in 4 verifications", n)
		}
	})
}

// The lease counts from when the verification request was made, and what was
// published since then is delivered, however long the callback takes (WebSub §5.3).
func TestLeaseCountsFromTheVerification(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.validate = func(context.Context, string) error { <-time.After(3 * time.Second); return nil }
		h.confirm = func(context.Context, subscription.Request, string) error {
			<-time.After(2 * time.Second)
			h.roster.set(9, nil)
			<-time.After(2 * time.Second)
			return nil
		}
		h.run()
		begun := time.Now()
		h.submit(subscribe(callback, ""))
		pass(10 * time.Second)
		sub := h.mustBeActive(callback)
		if want := begun.Add(3*time.Second + subscription.DefaultLease); !sub.Expires.Equal(want) {
			t.Errorf("ends at %v, want %v", sub.Expires, want)
		}
		if sub.Start != 7 {
			t.Errorf("starts after %d, want 7", sub.Start)
		}
	})
}

// A renewal takes the new secret and lease, and keeps the place in the log
// (WebSub §5.1, H16).
func TestRenew(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		h.submit(subscribe(callback, "old"))
		synctest.Wait()
		first := h.mustBeActive(callback)
		h.roster.set(20, nil)
		pass(time.Hour)
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		want := first
		want.Secret, want.Expires = "", first.Expires.Add(time.Hour)
		if got := h.mustBeActive(callback); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		h.mustCount("activated", 1)
		h.mustCount("renewed", 1)
	})
}

// Whose lease is over starts anew, though nothing has swept it yet.
func TestRenewTooLate(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.SweepInterval = 1000 * time.Hour
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		h.roster.set(20, nil)
		pass(subscription.DefaultLease)
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		sub := h.mustBeActive(callback)
		if sub.Start != 20 || !sub.Created.Equal(time.Now()) {
			t.Errorf("got %+v", sub)
		}
		h.mustCount("activated", 2)
	})
}

// Unsubscribing is verified but not validated (WebSub §5.2), whether there is
// such a subscription or not.
func TestUnsubscribe(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		h.submit(unsubscribe(callback))
		h.submit(unsubscribe("http://stranger.example/"))
		synctest.Wait()
		if _, found := h.active(callback); found {
			t.Error("still subscribed")
		}
		if n := len(h.checks); n != 1 {
			t.Errorf("%d topic checks, want that of the subscribe request alone", n)
		}
		if r := h.asked[1]; r.Mode != subscription.ModeUnsubscribe || r.Lease != 0 || r.Secret != "" {
			t.Errorf("asked about %+v", r)
		}
		h.mustBeSettled()
		h.mustCount("unsubscribed", 2)
	})
}

// A request that fails its verification changes nothing (WebSub §5.1: H14, H15):
// old secret and lease stand.
func TestFailedVerification(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		outcome string
		asked   int
	}{
		{"another answer", subscription.ErrNoIntent, "no_intent", 1},
		{"no answer", errAway, "no_answer", 4},
		{"unknown error", errUnknown, "no_answer", 4},
	} {
		for _, w := range []subscription.Wish{subscribe(callback, "new"), unsubscribe(callback)} {
			t.Run(c.name+"/"+string(w.Mode), func(t *testing.T) {
				inTown(t, func(t *testing.T, h *town) {
					var err error
					h.confirm = func(context.Context, subscription.Request, string) error { return err }
					h.run()
					h.submit(subscribe(callback, "old"))
					synctest.Wait()
					before := h.mustBeActive(callback)
					err = c.err
					h.submit(w)
					pass(75 * time.Second)
					if after := h.mustBeActive(callback); after != before {
						t.Errorf("got %+v, want %+v", after, before)
					}
					if n := h.timesAsked() - 1; n != c.asked {
						t.Errorf("asked %d times, want %d", n, c.asked)
					}
					h.mustBeSettled()
					h.mustCount(c.outcome, 1)
				})
			})
		}
	}
}

// No answer: three times more over a minute.
func TestRetrySchedule(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.confirm = func(_ context.Context, _ subscription.Request, _ string) error {
			if h.timesAsked() == 4 {
				return nil
			}
			return errAway
		}
		h.run()
		begun := time.Now()
		h.submit(subscribe(callback, ""))
		pass(75 * time.Second)
		for i, want := range []time.Duration{0, 8 * time.Second, 24 * time.Second, 56 * time.Second} {
			got := h.askedAt[i].Sub(begun)
			if got < want*9/10 || got > want*11/10 {
				t.Errorf("verification %d was made after %v, want about %v", i+1, got, want)
			}
		}
		sub := h.mustBeActive(callback)
		if want := h.askedAt[3].Add(sub.Lease); sub.Expires.Sub(want).Abs() > time.Millisecond {
			t.Errorf("the lease ends at %v, want %v: it counts from the verification that was answered", sub.Expires, want)
		}
	})
}

// The verification has a schedule of its own, whatever the topic check used up.
func TestEachStepHasItsSchedule(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.validate = func(context.Context, string) error {
			if h.timesChecked() < 3 {
				return errAway
			}
			return nil
		}
		h.confirm = func(context.Context, subscription.Request, string) error {
			if h.timesAsked() < 4 {
				return errAway
			}
			return nil
		}
		h.run()
		h.submit(subscribe(callback, ""))
		pass(150 * time.Second)
		h.mustBeActive(callback)
	})
}

// A topic that hangs or cannot be reached is given up within 30 s, and the callback gets a denial. The
// wait of a check for its turn is not counted.
func TestTopicIsGivenUpSoon(t *testing.T) {
	for name, tt := range map[string]struct {
		validate func(context.Context) error
		checks   int
	}{
		"hangs":        {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 2},
		"hangs a bit":  {func(context.Context) error { time.Sleep(10 * time.Second); return errAway }, 2},
		"is not there": {func(context.Context) error { return errAway }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.validate = func(ctx context.Context, _ string) error {
					if h.timesChecked() <= 10 {
						return subscription.ErrBusy
					}
					return tt.validate(ctx)
				}
				h.run()
				h.submit(subscribe(callback, ""))
				pass(79 * time.Second) // the tenth time that it is busy is 72 s later
				h.mustCount("denied", 0)
				pass(31*time.Second + time.Millisecond)
				h.mustCount("denied", 1)
				if n := h.timesChecked() - 10; n != tt.checks || len(h.denials) != 1 {
					t.Errorf("asked %d times, want %d; denials %q", n, tt.checks, h.denials)
				}
			})
		})
	}
}

// A callback that hangs is given up after AskTimeout, as no answer.
func TestHangingCallback(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.confirm = hang
		h.cfg.AskTimeout = 5 * time.Second
		h.run()
		h.submit(subscribe(callback, ""))
		pass(2 * time.Minute)
		if n := h.timesAsked(); n != 4 {
			t.Errorf("asked %d times", n)
		}
		h.mustCount("no_answer", 1)
		h.mustBeSettled()
	})
}

// A definite no of the topic check is sent to the callback (WebSub §5.2), which is never asked for its
// intent.
func TestRefusedTopic(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.validate = func(context.Context, string) error { return &subscription.Refusal{Reason: "it names another hub"} }
		h.run()
		h.submit(subscribe(callback, ""))
		synctest.Wait()
		if want := []denial{{topic, callback, "it names another hub"}}; !slices.Equal(h.denials, want) {
			t.Errorf("got %q, want %q", h.denials, want)
		}
		if n := h.timesAsked(); n != 0 {
			t.Errorf("asked %d times", n)
		}
		h.mustBeSettled()
		h.mustCount("denied", 1)
	})
}

// A topic whose server is away is checked again on the schedule, and then denied.
func TestUnreachableTopic(t *testing.T) {
	for _, c := range []struct {
		name   string
		fails  int
		denied bool
	}{{"for a moment", 2, false}, {"for good", 3, true}} {
		t.Run(c.name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.validate = func(context.Context, string) error {
					if h.timesChecked() <= c.fails {
						return errUnknown
					}
					return nil
				}
				h.run()
				h.submit(subscribe(callback, ""))
				pass(75 * time.Second)
				if n := len(h.checks); n != 3 {
					t.Errorf("%d topic checks, want 3", n)
				}
				if _, found := h.active(callback); found == c.denied || c.denied != (len(h.denials) == 1) {
					t.Errorf("active %v, denials %q", found, h.denials)
				}
				h.mustBeSettled()
			})
		})
	}
}

// A denial is repeated while there is no answer, and any answer ends it.
func TestDenialIsRepeated(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		told int
	}{{"no answer", errAway, 4}, {"any answer", subscription.ErrNoIntent, 1}} {
		t.Run(c.name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.validate = func(context.Context, string) error { return &subscription.Refusal{Reason: "no"} }
				h.deny = func(context.Context, string) error { return c.err }
				h.run()
				h.submit(subscribe(callback, ""))
				pass(75 * time.Second)
				if n := len(h.denials); n != c.told {
					t.Errorf("told %d times, want %d", n, c.told)
				}
				h.mustBeSettled()
				h.mustCount("denied", 1)
			})
		})
	}
}

func TestUnknownMode(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.build()
		err := h.service.Submit(t.Context(), subscription.Wish{Mode: "publish", Topic: topic, Callback: callback})
		if err == nil || h.memory.unsettled() != 0 {
			t.Errorf("got %v, %d requests are stored", err, h.memory.unsettled())
		}
	})
}

// A handler whose client went away before it began has stored nothing; one whose
// client goes away later has.
func TestSubmitAndContext(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.build()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.service.Submit(ctx, subscribe(callback, "")); !errors.Is(err, context.Canceled) || h.memory.unsettled() != 0 {
			t.Errorf("got %v, %d requests are stored", err, h.memory.unsettled())
		}

		ctx, cancel = context.WithCancel(t.Context())
		h.store = &hooked{Store: h.memory, submit: cancel}
		h.build()
		if err := h.service.Submit(ctx, subscribe(callback, "")); err != nil || h.memory.unsettled() != 1 {
			t.Errorf("got %v, %d requests are stored", err, h.memory.unsettled())
		}
	})
}

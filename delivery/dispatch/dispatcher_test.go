package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
	"carillon/topic"
)

const callback = "https://one.example/hook"

func TestInOrderOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, callback)
		hold := make(chan struct{})
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { <-hold; return delivered })
		for i := range 3 {
			d.publish(fmt.Sprint("body ", i))
		}
		synctest.Wait()
		sameSeqs(t, "while the first is in flight", s.seqs(), 1)
		close(hold)
		synctest.Wait()
		sameSeqs(t, "after it", s.seqs(), 2, 3)
		p, ok := d.Position(sub.ID)
		equal(t, "position known", ok, true)
		equal(t, "position", p, delivery.Position{Settled: 3})
		equal(t, "attempts counted", d.metric("attempts_total", "delivered"), 3)
		equal(t, "publishes counted", d.metric("publishes_total", "accepted"), 3)
		equal(t, "topics", strings.Join(d.Topics(), " "), topicURL)
		equal(t, "subscribers", len(d.Subscribers(topicURL)), 1)
		if got := d.Subscribers(topicURL)[0]; got.Callback != callback || !got.Expires.Equal(sub.Expires) {
			t.Errorf("subscriber: got %+v", got)
		}
		// A new subscriber gets what is published from now on.
		d.subscribe(e, "https://two.example/")
		spelled := delivery.Publication{Topic: topic.Parse("https://%65xample.com/change/"), Body: []byte("for both")}
		if _, err := d.Publish(t.Context(), spelled); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sameSeqs(t, "both", s.seqs(), 4, 4)
		d.Ended(sub.ID)
		d.publish("for the second")
		synctest.Wait()
		sameSeqs(t, "after an end", s.seqs(), 5)
		if _, ok := d.Position(sub.ID); ok {
			t.Error("the ended subscription has a position")
		}
		equal(t, "subscriptions", d.Stats().Subscriptions, 1)
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d := start(t, e, dispatch.Config{RetryMax: 10 * time.Minute}, s)
		const callbacks = 200
		for i := range callbacks {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		d.publish("x")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		last := map[string]time.Time{}
		sums := map[uint32]time.Duration{}
		soonest, latest := time.Hour, time.Duration(0) // of the first retries
		for _, a := range s.take() {
			if a.number > 1 {
				delay := a.at.Sub(last[a.callback])
				limit := 10 * time.Minute
				if a.number < 8 {
					limit = min(limit, 10*time.Second<<(a.number-2))
				}
				if delay > limit+time.Millisecond {
					t.Fatalf("attempt %d came after %s, at most %s was allowed", a.number, delay, limit)
				}
				sums[a.number] += delay
				if a.number == 2 {
					soonest, latest = min(soonest, delay), max(latest, delay)
				}
			}
			last[a.callback] = a.at
		}
		for number, want := range map[uint32]time.Duration{2: 5 * time.Second, 3: 10 * time.Second, 6: 80 * time.Second, 20: 5 * time.Minute} {
			if mean := sums[number] / callbacks; mean < want*3/4 || mean > want*5/4 {
				t.Errorf("attempt %d came after %s in the mean, want about %s", number, mean, want)
			}
		}
		if soonest > time.Second || latest < 9*time.Second {
			t.Errorf("first retries came after %s to %s: the jitter is not full", soonest, latest)
		}
		equal(t, "waiting", d.Stats().Waiting, callbacks)
	})
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct{ asked, atLeast, atMost time.Duration }{
		{30 * time.Minute, 30 * time.Minute, 30 * time.Minute},
		{5 * time.Hour, time.Hour, time.Hour}, // within RetryMax
		{0, 0, 10 * time.Second},
	} {
		t.Run(c.asked.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := newEngine(), &attempts{}
				s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
					if a.Number > 1 {
						return delivered
					}
					return send.Outcome{Class: delivery.ClassClientError, Status: 429, RetryAfter: c.asked}
				})
				d := start(t, e, dispatch.Config{}, s)
				d.subscribe(e, callback)
				d.publish("x")
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				all := s.take()
				if len(all) != 2 {
					t.Fatalf("%d attempts, want 2", len(all))
				}
				if delay := all[1].at.Sub(all[0].at); delay < c.atLeast || delay > c.atMost+time.Second {
					t.Errorf("tried again after %s, want %s to %s", delay, c.atLeast, c.atMost)
				}
			})
		})
	}
}

func TestRestartKeepsBackingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			return send.Outcome{Class: delivery.ClassServerError, Status: 503, RetryAfter: time.Hour}
		})
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, callback)
		d.publish("x")
		time.Sleep(time.Minute)
		before, _ := d.Position(sub.ID)
		d.stop()

		s.take()
		d = start(t, e, dispatch.Config{}, s)
		synctest.Wait()
		after, _ := d.Position(sub.ID)
		if !after.NextAttempt.Equal(before.NextAttempt) {
			t.Errorf("next attempt: got %s, want %s", after.NextAttempt, before.NextAttempt)
		}
		before.NextAttempt, after.NextAttempt = time.Time{}, time.Time{}
		equal(t, "position", after, before)
		time.Sleep(58 * time.Minute)
		synctest.Wait()
		sameSeqs(t, "attempts before the hour is over", s.seqs())
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if all := s.take(); len(all) != 1 || all[0].number != 2 {
			t.Errorf("after the hour: %+v", all)
		}
	})
}

// Failures do not end a subscription (WebSub §7): notifications that are too old are given up in one
// gap, and the next one is tried at once.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d := start(t, e, dispatch.Config{RetryFor: time.Hour, RetryMax: 20 * time.Minute}, s)
		sub := d.subscribe(e, callback)
		for range 50 { // all too old by the time of the attempt that ends them
			d.publish("old")
		}
		time.Sleep(30 * time.Minute)
		for range 3 {
			d.publish("younger")
		}
		time.Sleep(50*time.Minute + time.Second)
		synctest.Wait()
		p, _ := d.Position(sub.ID)
		equal(t, "settled", p.Settled, 50)
		if p.Failures == 0 {
			t.Error("with three left to send the backoff must stay")
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		p, _ = d.Position(sub.ID)
		equal(t, "position", p, delivery.Position{Settled: 53})
		gaps, _ := e.Gaps(t.Context(), subscription.ID{}, 10)
		if len(gaps) != 2 {
			t.Fatalf("gaps: %+v", gaps)
		}
		for i, want := range [][2]delivery.Seq{{1, 50}, {51, 53}} {
			if g := gaps[i]; g.First != want[0] || g.Last != want[1] || g.Reason != delivery.GapGivenUp ||
				g.Failure != delivery.ClassServerError || g.Subscription != sub.ID {
				t.Errorf("gap %d: %+v", i, g)
			}
		}
		equal(t, "gaps counted", d.metric("gaps_total", "given_up"), 2)
		s.take()
		s.setAnswer(nil)
		d.publish("new")
		synctest.Wait()
		sameSeqs(t, "the next notification, at once", s.seqs(), 54)
	})
}

func TestGone(t *testing.T) {
	for name, lost := range map[string]bool{"not removed": false, "removed, the answer lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := newEngine(), &attempts{}
				s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return gone })
				e.removeErr, e.lost = errAway, lost
				d := start(t, e, dispatch.Config{}, s)
				d.subscribe(e, callback)
				d.publish("x")
				synctest.Wait()
				equal(t, "subscriptions while the store is away", d.Stats().Subscriptions, 1)
				e.with(func() { e.removeErr = nil })
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "subscriptions", d.Stats().Subscriptions, 0)
				equal(t, "subscriptions stored", len(e.subs), 0)
				sameSeqs(t, "sent", s.seqs(), 1) // a callback that said gone is not asked again
			})
		})
	}
}

// A renewal that comes in while the callback says gone stands, whether the
// store knows of it by then or is away.
func TestGoneButRenewed(t *testing.T) {
	for _, away := range []error{nil, errAway} {
		synctest.Test(t, func(t *testing.T) {
			e, s := newEngine(), &attempts{}
			d := start(t, e, dispatch.Config{}, s)
			sub := d.subscribe(e, callback)
			s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
				if a.Number > 1 {
					return delivered
				}
				renewed := sub
				renewed.Expires = sub.Expires.Add(time.Hour)
				e.with(func() { e.subs[sub.ID], e.removeErr = renewed, away })
				d.Activated(renewed)
				return gone
			})
			d.publish("x")
			synctest.Wait()
			e.with(func() { e.removeErr = nil })
			time.Sleep(time.Minute)
			synctest.Wait()
			p, ok := d.Position(sub.ID)
			equal(t, "still there", ok, true)
			equal(t, "settled", p.Settled, 1)
		})
	}
}

// A callback that said gone subscribes again before its end is through: the
// new subscription stands, from its own start.
func TestGoneAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, callback)
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return gone })
		e.with(func() {
			e.removed = func() {
				s.setAnswer(nil)
				anew := sub
				anew.Start, anew.Expires = 1, sub.Expires.Add(time.Hour)
				e.subs[sub.ID] = anew
				d.Activated(anew)
			}
		})
		d.publish("1")
		synctest.Wait()
		sameSeqs(t, "sent to the old one", s.seqs(), 1)
		d.publish("2")
		synctest.Wait()
		sameSeqs(t, "sent to the new one", s.seqs(), 2)
		equal(t, "subscriptions", d.Stats().Subscriptions, 1)
	})
}

func TestRenewalKeepsThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, callback)
		d.publish("1")
		synctest.Wait()
		sub.Secret, sub.Expires = "new", sub.Expires.Add(time.Hour)
		d.Activated(sub)
		d.publish("2")
		synctest.Wait()
		all := s.take()
		if len(all) != 2 || all[1].seq != 2 || string(all[1].secret) != "new" {
			t.Errorf("got %+v", all)
		}
		equal(t, "subscriptions", d.Stats().Subscriptions, 1)
	})
}

func TestLeaseOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		sub := subscriptionOf(topicURL, callback)
		sub.Expires = time.Now().Add(time.Hour)
		d.Activated(sub)
		d.publish("1")
		time.Sleep(time.Hour)
		d.publish("2")
		synctest.Wait()
		sameSeqs(t, "before the end of the lease (WebSub §5.3)", s.seqs(), 1)
		sub.Expires = sub.Expires.Add(time.Hour)
		d.Activated(sub)
		synctest.Wait()
		sameSeqs(t, "renewed late", s.seqs(), 2)
	})
}

// A lease that ends while its subscription waits for its turn is over.
func TestLeaseOverInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return work(time.Minute) })
		d := start(t, e, dispatch.Config{MaxInFlight: 1, MaxSlow: -1}, s)
		for i := range 2 {
			sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i))
			sub.Expires = time.Now().Add(30 * time.Second)
			d.Activated(sub)
		}
		d.publish("x")
		time.Sleep(5 * time.Minute)
		equal(t, "attempts", len(s.take()), 1)
	})
}

func TestShardsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, callback)
		d.publish("1")
		synctest.Wait()
		shard := subscription.ShardOf(sub.ID)
		d.Lost(shard)
		equal(t, "saved when lost", e.positions[sub.ID].Settled, 1)
		d.Activated(sub)
		d.Ended(sub.ID)
		d.publish("2")
		synctest.Wait()
		sameSeqs(t, "without the shard", s.seqs(), 1)
		equal(t, "subscriptions", d.Stats().Subscriptions, 0)
		equal(t, "shards", d.Stats().Shards, subscription.Shards-1)
		if err := d.Gained(t.Context(), delivery.Tenure{Shard: shard, Epoch: e.epochs[shard]}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sameSeqs(t, "with the shard", s.seqs(), 2)

		// Fenced: another process took it without a word.
		e.with(func() { e.epochs[shard]++ })
		time.Sleep(time.Second)
		synctest.Wait()
		equal(t, "shards after being fenced", d.Stats().Shards, subscription.Shards-1)
		equal(t, "paused", d.Stats().Paused, false)
		e.with(func() { e.readErr = errAway })
		if err := d.Gained(t.Context(), delivery.Tenure{Shard: shard, Epoch: 9}); !errors.Is(err, delivery.ErrUnavailable) {
			t.Errorf("Gained without its members: %v", err)
		}
		equal(t, "shards after a failed scan", d.Stats().Shards, subscription.Shards-1)
		if err := d.Gained(t.Context(), delivery.Tenure{Shard: subscription.Shards}); err == nil {
			t.Error("a shard out of range was taken")
		}
	})
}

func TestContinuity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		d := start(t, e, dispatch.Config{}, &attempts{})
		pub := func(from, until, body string) delivery.Receipt {
			r, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL), From: from, Until: until, Body: []byte(body)})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		pub("a", "b", "1")
		pub("b", "c", "2")
		equal(t, "breaks", d.metric("continuity_breaks_total", ""), 0)
		pub("d", "e", "3")
		equal(t, "breaks", d.metric("continuity_breaks_total", ""), 1)
		again := pub("d", "e", "3")
		equal(t, "repeated", again.Repeated, true)
		equal(t, "breaks", d.metric("continuity_breaks_total", ""), 1)
		equal(t, "repeated counted", d.metric("publishes_total", "repeated"), 1)
		pub("", "", "not an interval")
		equal(t, "breaks", d.metric("continuity_breaks_total", ""), 1)
		d.stop()
		equal(t, "log lines", strings.Count(d.logs.String(), "continuity break"), 1)
	})
}

func TestPublishOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		d := start(t, e, dispatch.Config{}, &attempts{})
		e.slowAppend = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := d.Publish(ctx, delivery.Publication{Topic: topic.Parse(topicURL)})
			done <- err
		}()
		<-e.slowAppend
		cancel()
		<-e.slowAppend
		if err := <-done; err != nil {
			t.Errorf("what was begun was broken off: %v", err)
		}
		if head, err := d.Head(t.Context(), topicURL); head != 1 || err != nil {
			t.Errorf("head %d, %v", head, err)
		}
		if _, err := d.Publish(ctx, delivery.Publication{Topic: topic.Parse(topicURL)}); !errors.Is(err, context.Canceled) {
			t.Errorf("a publication by one who is gone already: %v", err)
		}
	})
}

// A disk that does not answer has Publish give up in time. A late append is delivered, and until then
// nothing else is begun.
func TestPublishWhileTheEngineHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{PublishTimeout: 20 * time.Second}, s)
		d.subscribe(e, callback)
		e.slowAppend = make(chan struct{})
		refused := func(after time.Duration) {
			t.Helper()
			begun := time.Now()
			_, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL)})
			if !errors.Is(err, delivery.ErrUnavailable) || time.Since(begun) != after {
				t.Errorf("got %v after %s", err, time.Since(begun))
			}
		}
		go func() { <-e.slowAppend }()
		refused(20 * time.Second)
		refused(0)
		equal(t, "failed publishes", d.metric("publishes_total", "failed"), 2)
		e.deaf = true
		<-e.slowAppend
		synctest.Wait()
		sameSeqs(t, "appended after all", s.seqs(), 1)
		e.slowAppend = nil
		d.publish("next")
		synctest.Wait()
		sameSeqs(t, "the next one", s.seqs(), 2)

		// An engine that looks at its context says so in its own words.
		e.appendErr = context.DeadlineExceeded
		refused(0)
	})
}

// An append that failed may be in the log: then it is delivered.
func TestPublishInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		d.subscribe(e, callback)
		synctest.Wait()
		e.with(func() { e.appendErr, e.lost, e.headErr = errAway, true, errAway })
		if _, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL)}); !errors.Is(err, delivery.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		equal(t, "failed publishes", d.metric("publishes_total", "failed"), 1)
		if _, err := d.Head(t.Context(), topicURL); !errors.Is(err, delivery.ErrUnavailable) {
			t.Errorf("Head: got %v", err)
		}
		time.Sleep(10 * time.Second)
		e.with(func() { e.headErr = nil })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		sameSeqs(t, "found again", s.seqs(), 1)
	})
}

// Topics whose head cannot be read do not hold up others, and are asked again.
func TestHeadsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bad = "https://example.com/bad/"
		e, s := newEngine(), &attempts{}
		e.headErr, e.headless = errOdd, bad
		d := start(t, e, dispatch.Config{}, s)
		d.publish("owed")
		if _, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(bad)}); err != nil {
			t.Fatal(err)
		}
		d.Activated(subscriptionOf(bad, callback))
		for i := range 20 {
			sub := subscriptionOf(fmt.Sprint(bad, i), callback)
			d.Activated(sub)
			if i > 0 {
				d.Ended(sub.ID) // the subscription is gone
			}
		}
		d.Activated(subscriptionOf(topicURL, callback))
		synctest.Wait()
		sameSeqs(t, "at once, of the topic that can be read", s.seqs(), 1)
		failed := d.metric("read_failures_total", "")
		if failed > 21 { // each at most once: one may be read before it is ended
			t.Errorf("%v reads of 21 topics", failed)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if more := d.metric("read_failures_total", "") - failed; more < 10 || more > 30 {
			t.Errorf("%v more reads failed in a minute, of two topics", more)
		}
		e.with(func() { e.headErr = nil })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		sameSeqs(t, "of the other, later", s.seqs(), 1)
	})
}

func TestLogAway(t *testing.T) {
	for _, err := range []error{errAway, errOdd} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := newEngine(), &attempts{}
				d := start(t, e, dispatch.Config{CacheBytes: -1, MaxInFlight: 10}, s)
				sub := d.subscribe(e, callback)
				e.with(func() { e.readErr = err })
				for i := range 200 { // each with a log of its own
					other := subscriptionOf(fmt.Sprint(topicURL, i), callback)
					d.Activated(other)
					if _, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(other.Topic)}); err != nil {
						t.Fatal(err)
					}
				}
				d.publish("x")
				time.Sleep(time.Minute)
				synctest.Wait()
				sameSeqs(t, "while it is away", s.seqs())
				if n := e.reads; n < 5 || errors.Is(err, delivery.ErrUnavailable) && n > 400 {
					t.Errorf("%d reads in a minute", n) // an engine that is away is left alone
				}
				e.with(func() { e.readErr = nil })
				time.Sleep(11 * time.Second)
				synctest.Wait()
				equal(t, "deliveries after it", len(s.seqs()), 201)
				p, _ := d.Position(sub.ID)
				equal(t, "position", p, delivery.Position{Settled: 1})
				if d.metric("read_failures_total", "") == 0 {
					t.Error("no failure was counted")
				}
			})
		})
	}
}

// Records that the log lost are a gap, at once and in the middle.
func TestTrimmedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{CacheBytes: -1}, s)
		for range 5 {
			d.publish("x")
		}
		sub := subscriptionOf(topicURL, callback)
		e.with(func() {
			for _, lost := range []int{1, 2, 4, 5} {
				e.logs[topicURL][lost-1] = nil
			}
		})
		d.Activated(sub)
		time.Sleep(time.Second)
		sameSeqs(t, "what is left", s.seqs(), 3)
		p, _ := d.Position(sub.ID)
		equal(t, "position", p, delivery.Position{Settled: 5})
		gaps, _ := e.Gaps(t.Context(), subscription.ID{}, 10)
		if len(gaps) != 2 || gaps[0].First != 1 || gaps[0].Last != 2 || gaps[1].First != 4 || gaps[1].Last != 5 ||
			gaps[0].Reason != delivery.GapTrimmed {
			t.Errorf("gaps: %+v", gaps)
		}
		equal(t, "gaps counted", d.metric("gaps_total", "trimmed"), 2)
	})
}

// A record that Publish has not called durable yet is not delivered.
func TestNotBeyondTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{CacheBytes: -1}, s)
		d.subscribe(e, callback)
		synctest.Wait()
		e.with(func() { e.readErr = errAway })
		d.publish("lost in a moment")
		synctest.Wait()
		e.with(func() {
			e.logs[topicURL][0] = nil
			e.logs[topicURL] = append(e.logs[topicURL], &delivery.Notification{Seq: 2, After: 1, Accepted: time.Now()})
			e.readErr = nil
		})
		time.Sleep(time.Minute)
		sameSeqs(t, "before it is durable", s.seqs())
		if _, err := d.Head(t.Context(), topicURL); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sameSeqs(t, "afterwards", s.seqs(), 2)
	})
}

func TestTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		fast := d.subscribe(e, callback)
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if a.Callback != callback && a.Notification.Seq > 2 {
				return broken
			}
			return delivered
		})
		slow := d.subscribe(e, "https://slow.example/")
		dead := subscriptionOf(topicURL, "https://dead.example/")
		dead.Expires = time.Now() // over, but it may be renewed until it is ended
		d.Activated(dead)
		const other = "https://example.com/nobody/"
		if _, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(other)}); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			d.publish("x")
		}
		kept := func(topic string) (seqs []delivery.Seq) {
			e.with(func() {
				for _, n := range e.logs[topic] {
					if n != nil {
						seqs = append(seqs, n.Seq)
					}
				}
			})
			return seqs
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		sameSeqs(t, "younger than KeepAtLeast", kept(topicURL), 1, 2, 3, 4)
		sameSeqs(t, "of nobody, younger", kept(other), 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		sameSeqs(t, "what one needs whose lease is over", kept(topicURL), 1, 2, 3, 4)
		sameSeqs(t, "of nobody", kept(other))
		d.Ended(dead.ID)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		sameSeqs(t, "what the slow one needs", kept(topicURL), 3, 4)

		// A process without all shards does not know which notifications are needed.
		d.Lost(subscription.ShardOf(slow.ID))
		if subscription.ShardOf(slow.ID) == subscription.ShardOf(fast.ID) {
			t.Fatal("choose another callback")
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		sameSeqs(t, "with a shard lost", kept(topicURL), 3, 4)
	})
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  dispatch.Config
		want string
	}{
		{dispatch.Config{}, ""},
		{dispatch.Config{MaxInFlight: 1}, ""},
		{dispatch.Config{MaxInFlight: -1}, "MaxInFlight"},
		{dispatch.Config{MaxPerHost: -1}, "MaxPerHost"},
		{dispatch.Config{SlowAfter: -1}, "SlowAfter"},
		{dispatch.Config{RetryFirst: -1}, "RetryFirst"},
		{dispatch.Config{RetryFirst: 2, RetryMax: 1}, "RetryFirst"},
		{dispatch.Config{RetryMax: -1}, "RetryMax"},
		{dispatch.Config{RetryFor: -1}, "RetryFor"},
		{dispatch.Config{FlushInterval: -1}, "FlushInterval"},
		{dispatch.Config{FlushCount: 1}, "FlushCount"},
		{dispatch.Config{PublishTimeout: -1}, "PublishTimeout"},
		{dispatch.Config{DrainTimeout: -1}, "DrainTimeout"},
		{dispatch.Config{HandoverTimeout: -1}, "HandoverTimeout"},
		{dispatch.Config{TrimInterval: -1}, "TrimInterval"},
		{dispatch.Config{KeepAtLeast: -1}, "KeepAtLeast"},
	} {
		_, err := dispatch.New(c.cfg, dispatch.Stores{}, nil, nil, nil, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q named", c.cfg, err, c.want)
		}
	}
}

// While the members of a shard are read, what happens to them is not lost.
func TestChangesWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, callback)
		shard := subscription.ShardOf(sub.ID)
		var mate string // another callback of the same shard
		for i := 0; mate == ""; i++ {
			c := fmt.Sprintf("https://mate%d.example/", i)
			if subscription.ShardOf(subscription.NewID(topicURL, c)) == shard {
				mate = c
			}
		}
		d.Lost(shard)
		hook := &slowMembers{engine: e, begun: make(chan struct{}), more: make(chan struct{})}
		d2, err := dispatch.New(dispatch.Config{}, dispatch.Stores{Log: e, Cursors: hook}, e, s, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- d2.Gained(t.Context(), delivery.Tenure{Shard: shard, Epoch: e.epochs[shard]}) }()
		<-hook.begun
		d2.Ended(sub.ID)
		d2.Activated(subscriptionOf(topicURL, mate))
		close(hook.more)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		subs := d2.Subscribers(topicURL)
		if len(subs) != 1 || subs[0].Callback != mate {
			t.Errorf("subscribers: %+v", subs)
		}
		if !slices.Equal(d2.Topics(), []string{topicURL}) {
			t.Errorf("topics: %v", d2.Topics())
		}
	})
}

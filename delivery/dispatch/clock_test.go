package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/topic"
)

// wallClock is a clock that is set back and forth, while time passes as it does.
type wallClock struct{ set atomic.Int64 }

func (c *wallClock) now() time.Time          { return time.Unix(0, time.Now().UnixNano()+c.set.Load()) }
func (c *wallClock) step(by time.Duration)   { c.set.Add(int64(by)) }
func (c *wallClock) config() dispatch.Config { return dispatch.Config{Clock: c.now, CacheBytes: -1} }

// A pause lasts as long as it was to, whatever becomes of the clock meanwhile.
func TestClockIsSetDuringPauses(t *testing.T) {
	for _, step := range []time.Duration{-10 * 24 * time.Hour, -5 * time.Hour, 5 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s, c := newEngine(), &attempts{}, &wallClock{}
				s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
				cfg := c.config()
				cfg.RetryFirst, cfg.RetryMax = 10*time.Minute, 20*time.Minute
				d := start(t, e, cfg, s)
				d.subscribe(e, "https://callback.example/")
				d.publish("x")
				synctest.Wait()
				s.take()
				c.step(step)
				d.subscribe(e, "https://another.example/") // so that the clock is read
				synctest.Wait()
				s.take()
				time.Sleep(20*time.Minute + time.Second)
				synctest.Wait()
				if n := len(s.take()); n == 0 {
					t.Error("no retry within the longest pause")
				}
				position, _ := d.Position(subscriptionOf(topicURL, "https://callback.example/").ID)
				if position.Settled > 0 {
					t.Error("the notification was given up: its age is in doubt")
				}
			})
		})
	}
}

// A store whose times lie in the future, by a clock that was wrong, stalls nothing: no
// retry, no slow attempt, and no log that grows for ever.
func TestStoredTimesLieAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		sub := subscriptionOf(topicURL, "https://callback.example/")
		const years = 10 * 365 * 24 * time.Hour
		e.with(func() {
			e.subs[sub.ID] = sub
			e.positions[sub.ID] = delivery.Position{
				Failures: 3, NextAttempt: time.Now().Add(years), LastFailure: delivery.ClassTimeout,
			}
		})
		for i := range 3 {
			_, err := e.Append(
				t.Context(),
				delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte(fmt.Sprint(i))},
				[16]byte{byte(i)}, time.Now().Add(years),
			)
			if err != nil {
				t.Fatal(err)
			}
		}
		d := start(t, e, dispatch.Config{RetryFirst: time.Second, RetryMax: time.Minute, RetryFor: 10 * time.Minute, CacheBytes: -1}, s)
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		sameSeqs(t, "delivered within the longest pause", s.seqs(), 1, 2, 3)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		e.with(func() {
			for _, n := range e.logs[topicURL] {
				if n != nil {
					t.Errorf("%d is kept for ever", n.Seq)
				}
			}
		})
		// A failing callback is given up after as long as with the right clock.
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		if _, err := e.Append(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL)}, [16]byte{9}, time.Now().Add(years)); err != nil {
			t.Fatal(err)
		}
		d.Published(topicURL, 4)
		time.Sleep(5 * time.Minute)
		equal(t, "is tried again", d.Stats().Waiting, 1)
		time.Sleep(30 * time.Minute)
		equal(t, "given up", d.metric("gaps_total", "given_up"), 1)
	})
}

// A log that begins in the future is bounded by size, too.
func TestLogAheadIsBoundedBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d := start(t, e, dispatch.Config{KeepBytes: 1000, RetryFirst: time.Hour, RetryMax: time.Hour, CacheBytes: -1}, s)
		d.subscribe(e, "https://callback.example/")
		for i := range 30 {
			p := delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte(strings.Repeat("x", 200))}
			if _, err := e.Append(t.Context(), p, [16]byte{byte(i)}, time.Now().Add(1000*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		e.with(func() {
			if bytes := bytesOf(e.logs[topicURL]); bytes > 1000 {
				t.Errorf("%d bytes are kept", bytes)
			}
		})
	})
}

// Notifications younger than KeepAtLeast stay in a log that begins in the future, also where that is
// greater than the bound; older ones go.
func TestYoungStaysInLogAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const young, size = 10, 200
		e, s := newEngine(), &attempts{}
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d := start(t, e, dispatch.Config{
			KeepAtLeast: young * time.Minute, KeepBytes: 5 * size, RetryFirst: time.Hour, RetryMax: time.Hour, CacheBytes: -1,
		}, s)
		d.subscribe(e, "https://callback.example/")
		for published := 1; published <= 100; published++ {
			p := delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte(strings.Repeat("x", size))}
			if _, err := e.Append(t.Context(), p, [16]byte{byte(published)}, time.Now().Add(1000*time.Hour)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute - time.Second)
			synctest.Wait()
			if n, _ := e.keeps(topicURL); n < min(published, young) || n > 2*young+2 {
				t.Fatalf("after %d minutes %d are kept", published, n)
			}
			time.Sleep(time.Second)
		}
	})
}

// A clock that is set forward past the end of all leases, and set back long after, ends no
// subscription.
func TestClockForwardAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s, c := newEngine(), &attempts{}, &wallClock{}
		var up atomic.Bool
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome {
			if up.Load() {
				return delivered
			}
			return broken
		})
		cfg := c.config()
		cfg.RetryFirst, cfg.RetryMax = time.Minute, time.Hour
		d := start(t, e, cfg, s)
		d.subscribe(e, "https://callback.example/")
		time.Sleep(2 * time.Hour) // old notifications may go by their age
		d.publish("x")
		time.Sleep(10 * time.Minute)
		c.step(40 * 24 * time.Hour)
		time.Sleep(50 * time.Minute)
		c.step(-40 * 24 * time.Hour)
		up.Store(true)
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		e.with(func() { equal(t, "gaps", len(e.gaps), 0) })
		position, _ := d.Position(subscriptionOf(topicURL, "https://callback.example/").ID)
		equal(t, "settled", position.Settled, 1)
	})
}

// A clock that is set forward while a subscription is verified makes nothing older that was
// published meanwhile: it stays for the subscription, whatever else would have it trimmed.
func TestClockForwardKeepsAtLeast(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  func(*dispatch.Config)
		step time.Duration
		wait time.Duration // until the subscription stands
	}{
		"settled":      {func(cfg *dispatch.Config) { cfg.TrimInterval = time.Second }, 10 * time.Minute, 5 * time.Second},
		"far forward":  {func(cfg *dispatch.Config) { cfg.TrimInterval = time.Second }, 40 * 24 * time.Hour, 4 * time.Minute},
		"kept longer":  {func(cfg *dispatch.Config) { cfg.KeepAtLeast = 10 * time.Hour }, 24 * time.Hour, 9 * time.Hour},
		"memory full":  {func(cfg *dispatch.Config) { cfg.RememberFor, cfg.RememberBytes = 96*time.Hour, 4 }, 6 * time.Minute, 61 * time.Second},
		"all too much": {func(cfg *dispatch.Config) { cfg.KeepBytes = 4 }, 6 * time.Minute, 61 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s, clock := newEngine(), &attempts{}, &wallClock{}
				cfg := clock.config()
				c.cfg(&cfg)
				d := start(t, e, cfg, s)
				head, err := d.Head(t.Context(), topicURL) // the verification begins
				if err != nil {
					t.Fatal(err)
				}
				d.publish("while it is asked")
				clock.step(c.step)
				time.Sleep(c.wait)
				sub := subscriptionOf(topicURL, callback)
				sub.Start, sub.Expires = uint64(head), clock.now().Add(24*time.Hour)
				e.with(func() { e.subs[sub.ID] = sub })
				d.Activated(sub)
				time.Sleep(time.Minute)
				synctest.Wait()
				sameSeqs(t, "delivered", s.seqs(), 1)
				wantGaps(t, "who was asked", e.gapsOf(sub.ID))
			})
		})
	}
}

// A clock that is set forward ends no lease before it is believed.
func TestClockForwardAndLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s, clock := newEngine(), &attempts{}, &wallClock{}
		d := start(t, e, clock.config(), s)
		d.subscribe(e, callback)
		clock.step(40 * 24 * time.Hour)
		d.publish("1")
		synctest.Wait()
		sameSeqs(t, "while the clock is in doubt", s.seqs(), 1)
		equal(t, "steps of the clock", d.metric("clock_steps_total", ""), 1)
		time.Sleep(time.Hour)
		d.publish("2")
		synctest.Wait()
		sameSeqs(t, "once it is believed", s.seqs())
		clock.step(-40 * 24 * time.Hour)
		d.publish("3")
		synctest.Wait()
		sameSeqs(t, "when it is right again", s.seqs(), 2, 3)
	})
}

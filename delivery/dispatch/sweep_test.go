package dispatch_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
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

// The callbacks of the tests of what the logs may take.
const (
	takes   = "https://takes.example/"
	refuses = "https://refuses.example/"
)

// unlessRefuses answers well, but for one callback.
func unlessRefuses(_ context.Context, a *send.Attempt) send.Outcome {
	if a.Callback == refuses {
		return broken
	}
	return delivered
}

// fill publishes n notifications of 100 bytes to a topic.
func (r *running) fill(topicURL string, n int) {
	r.t.Helper()
	for range n {
		p := delivery.Publication{Topic: topic.Parse(topicURL), Body: make([]byte, 100)}
		if _, err := r.Publish(r.t.Context(), p); err != nil {
			r.t.Fatal(err)
		}
	}
}

// listen subscribes a callback to a topic, from its beginning.
func (r *running) listen(topic, callback string) subscription.Subscription {
	sub := subscriptionOf(topic, callback)
	r.Activated(sub)
	return sub
}

// keeps returns how many notifications a log keeps, and the first number.
func (e *engine) keeps(topic string) (n int, first delivery.Seq) {
	e.with(func() {
		for _, note := range e.logs[topic] {
			if note != nil {
				n, first = n+1, min(note.Seq, cmp.Or(first, note.Seq))
			}
		}
	})
	return n, first
}

// gapsOf are the gaps of a subscription that were saved.
func (e *engine) gapsOf(id subscription.ID) (gaps []string) {
	e.with(func() {
		for _, g := range e.gaps {
			if g.Subscription == id {
				gaps = append(gaps, fmt.Sprintf("%d-%d %s", g.First, g.Last, g.Reason))
			}
		}
	})
	return gaps
}

func wantGaps(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("gaps of %s: %v, want %v", what, got, want)
	}
}

const (
	huge   = "https://example.com/huge/"
	middle = "https://example.com/middle/"
	small  = "https://example.com/small/"
	idle   = "https://example.com/idle/"
)

// The size of all logs together is bounded: the largest are cut to the same size. A subscription that
// needed the removed notifications has a gap, and no other has one.
func TestKeepBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{KeepBytes: 3000, CacheBytes: -1}, s)
		waits := map[string]subscription.Subscription{}
		for topic, n := range map[string]int{huge: 50, middle: 20, small: 5, idle: 30} {
			d.fill(topic, n)
			if topic != idle {
				waits[topic] = d.listen(topic, refuses)
			}
		}
		fast := d.listen(huge, takes)
		keeps := func(topic string) int { n, _ := e.keeps(topic); return n }
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		equal(t, "younger than KeepAtLeast", keeps(huge), 50)
		equal(t, "bytes", d.metric("log_bytes", ""), 10500)

		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "the huge one", keeps(huge), 12)
		equal(t, "the middle one", keeps(middle), 12)
		equal(t, "the small one", keeps(small), 5)
		equal(t, "what nobody needs", keeps(idle), 0)
		equal(t, "trimmed by size", d.metric("trimmed_total", "size"), 46)
		equal(t, "trimmed as settled", d.metric("trimmed_total", "settled"), 30)
		equal(t, "bytes trimmed by size", d.metric("trimmed_bytes_total", "size"), 4600)
		equal(t, "bytes", d.metric("log_bytes", ""), 2900)
		equal(t, "seconds", d.metric("log_oldest_seconds", ""), 360)

		s.setAnswer(nil)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		wantGaps(t, "who needed the huge one", e.gapsOf(waits[huge].ID), "1-38 trimmed")
		wantGaps(t, "who needed the middle one", e.gapsOf(waits[middle].ID), "1-8 trimmed")
		wantGaps(t, "who needed the small one", e.gapsOf(waits[small].ID))
		wantGaps(t, "who had it all", e.gapsOf(fast.ID))
		for topic, head := range map[string]delivery.Seq{huge: 50, middle: 20, small: 5} {
			p, _ := d.Position(waits[topic].ID)
			equal(t, topic, p, delivery.Position{Settled: head})
			equal(t, "left of "+topic, keeps(topic), 0)
		}
		equal(t, "bytes at the end", d.metric("log_bytes", ""), 0)
		equal(t, "seconds at the end", d.metric("log_oldest_seconds", ""), 0)
		d.stop()
		equal(t, "lines", strings.Count(d.logs.String(), "not every subscription is known to have"), 1)
		equal(t, "the line", strings.Contains(d.logs.String(),
			"bound=keep-bytes limit=3000 notifications=46 bytes=4600 topics=2 topic="+huge+" notifications_of_topic=38"), true)
	})
}

// A notification that went from a log is delivered from memory all the same where that still has it:
// it is no gap, and the line does not call it one.
func TestTrimmedButInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{KeepBytes: 500}, s)
		waits := d.listen(huge, refuses)
		d.fill(huge, 10)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		equal(t, "trimmed by size", d.metric("trimmed_total", "size"), 5)
		s.setAnswer(nil)
		s.take()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		sameSeqs(t, "delivered", s.seqs(), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		wantGaps(t, "who waited", e.gapsOf(waits.ID))
		equal(t, "gaps counted", d.metric("gaps_total", "trimmed"), 0)
		d.stop()
		equal(t, "lines", strings.Count(d.logs.String(), "who still needs them may have a gap"), 1)
	})
}

// Nothing goes by size as long as all fits, by age before its time, or if there is no bound.
func TestNothingNeededGoesWithinTheBounds(t *testing.T) {
	for name, cfg := range map[string]dispatch.Config{
		"exactly the bound": {KeepBytes: 7000},
		"no bound":          {KeepBytes: -1},
		"no bound by age":   {KeepFor: -1},
		"by default":        {},
		"all is young":      {KeepBytes: 1, KeepAtLeast: 4 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := newEngine(), &attempts{answer: unlessRefuses}
				d := start(t, e, cfg, s)
				for topic, n := range map[string]int{huge: 50, middle: 20} {
					d.fill(topic, n)
					d.listen(topic, refuses)
				}
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				n, _ := e.keeps(huge)
				m, _ := e.keeps(middle)
				equal(t, "kept", n+m, 70)
				d.stop()
				equal(t, "lines", strings.Count(d.logs.String(), "not every subscription"), 0)
			})
		})
	}
}

// Young notifications come on top of the bound. Losses that go on are logged once a minute, all of
// them.
func TestYoungComesOnTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{KeepAtLeast: 10 * time.Second, KeepBytes: 500, CacheBytes: -1}, s)
		d.listen(huge, refuses)
		d.fill(huge, 10)
		time.Sleep(5*time.Second + time.Millisecond)
		d.fill(huge, 20)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		n, first := e.keeps(huge)
		equal(t, "young", n, 20)
		equal(t, "the first of them", first, 11)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		n, _ = e.keeps(huge)
		equal(t, "within the bound", n, 5)
		for range 90 {
			time.Sleep(2 * time.Second)
			d.fill(huge, 1)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		d.fill(huge, 1)
		time.Sleep(time.Minute)
		d.stop()
		equal(t, "lines", strings.Count(d.logs.String(), "bound=keep-bytes"), 6)
		total := 0
		for part := range strings.SplitSeq(d.logs.String(), "bound=keep-bytes limit=500 notifications=") {
			var went int
			_, _ = fmt.Sscan(part, &went)
			total += went
			if of := fmt.Sprintf("topics=1 topic=%s notifications_of_topic=%d\n", huge, went); went > 0 && !strings.Contains(part, of) {
				t.Errorf("one topic lost it all: want %q in %q", of, part)
			}
		}
		equal(t, "told of", total, 116)
	})
}

// Notifications older than KeepFor go, even if that is the whole log. A subscription that needed them
// has a gap up to the head, and the next notification is tried at once.
func TestKeepFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{KeepFor: 3 * time.Hour, KeepBytes: -1, CacheBytes: -1}, s)
		d.fill(huge, 4)
		d.fill(small, 2)
		waits, other := d.listen(huge, refuses), d.listen(small, refuses)
		time.Sleep(2 * time.Hour)
		d.fill(huge, 3)
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		equal(t, "trimmed before its time", d.metric("trimmed_total", "age"), 0)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		n, first := e.keeps(huge)
		equal(t, "kept", n, 3)
		equal(t, "first", first, 5)
		n, _ = e.keeps(small)
		equal(t, "kept of the small one", n, 0)
		equal(t, "trimmed by age", d.metric("trimmed_total", "age"), 6)
		s.setAnswer(nil)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		wantGaps(t, "who lost a part", e.gapsOf(waits.ID), "1-4 trimmed")
		wantGaps(t, "who lost all", e.gapsOf(other.ID), "1-2 trimmed")
		equal(t, "gaps counted", d.metric("gaps_total", "trimmed"), 2)
		s.take()
		d.fill(small, 1)
		time.Sleep(time.Second)
		synctest.Wait()
		sameSeqs(t, "the next", s.seqs(), 3)
		p, _ := d.Position(other.ID)
		equal(t, "at the end", p, delivery.Position{Settled: 3})
	})
}

// A hub that was off for longer than KeepFor makes an attempt for what it holds
// before that goes, and so does one whose engine was away.
func TestKeepForAfterAStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		waits := subscriptionOf(topicURL, callback)
		old := &delivery.Notification{
			Publication: delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte("x")}, Seq: 1, Accepted: time.Now().Add(-7 * 24 * time.Hour),
		}
		e.logs[topicURL], e.gave[topicURL] = []*delivery.Notification{old}, 1
		e.subs[waits.ID] = waits
		e.positions[waits.ID] = delivery.Position{Failures: 9, NextAttempt: time.Now().Add(50 * time.Minute)}
		d := start(t, e, dispatch.Config{CacheBytes: -1, RetryFor: 1000 * time.Hour, KeepFor: 96 * time.Hour}, s)
		time.Sleep(49 * time.Minute)
		synctest.Wait()
		n, _ := e.keeps(topicURL)
		equal(t, "kept", n, 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		sameSeqs(t, "sent", s.seqs(), 1)
		wantGaps(t, "who waited", e.gapsOf(waits.ID))

		s.setAnswer(unlessRefuses)
		d.fill(topicURL, 1)
		d.listen(topicURL, refuses)
		time.Sleep(90 * time.Hour)
		e.with(func() { e.saveErr = errAway })
		time.Sleep(90 * time.Hour)
		e.with(func() { e.saveErr = nil })
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		n, _ = e.keeps(topicURL)
		equal(t, "kept when the engine is back", n, 1)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		n, _ = e.keeps(topicURL)
		equal(t, "kept when all have had an attempt", n, 0)
	})
}

// Of the processes that share an engine one trims by size and age, also while it
// does not know what all need; the subscriptions of others have their gaps.
func TestBoundsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		stores := dispatch.Stores{Log: e, Cursors: e, Marks: sharedEngine{e}}
		s := &attempts{answer: unlessRefuses}
		cfg := dispatch.Config{KeepBytes: 1000, KeepFor: 10 * time.Hour, CacheBytes: -1}
		trimmer := startOwning(t, e, stores, cfg, s, 0, 32)
		other := startOwning(t, e, stores, cfg, s, 33, subscription.Shards) // no process owns shard 32
		refuser := subscriptionOf(topicURL, refuses)
		if s := subscription.ShardOf(refuser.ID); s < 33 {
			t.Fatal("choose another callback")
		}
		trimmer.fill(topicURL, 20)
		other.Published(topicURL, 20)
		other.Activated(refuser)
		time.Sleep(5*time.Minute + 30*time.Second)
		synctest.Wait()
		n, _ := e.keeps(topicURL)
		equal(t, "young", n, 20)
		time.Sleep(time.Minute)
		synctest.Wait()
		n, _ = e.keeps(topicURL)
		equal(t, "within the bound", n, 10)
		equal(t, "trimmed by the owner of shard 0", trimmer.metric("trimmed_total", "size"), 10)
		equal(t, "trimmed by the other", other.metric("trimmed_total", "size"), 0)
		equal(t, "bytes by the owner of shard 0", trimmer.metric("log_bytes", ""), 1000)
		equal(t, "bytes by the other", other.metric("log_bytes", ""), 0)
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		n, _ = e.keeps(topicURL)
		equal(t, "within its time", n, 0)
		equal(t, "trimmed by age", trimmer.metric("trimmed_total", "age"), 10)
		equal(t, "as settled", trimmer.metric("trimmed_total", "settled"), 0)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		gaps := e.gapsOf(refuser.ID)
		equal(t, "gaps", gaps[len(gaps)-1][strings.Index(gaps[len(gaps)-1], "-"):], "-20 trimmed")
		p, _ := other.Position(refuser.ID)
		equal(t, "settled", p.Settled, 20)

		for s := range subscription.Shard(32) {
			trimmer.Lost(s)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "bytes by who owns nothing", trimmer.metric("log_bytes", ""), 0)
	})
}

// A log that is in trouble by itself does not keep others from being trimmed.
func TestTrimGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		e.trimErr, e.headless = errOdd, middle
		d := start(t, e, dispatch.Config{KeepBytes: 100}, s)
		for _, topic := range []string{huge, middle, small} {
			d.fill(topic, 10)
		}
		d.listen(small, refuses)
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		for topic, want := range map[string]int{huge: 0, middle: 10, small: 0} {
			n, _ := e.keeps(topic)
			equal(t, topic, n, want)
		}
		e.with(func() { e.trimErr = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		n, _ := e.keeps(middle)
		equal(t, "afterwards", n, 0)
		d.stop()
		equal(t, "lines of trouble", strings.Count(d.logs.String(), "log of "+middle), 2)
	})
}

func TestBoundsConfig(t *testing.T) {
	e := newEngine()
	for _, c := range []struct {
		cfg  dispatch.Config
		want string
	}{
		{dispatch.Config{KeepFor: 5 * time.Minute}, ""},
		{dispatch.Config{KeepFor: 5*time.Minute - 1}, "KeepFor"},
		{dispatch.Config{KeepFor: 1}, "KeepFor"},
		{dispatch.Config{KeepFor: -1}, ""},
		{dispatch.Config{KeepAtLeast: 1000 * time.Hour}, ""},
		{dispatch.Config{RetryFor: math.MaxInt64}, ""},
		{dispatch.Config{KeepAtLeast: 4 * time.Second}, ""},
		{dispatch.Config{KeepAtLeast: 4*time.Second - 1}, "TrimInterval (1s)"},
	} {
		stores := dispatch.Stores{Log: e, Cursors: e, Marks: sharedEngine{e}}
		_, err := dispatch.New(c.cfg, stores, e, &attempts{}, nil, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.cfg, err, c.want)
		}
	}
}

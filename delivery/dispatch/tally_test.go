package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/report"
	"carillon/delivery/send"
	"carillon/subscription"
	"carillon/topic"
)

// tallies returns those of some numbers of the topic.
func (r *running) tallies(seqs ...delivery.Seq) []report.Tally {
	r.t.Helper()
	all, err := r.Tally(r.t.Context(), topicURL, seqs)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// missing returns the outcome of a notification for those who have not got it.
func (r *running) missing(seq delivery.Seq) map[subscription.ID]report.Fate {
	r.t.Helper()
	all := map[subscription.ID]report.Fate{}
	err := r.Undelivered(r.t.Context(), topicURL, seq, func(s report.Standing, f report.Fate) bool {
		if _, twice := all[s.Subscription.ID]; twice {
			r.t.Errorf("%s comes twice", s.Subscription.ID)
		}
		all[s.Subscription.ID] = f
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// A notification is delivered to one, fails at another, is still to come to a third, and was given up
// for a fourth. No other subscription was to get it.
func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		cfg := dispatch.Config{RetryFor: time.Hour, RetryMax: time.Minute, FlushInterval: time.Minute}
		d := start(t, e, cfg, s)
		fast, dead, slow := d.subscribe(e, callbackIn(1, 0)), d.subscribe(e, callbackIn(2, 0)), d.subscribe(e, callbackIn(3, 0))
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if a.Callback == dead.Callback {
				return broken
			}
			return delivered
		})
		d.publish("1")
		time.Sleep(2 * time.Hour) // given up
		synctest.Wait()
		s.setAnswer(func(ctx context.Context, a *send.Attempt) send.Outcome {
			switch a.Callback {
			case dead.Callback:
				return broken
			case slow.Callback:
				<-ctx.Done()
				return send.Outcome{Err: ctx.Err()}
			}
			return delivered
		})
		d.publish("2")
		synctest.Wait()
		late := d.subscribe(e, callbackIn(4, 0))
		d.publish("3")
		synctest.Wait()
		got := d.tallies(3, 1, 2, 3)
		want := []report.Tally{
			{Seq: 3, Subscribers: 4, Delivered: 2, Pending: 2, Failing: 1},
			{Seq: 1, Subscribers: 3, Delivered: 2, GivenUp: 1},
			{Seq: 2, Subscribers: 3, Delivered: 1, Pending: 2, Failing: 1},
			{Seq: 3, Subscribers: 4, Delivered: 2, Pending: 2, Failing: 1},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if got, want := d.missing(1), (map[subscription.ID]report.Fate{dead.ID: report.FateGivenUp}); !maps.Equal(got, want) {
			t.Errorf("without the first: %v, want %v", got, want)
		}
		want2 := map[subscription.ID]report.Fate{dead.ID: report.FateFailing, slow.ID: report.FatePending}
		if got := d.missing(2); !maps.Equal(got, want2) {
			t.Errorf("without the second: %v, want %v", got, want2)
		}
		equal(t, "nobody subscribes to it", len(mustTally(t, d, "https://example.com/other")), 1)
		states := map[subscription.ID]report.State{
			fast.ID: report.StateIdle, dead.ID: report.StateFailing, slow.ID: report.StateInFlight, late.ID: report.StateIdle,
		}
		for id, want := range states {
			if s, ok := d.Standing(id); !ok || s.State != want || s.Gapped != (id == dead.ID) || s.Head != 3 {
				t.Errorf("%s stands %+v, want %v", s.Subscription.Callback, s, want)
			}
		}
	})
}

func mustTally(t *testing.T, d *running, topic string) []report.Tally {
	all, err := d.Tally(t.Context(), topic, []delivery.Seq{1})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Gaps count before they are saved, while they are, and after a restart.
func TestTallyUnsavedGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		cfg := dispatch.Config{RetryFor: time.Minute, RetryMax: time.Minute, FlushInterval: time.Hour, TrimInterval: 24 * time.Hour}
		d := start(t, e, cfg, s)
		sub := d.subscribe(e, callbackIn(1, 0))
		d.publish("1")
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		want := report.Tally{Seq: 1, Subscribers: 1, GivenUp: 1}
		equal(t, "stored gaps", len(e.gaps), 0)
		equal(t, "not saved", d.tallies(1)[0], want)
		more := make(chan struct{})
		e.with(func() {
			e.slowSave = func(context.Context) error { <-more; return nil }
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "stored gaps", len(e.gaps), 0)
		equal(t, "being saved", d.tallies(1)[0], want)
		equal(t, "missing", d.missing(1)[sub.ID], report.FateGivenUp)
		close(more)
		synctest.Wait()
		equal(t, "stored gaps", len(e.gaps), 1)
		equal(t, "saved", d.tallies(1)[0], want)
		d.stop()
		d = start(t, e, cfg, s)
		synctest.Wait()
		equal(t, "after a restart", d.tallies(1)[0], want)
	})
}

// Whatever the positions and gaps are: a tally is what counting one by one gives.
func TestTallyAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			const head = 20
			e := newEngine()
			for range head {
				if _, err := e.Append(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL)}, newID(), time.Now()); err != nil {
					rt.Fatal(err)
				}
			}
			want := make([]report.Tally, head+1)
			for i := range rapid.IntRange(0, 20).Draw(rt, "subscriptions") {
				sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i))
				sub.Expires = time.Now().Add(-time.Second) // nothing is delivered
				first := rapid.IntRange(0, head).Draw(rt, "start")
				sub.Start = uint64(first)
				p := delivery.Position{Settled: delivery.Seq(rapid.IntRange(first, head).Draw(rt, "settled"))}
				if rapid.Bool().Draw(rt, "fails") {
					p.Failures, p.LastFailure = 1, delivery.ClassTimeout
				}
				e.subs[sub.ID], e.positions[sub.ID] = sub, p
				fates := gapsFor(rt, e, sub, p)
				for seq := first + 1; seq <= head; seq++ {
					add(&want[seq], fates(delivery.Seq(seq)))
				}
			}
			d := start(t, e, dispatch.Config{}, &attempts{})
			synctest.Wait()
			seqs := rapid.SliceOfN(rapid.IntRange(1, head), 0, 30).Draw(rt, "asked")
			for i, got := range d.tallies(seqsOf(seqs)...) {
				if want[seqs[i]].Seq = delivery.Seq(seqs[i]); got != want[seqs[i]] {
					rt.Errorf("got %+v, want %+v", got, want[seqs[i]])
				}
				missing := d.missing(got.Seq)
				equal(t, "missing", len(missing), got.Pending+got.GivenUp+got.Trimmed)
			}
			d.stop()
		})
	})
}

func seqsOf(numbers []int) (seqs []delivery.Seq) {
	for _, n := range numbers {
		seqs = append(seqs, delivery.Seq(n))
	}
	return seqs
}

// gapsFor draws the gaps of a subscription, and returns the outcome of a notification.
func gapsFor(rt *rapid.T, e *engine, sub subscription.Subscription, p delivery.Position) func(delivery.Seq) report.Fate {
	fates := map[delivery.Seq]report.Fate{}
	for seq := delivery.Seq(sub.Start) + 1; seq <= p.Settled; {
		g := delivery.Gap{Subscription: sub.ID, First: seq, At: time.Now()}
		g.Last = min(p.Settled, seq+delivery.Seq(rapid.IntRange(0, 5).Draw(rt, "length")))
		kind := rapid.SampledFrom([]report.Fate{report.FateDelivered, report.FateGivenUp, report.FateTrimmed}).Draw(rt, "fate")
		replayed := rapid.Bool().Draw(rt, "replayed")
		for ; seq <= g.Last; seq++ {
			if !replayed {
				fates[seq] = kind
			}
		}
		g.Reason = delivery.GapGivenUp
		if kind == report.FateTrimmed {
			g.Reason = delivery.GapTrimmed
		}
		if replayed {
			g.Replayed = time.Now()
		}
		if kind != report.FateDelivered {
			e.gaps = append(e.gaps, g)
		}
	}
	return func(seq delivery.Seq) report.Fate {
		switch {
		case seq <= p.Settled:
			return fates[seq]
		case p.Failures > 0:
			return report.FateFailing
		}
		return report.FatePending
	}
}

func add(t *report.Tally, f report.Fate) {
	t.Subscribers++
	switch f {
	case report.FateDelivered:
		t.Delivered++
	case report.FateGivenUp:
		t.GivenUp++
	case report.FateTrimmed:
		t.Trimmed++
	case report.FateFailing:
		t.Failing++
		t.Pending++
	case report.FatePending:
		t.Pending++
	}
}

// Each visits all subscriptions, of one topic or of all, without secrets, until the visitor stops it.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const topics, each = 3, 1500 // more than a stretch
		d := start(t, newEngine(), dispatch.Config{}, &attempts{})
		for i := range topics * each {
			sub := subscriptionOf(fmt.Sprint(topicURL, i%topics), fmt.Sprintf("https://h%d.example/", i))
			if i%2 == 0 {
				sub.Secret = "hidden"
			}
			d.Activated(sub)
		}
		for topic, want := range map[string]int{"": topics * each, topicURL + "1": each, topicURL + "none": 0} {
			seen, signed := map[subscription.ID]bool{}, 0
			err := d.Each(t.Context(), topic, func(s report.Standing) bool {
				if s.Subscription.Secret != "" || topic != "" && s.Subscription.Topic != topic {
					t.Errorf("got %+v", s)
				}
				if s.Signed {
					signed++
				}
				seen[s.Subscription.ID] = true
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "of "+topic, len(seen), want)
			equal(t, "signed", signed, want/2)
		}
		n := 0
		if err := d.Each(t.Context(), "", func(report.Standing) bool { n++; return n < 10 }); err != nil {
			t.Fatal(err)
		}
		equal(t, "seen by who wants ten", n, 10)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.Each(over, "", func(report.Standing) bool { return true }); err == nil {
			t.Error("no error when the context has ended")
		}
	})
}

// A visitor may change the table: every subscription that is there throughout is visited.
func TestEachWhileOthersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, newEngine(), dispatch.Config{}, &attempts{})
		var subs []subscription.Subscription
		for i := range 5000 {
			subs = append(subs, subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i)))
			d.Activated(subs[i])
		}
		seen := map[subscription.ID]bool{}
		err := d.Each(t.Context(), topicURL, func(s report.Standing) bool {
			seen[s.Subscription.ID] = true
			if i := len(seen); i <= 2500 {
				d.Ended(subs[i].ID)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, sub := range subs[2501:] {
			if !seen[sub.ID] {
				t.Fatalf("%s was not seen", sub.Callback)
			}
		}
	})
}

// endingCtx calls ends[n] when it is asked for the n-th time whether it is over.
type endingCtx struct {
	context.Context
	ends  map[int]func()
	asked int
}

func (c *endingCtx) Err() error {
	c.asked++
	if end := c.ends[c.asked]; end != nil {
		end()
	}
	return c.Context.Err()
}

// A topic loses all its subscriptions while they are counted: no subscription counts twice.
func TestTallyWhileAllEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			last []subscription.Subscription // those that come back
		}{{"nobody is there", nil}, {"one comes back", []subscription.Subscription{subscriptionOf(topicURL, callback)}}} {
			d := start(t, newEngine(), dispatch.Config{}, &attempts{})
			var subs []subscription.Subscription
			for i := range 3000 {
				subs = append(subs, subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i)))
				d.Activated(subs[i])
			}
			end := func(subs []subscription.Subscription) {
				for _, sub := range subs {
					d.Ended(sub.ID)
				}
			}
			ctx := &endingCtx{Context: t.Context(), ends: map[int]func(){
				2: func() { end(subs[1000:1100]) }, // some that were counted take their places
				3: func() {
					end(subs)
					for _, sub := range c.last {
						d.Activated(sub)
					}
				},
			}}
			all, err := d.Tally(ctx, topicURL, []delivery.Seq{1})
			if err != nil {
				t.Fatal(err)
			}
			equal(t, c.name, all[0].Subscribers, len(c.last))
			d.stop()
		}
	})
}

// A shard that is still being read is not counted, and the answer names it as missing.
func TestTallyWithoutLoadingShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		slow := &slowGapped{engine: e, begun: make(chan struct{}), more: make(chan struct{})}
		sub := subscriptionOf(topicURL, callbackIn(0, 0))
		e.subs[sub.ID] = sub
		d := startOwning(t, e, dispatch.Stores{Log: e, Cursors: slow}, dispatch.Config{}, &attempts{}, 1, 2)
		go func() {
			if err := d.Gained(t.Context(), delivery.Tenure{Shard: 0}); err != nil {
				t.Error(err)
			}
		}()
		<-slow.begun
		equal(t, "subscribers while the shard is read", d.tallies(1)[0].Subscribers, 0)
		_, there := d.Standing(sub.ID)
		equal(t, "there", there, false)
		held, loading := d.Held()
		equal(t, "held", len(held), 1)
		equal(t, "loading", len(loading), 1)
		if err := d.RetryNow(t.Context(), sub.ID); err == nil {
			t.Error("a retry in a shard that is being read")
		}
		close(slow.more)
		synctest.Wait()
		equal(t, "subscribers", d.tallies(1)[0].Subscribers, 1)
	})
}

// slowGapped stops before it returns gaps.
type slowGapped struct {
	*engine
	begun, more chan struct{}
}

func (s *slowGapped) Gapped(ctx context.Context, shard subscription.Shard) iter.Seq2[subscription.ID, error] {
	return func(yield func(subscription.ID, error) bool) {
		if shard == 0 {
			close(s.begun)
			<-s.more
		}
		s.engine.Gapped(ctx, shard)(yield)
	}
}

// brokenGapped cannot tell of gaps.
type brokenGapped struct{ *engine }

func (brokenGapped) Gapped(context.Context, subscription.Shard) iter.Seq2[subscription.ID, error] {
	return func(yield func(subscription.ID, error) bool) { yield(subscription.ID{}, errAway) }
}

// A shard whose gaps cannot be read is not taken: its tallies would be wrong.
func TestGainedWithoutGaps(t *testing.T) {
	e := newEngine()
	d, err := dispatch.New(dispatch.Config{}, dispatch.Stores{Log: e, Cursors: brokenGapped{e}}, e, &attempts{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Gained(t.Context(), delivery.Tenure{}); !errors.Is(err, delivery.ErrUnavailable) {
		t.Errorf("gained: %v", err)
	}
	held, loading := d.Held()
	equal(t, "shards", len(held)+len(loading), 0)
}

// BenchmarkTally counts fifty notifications for 50,000 subscribers of which 37 have gaps.
func BenchmarkTally(b *testing.B) {
	e := newEngine()
	for i := range 50_000 {
		sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/%d", i%1000, i))
		sub.Expires = time.Now().Add(-time.Hour) // nothing is delivered
		e.subs[sub.ID] = sub
		e.positions[sub.ID] = delivery.Position{Settled: 100}
		if i < 37 {
			e.gaps = append(e.gaps, delivery.Gap{Subscription: sub.ID, First: 70, Last: 80, Reason: delivery.GapGivenUp})
		}
	}
	d, err := dispatch.New(dispatch.Config{}, e.stores(), e, &attempts{}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for s := range subscription.Shards {
		if err := d.Gained(b.Context(), delivery.Tenure{Shard: subscription.Shard(s)}); err != nil {
			b.Fatal(err)
		}
	}
	var seqs []delivery.Seq
	for seq := delivery.Seq(51); seq <= 100; seq++ {
		seqs = append(seqs, seq)
	}
	b.Run("tally", func(b *testing.B) {
		for b.Loop() {
			all, err := d.Tally(b.Context(), topicURL, seqs)
			if err != nil || all[20].GivenUp != 37 || all[20].Delivered != 50_000-37 {
				b.Fatal(all[20], err)
			}
		}
	})
	b.Run("undelivered", func(b *testing.B) {
		for b.Loop() {
			n := 0
			err := d.Undelivered(b.Context(), topicURL, 75, func(report.Standing, report.Fate) bool { n++; return true })
			if err != nil || n != 37 {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("each", func(b *testing.B) {
		for b.Loop() {
			n := 0
			if err := d.Each(b.Context(), "", func(report.Standing) bool { n++; return true }); err != nil || n != 50_000 {
				b.Fatal(n, err)
			}
		}
	})
}

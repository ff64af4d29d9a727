package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
	"carillon/topic"
)

func newID() uuid.UUID { return uuid.New() }

// Numbers need not be consecutive: where nothing is missing there is no gap, and
// those who stand at the same place share one read.
func TestNumbersWithHoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callbacks = 200
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{MaxInFlight: 3, MaxSlow: -1, RetryFor: time.Hour}, s)
		for i := range callbacks {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		d.publish("1")
		synctest.Wait()
		e.with(func() { e.gave[topicURL] += 1_000_000; e.reads = 0 })
		d.publish("far above")
		d.publish("right behind")
		synctest.Wait()
		equal(t, "delivered", len(s.take()), 3*callbacks)
		equal(t, "reads", e.reads, 1) // its own publication does not name the one before
		gaps, _ := e.Gaps(t.Context(), subscription.ID{}, 10)
		equal(t, "gaps", len(gaps), 0)
		equal(t, "losses", d.metric("log_losses_total", ""), 0)

		// Giving up finds its way through the holes, too.
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		for range 3 {
			e.with(func() { e.gave[topicURL] += 1_000_000 })
			d.publish("old")
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		e.with(func() { e.gave[topicURL] += 1_000_000 })
		young := d.publish("young").Seq
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		gaps, _ = e.Gaps(t.Context(), subscription.ID{}, 10)
		if len(gaps) == 0 {
			t.Fatal("nothing was given up")
		}
		for _, g := range gaps {
			if g.First != 2_000_004 || g.Last != 4_000_006 || g.Last >= young || g.Reason != delivery.GapGivenUp {
				t.Fatalf("gap %+v, want the three old ones", g)
			}
		}
	})
}

// laggard is a hub with a subscription that has everything, and one that was
// backing off when the log lost its last two of five.
type laggard struct {
	*running
	e    *engine
	s    *attempts
	fast subscription.Subscription
	slow subscription.Subscription
}

func newLaggard(t *testing.T, behind int) *laggard {
	l := &laggard{e: newEngine(), s: &attempts{}}
	l.running = start(t, l.e, dispatch.Config{CacheBytes: -1}, l.s)
	l.fast, l.slow = l.subscribe(l.e, callbackIn(1, 0)), l.subscribe(l.e, callbackIn(2, 0))
	l.s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
		if a.Callback == l.slow.Callback && int(a.Notification.Seq) > 5-behind {
			return send.Outcome{Class: delivery.ClassServerError, Status: 503, RetryAfter: time.Minute}
		}
		return delivered
	})
	for range 5 {
		l.publish("x")
	}
	time.Sleep(time.Second)
	synctest.Wait()
	l.s.take()
	l.s.setAnswer(nil)
	l.e.lose(topicURL, 2)
	return l
}

// publishElsewhere appends as another process does.
func (l *laggard) publishElsewhere() delivery.Seq {
	r, err := l.e.Append(l.t.Context(), delivery.Publication{Topic: topic.Parse(topicURL)}, newID(), time.Now())
	if err != nil {
		l.t.Fatal(err)
	}
	return r.Seq
}

// regain has every shard read anew.
func (l *laggard) regain() {
	for s := range subscription.Shard(subscription.Shards) {
		l.Lost(s)
	}
	for s := range subscription.Shard(subscription.Shards) {
		l.e.with(func() { l.e.epochs[s]++ })
		if err := l.Gained(l.t.Context(), delivery.Tenure{Shard: s, Epoch: l.e.epochs[s]}); err != nil {
			l.t.Fatal(err)
		}
	}
}

// The lost end of a log is a gap for the subscriptions behind it, and for no other. Later publications
// come to all. The operator gets one report.
func TestLogLosesItsEnd(t *testing.T) {
	for name, notice := range map[string]func(l *laggard){
		"found when it looks": func(l *laggard) {
			l.Refresh()
			synctest.Wait()
			equal(l.t, "losses told of at once", l.metric("log_losses_total", ""), 1)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			l.Refresh()
			synctest.Wait()
			l.Published(topicURL, l.publishElsewhere())
		},
		"hidden by a publication of its own": func(l *laggard) { l.publish("after") },
		"hidden by one of another process":   func(l *laggard) { l.Published(topicURL, l.publishElsewhere()) },
		"hidden by several, told of late": func(l *laggard) {
			l.publishElsewhere()
			l.Published(topicURL, l.publishElsewhere())
			l.Refresh()
		},
		"published and not told of until it looks": func(l *laggard) {
			l.publishElsewhere()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			l.Refresh()
		},
		"the shards are read anew": func(l *laggard) {
			l.regain()
			synctest.Wait()
			l.publish("after")
		},
		"the shards are read anew, after a publication": func(l *laggard) {
			l.publishElsewhere()
			l.regain()
		},
	} {
		for behind := range 5 {
			t.Run(fmt.Sprintf("%s, %d behind", name, behind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLaggard(t, behind)
					notice(l)
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					l.wantLoss(behind)
				})
			})
		}
	}
}

// wantLoss checks the outcome of the loss of two.
func (l *laggard) wantLoss(behind int) {
	l.t.Helper()
	got := map[string][]delivery.Seq{}
	for _, a := range l.s.take() {
		got[a.callback] = append(got[a.callback], a.seq)
	}
	for _, seq := range got[l.fast.Callback] {
		if seq <= 5 {
			l.t.Errorf("the fast one got %d again", seq)
		}
	}
	if len(got[l.fast.Callback]) == 0 {
		l.t.Error("the fast one got nothing of what came afterwards")
	}
	var want []delivery.Seq // of what was there before
	for seq := delivery.Seq(6 - behind); seq <= 3; seq++ {
		want = append(want, seq)
	}
	sameSeqs(l.t, "the slow one", got[l.slow.Callback], append(want, got[l.fast.Callback]...)...)
	gaps, _ := l.e.Gaps(l.t.Context(), l.slow.ID, 10)
	if behind == 0 {
		equal(l.t, "gaps", len(gaps), 0)
	} else if len(gaps) != 1 || gaps[0].Subscription != l.slow.ID || gaps[0].Reason != delivery.GapTrimmed ||
		gaps[0].First != max(4, delivery.Seq(6-behind)) || gaps[0].Last != 5 {
		l.t.Errorf("gaps: %+v", gaps)
	}
	equal(l.t, "losses", l.metric("log_losses_total", ""), 1)
	l.stop()
	equal(l.t, "log lines", strings.Count(l.logs.String(), "the end of a log is lost"), 1)
	equal(l.t, "errors", strings.Count(l.logs.String(), "level=ERROR"), 1)
}

// A server that lost the end of a log lost that of the cursors, too: this hub's knowledge of the log
// outlasts the shards.
func TestCursorsLoseTheirEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLaggard(t, 1)
		l.e.with(func() {
			for id := range l.e.positions {
				l.e.positions[id] = delivery.Position{Settled: 3}
			}
		})
		l.regain()
		time.Sleep(time.Second)
		synctest.Wait()
		sub := subscriptionOf(topicURL, callback) // it begins after the loss
		head, err := l.Head(t.Context(), topicURL)
		if err != nil {
			t.Fatal(err)
		}
		sub.Start = head
		l.Activated(sub)
		seq := l.publish("after").Seq
		time.Sleep(time.Second)
		synctest.Wait()
		sameSeqs(t, "sent", l.s.seqs(), seq, seq, seq)
		gaps, _ := l.e.Gaps(t.Context(), subscription.ID{}, 10)
		if len(gaps) != 2 {
			t.Fatalf("gaps: %+v", gaps)
		}
		for _, g := range gaps {
			if g.First != 4 || g.Last != 5 || g.Subscription == sub.ID {
				t.Errorf("gap %+v", g)
			}
		}
		equal(t, "losses", l.metric("log_losses_total", ""), 1)
	})
}

// A subscription that begins after a loss misses nothing.
func TestSubscribeAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLaggard(t, 0)
		head, err := l.Head(t.Context(), topicURL)
		if err != nil {
			t.Fatal(err)
		}
		sub := subscriptionOf(topicURL, callback)
		sub.Start = head
		l.Activated(sub)
		synctest.Wait()
		seq := l.publish("after").Seq
		time.Sleep(time.Second)
		synctest.Wait()
		gaps, _ := l.e.Gaps(t.Context(), sub.ID, 10)
		equal(t, "gaps", len(gaps), 0)
		p, _ := l.Position(sub.ID)
		equal(t, "settled", p.Settled, seq)
	})
}

// A subscription that begins anew at the head, while it waits for its turn with what its
// last life had left, has nothing to send: no gap that ends before it begins is noted.
func TestNewLifeInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		release := make(chan struct{})
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { <-release; return delivered })
		d := start(t, e, dispatch.Config{MaxInFlight: 1, MaxSlow: -1, CacheBytes: -1}, s)
		subs := map[string]subscription.Subscription{}
		for _, callback := range []string{"https://h.example/1", "https://h.example/2"} {
			subs[callback] = d.subscribe(e, callback)
		}
		head := d.publish("x").Seq
		synctest.Wait()
		delete(subs, s.take()[0].callback)
		for _, waits := range subs {
			waits.Start = uint64(head)
			d.Activated(waits)
			close(release)
			time.Sleep(time.Second)
			synctest.Wait()
			gaps, _ := e.Gaps(t.Context(), waits.ID, 10)
			equal(t, "gaps", len(gaps), 0)
			equal(t, "attempts", len(s.take()), 0)
			d.publish("y")
			time.Sleep(time.Second)
			synctest.Wait()
			p, _ := d.Position(waits.ID)
			equal(t, "settled", p.Settled, head+1)
		}
	})
}

// A cursor proves that the log was longer: the lost end is a gap of the subscriptions behind it, also
// for a hub that was not there.
func TestCursorBeyondTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		fast, slow := d.subscribe(e, callbackIn(2, 0)), d.subscribe(e, callbackIn(1, 0))
		for range 5 {
			d.publish("x")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		d.stop()
		e.with(func() { e.positions[slow.ID] = delivery.Position{Settled: 2} })
		e.lose(topicURL, 2)
		s.take()
		d = start(t, e, dispatch.Config{}, s)
		time.Sleep(time.Second)
		synctest.Wait()
		sameSeqs(t, "what is left", s.seqs(), 3)
		after := d.publish("after").Seq
		time.Sleep(time.Second)
		synctest.Wait()
		sameSeqs(t, "what came afterwards", s.seqs(), after, after)
		gaps, _ := e.Gaps(t.Context(), slow.ID, 10)
		if len(gaps) != 1 || gaps[0].Subscription != slow.ID || gaps[0].First != 4 || gaps[0].Last != 5 {
			t.Errorf("gaps: %+v", gaps)
		}
		equal(t, "losses", d.metric("log_losses_total", ""), 1)
		p, _ := d.Position(fast.ID)
		equal(t, "settled", p.Settled, after)
	})
}

// A start goes on right behind what was stored, no later and no earlier.
func TestStartGoesOnFromThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		sub := d.subscribe(e, callback)
		for range 5 {
			d.publish("x")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		d.stop()
		s.take()
		e.with(func() { e.positions[sub.ID] = delivery.Position{Settled: 2} })
		start(t, e, dispatch.Config{}, s)
		synctest.Wait()
		sameSeqs(t, "sent", s.seqs(), 3, 4, 5)
		gaps, _ := e.Gaps(t.Context(), sub.ID, 10)
		equal(t, "gaps", len(gaps), 0)
	})
}

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

	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/report"
	"carillon/delivery/send"
	"carillon/subscription"
)

// replaying is a hub with one subscription that has got so many notifications.
type replaying struct {
	*running
	e   *engine
	s   *attempts
	sub subscription.Subscription
}

func newReplaying(t *testing.T, cfg dispatch.Config, published int) *replaying {
	r := &replaying{e: newEngine(), s: &attempts{}}
	r.running = start(t, r.e, cfg, r.s)
	r.sub = r.subscribe(r.e, callbackIn(0, 0))
	for range published {
		r.publish("x")
	}
	synctest.Wait()
	r.s.take()
	return r
}

// restart ends the hub and begins another on the same engine.
func (r *replaying) restart(t *testing.T, cfg dispatch.Config) {
	r.stop()
	r.running = start(t, r.e, cfg, r.s)
	synctest.Wait()
}

// replay begins one that is as long as was asked for.
func (r *replaying) replay(from, last delivery.Seq) {
	r.t.Helper()
	first, end, err := r.Replay(r.t.Context(), r.sub.ID, from, last)
	if err != nil || first != from || end != last {
		r.t.Fatalf("replay of %d to %d: %d to %d, %v", from, last, first, end, err)
	}
}

// stored is what the engine has of the gaps, the oldest first: where they end, and
// whether they were replayed.
func (r *replaying) stored() (all []gapSeen) {
	gaps, err := r.e.Gaps(r.t.Context(), r.sub.ID, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, g := range slices.Backward(gaps) {
		all = append(all, gapSeen{g.First, g.Last, !g.Replayed.IsZero()})
	}
	return all
}

type gapSeen struct {
	first, last delivery.Seq
	replayed    bool
}

func sameGaps(t *testing.T, what string, got []gapSeen, want ...gapSeen) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// A replay comes in order, with the notifications as they were, before what is published
// meanwhile, and nothing else comes twice.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(t, dispatch.Config{}, 5)
		other := r.subscribe(r.e, callbackIn(1, 0))
		third, err := r.e.Read(t.Context(), topicURL, 3)
		if err != nil {
			t.Fatal(err)
		}
		r.s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if a.Callback != r.sub.Callback {
				return delivered
			}
			if time.Sleep(time.Second); a.Notification.Seq == 3 && a.Number == 1 {
				return broken // once
			}
			return delivered
		})
		r.replay(2, 4)
		if _, _, err := r.Replay(t.Context(), r.sub.ID, 1, 1); !errors.Is(err, delivery.ErrUnderWay) {
			t.Errorf("a replay on top of another: %v", err)
		}
		p, _ := r.Position(r.sub.ID)
		equal(t, "position", p, delivery.Position{Settled: 5, ReplayNext: 2, ReplayLast: 4})
		equal(t, "what is needed", r.Slowest()[topicURL], 1)
		equal(t, "behind", r.Totals().Behind, 1)
		r.publish("six")
		time.Sleep(time.Hour)
		var seqs []delivery.Seq
		for _, a := range r.s.take() {
			if a.callback == r.sub.Callback {
				seqs = append(seqs, a.seq)
			} else {
				equal(t, "what the other gets", a.seq, 6)
			}
			if a.seq == 3 {
				equal(t, "its id", a.note.ID, third.ID)
			}
		}
		sameSeqs(t, "deliveries", seqs, 2, 3, 3, 4, 6)
		p, _ = r.Position(r.sub.ID)
		equal(t, "position", p, delivery.Position{Settled: 6})
		equal(t, "stored position", r.e.positions[r.sub.ID], delivery.Position{Settled: 6})
		equal(t, "gaps", len(r.e.gaps), 0)
		got := r.Attempts(r.sub.ID)
		equal(t, "the last but one was a replay", got[1].Replay, true)
		equal(t, "the last was a replay", got[0].Replay, false)
		if s, _ := r.Standing(other.ID); s.State != report.StateIdle {
			t.Errorf("the other stands %+v", s)
		}
	})
}

// A replay that is not possible is refused with the reason.
func TestReplayRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(t, dispatch.Config{KeepAtLeast: 100 * time.Hour, FlushInterval: 100 * time.Hour}, 5)
		if _, err := r.e.Trim(t.Context(), topicURL, 3, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		refused := func(what string, id subscription.ID, from, last delivery.Seq, want error) {
			t.Helper()
			if _, _, err := r.Replay(t.Context(), id, from, last); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", what, err, want)
			}
		}
		refused("nobody's", newID(), 3, 4, delivery.ErrNoSubscription)
		refused("of what is still to come", r.sub.ID, 6, 9, delivery.ErrNothingToDo)
		refused("that ends before it begins", r.sub.ID, 5, 4, delivery.ErrNothingToDo)
		_, _, err := r.Replay(t.Context(), r.sub.ID, 2, 4)
		if kept := (*delivery.NotKeptError)(nil); !errors.As(err, &kept) || kept.First != 3 {
			t.Errorf("of what is trimmed: %v", err)
		}
		r.e.with(func() { r.e.readErr = errAway })
		refused("while the engine is away", r.sub.ID, 3, 4, delivery.ErrUnavailable)
		r.e.with(func() { r.e.readErr, r.e.saveErr = nil, errAway })
		refused("while nothing can be saved", r.sub.ID, 3, 4, delivery.ErrUnavailable)
		synctest.Wait()
		equal(t, "attempts", len(r.s.take()), 0)
		r.e.with(func() { r.e.saveErr = nil })
		time.Sleep(time.Minute)
		if _, end, err := r.Replay(t.Context(), r.sub.ID, 3, 0); err != nil || end != 5 {
			t.Errorf("up to the head: %d %v", end, err)
		}
		time.Sleep(time.Minute)
		sameSeqs(t, "deliveries", r.s.seqs(), 3, 4, 5)
		over := r.sub
		over.Expires = time.Now()
		r.Activated(over)
		refused("when the lease is over", r.sub.ID, 3, 4, delivery.ErrNothingToDo)
		r.Lost(0)
		refused("of another process", r.sub.ID, 3, 4, delivery.ErrNotHeld)
	})
}

// givenUp has the subscription fail until the first so many notifications are given up, in
// one gap.
func givenUp(t *testing.T, cfg dispatch.Config, published int) *replaying {
	cfg.RetryFor = 3 * time.Hour
	r := newReplaying(t, cfg, 0)
	r.s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
	for range published {
		r.publish("x")
	}
	time.Sleep(5 * time.Hour)
	synctest.Wait()
	r.s.setAnswer(nil)
	r.s.take()
	sameGaps(t, "gaps", r.stored(), gapSeen{1, delivery.Seq(published), false})
	return r
}

var keeping = dispatch.Config{KeepAtLeast: 10_000 * time.Hour, KeepFor: -1}

// The part of a gap that a replay has delivered is marked, and counts as delivered; the rest does not.
func TestReplayFillsGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := givenUp(t, keeping, 6)
		r.s.setAnswer(func(context.Context, *send.Attempt) send.Outcome {
			time.Sleep(time.Minute)
			return delivered
		})
		r.replay(3, 5)
		time.Sleep(90 * time.Second) // 3 is delivered, and 4 is under way
		synctest.Wait()
		for i, want := range []report.Tally{
			{Seq: 2, Subscribers: 1, GivenUp: 1},
			{Seq: 3, Subscribers: 1, Delivered: 1},
			{Seq: 4, Subscribers: 1, Pending: 1},
			{Seq: 5, Subscribers: 1, Pending: 1},
			{Seq: 6, Subscribers: 1, GivenUp: 1},
		} {
			equal(t, "while it runs", r.tallies(2, 3, 4, 5, 6)[i], want)
		}
		equal(t, "missing", r.missing(5)[r.sub.ID], report.FatePending)
		equal(t, "of those that have it", len(r.missing(3)), 0)
		time.Sleep(time.Hour)
		sameGaps(t, "gaps", r.stored(), gapSeen{1, 2, false}, gapSeen{3, 5, true}, gapSeen{6, 6, false})
		equal(t, "delivered", r.tallies(4)[0].Delivered, 1)
		s, _ := r.Standing(r.sub.ID)
		equal(t, "gapped", s.Gapped, true)
		r.replay(1, 2)
		time.Sleep(time.Hour)
		r.replay(5, 6)
		time.Sleep(time.Hour)
		sameSeqs(t, "deliveries", r.s.seqs(), 3, 4, 5, 1, 2, 5, 6)
		sameGaps(t, "gaps", r.stored(), gapSeen{1, 2, true}, gapSeen{3, 5, true}, gapSeen{6, 6, true})
		s, _ = r.Standing(r.sub.ID)
		equal(t, "gapped", s.Gapped, false)
	})
}

// A replay goes on after a restart where it was, and knows what was delivered before.
func TestReplayAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := givenUp(t, keeping, 6)
		r.s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if a.Notification.Seq == 4 && a.Number == 1 {
				return broken
			}
			return delivered
		})
		r.replay(2, 5)
		synctest.Wait()
		sameSeqs(t, "deliveries", r.s.seqs(), 2, 3, 4)
		r.restart(t, keeping)
		equal(t, "attempts that do not wait", len(r.s.take()), 0)
		p, _ := r.Position(r.sub.ID)
		equal(t, "next", p.ReplayNext, 4)
		equal(t, "delivered while it runs", r.tallies(2)[0].Delivered, 1)
		equal(t, "what is needed", r.Slowest()[topicURL], 3)
		time.Sleep(time.Hour)
		sameSeqs(t, "deliveries after the restart", r.s.seqs(), 4, 5)
		sameGaps(t, "gaps", r.stored(), gapSeen{1, 1, false}, gapSeen{2, 5, true}, gapSeen{6, 6, false})
		s, _ := r.Standing(r.sub.ID)
		equal(t, "gapped", s.Gapped, true)
	})
}

// A notification that a callback does not take is passed over; two in a row end the replay, and the
// rest stays a gap.
func TestReplayGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := givenUp(t, keeping, 9)
		bad := func(seqs ...delivery.Seq) {
			r.s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
				if slices.Contains(seqs, a.Notification.Seq) {
					return broken
				}
				return delivered
			})
		}
		bad(3)
		r.replay(2, 4)
		time.Sleep(24 * time.Hour)
		sent := r.s.seqs()
		equal(t, "attempts", len(sent), 1+dispatch.ReplayTries+1)
		equal(t, "the last", sent[len(sent)-1], 4)
		want := []gapSeen{{1, 1, false}, {2, 2, true}, {3, 3, false}, {4, 4, true}, {5, 9, false}}
		sameGaps(t, "gaps", r.stored(), want...)
		p, _ := r.Position(r.sub.ID)
		equal(t, "position", p, delivery.Position{Settled: 9})

		bad(6, 7, 8)
		r.replay(5, 9)
		time.Sleep(24 * time.Hour)
		sent = r.s.seqs()
		equal(t, "attempts", len(sent), 1+dispatch.ReplayTries+1)
		equal(t, "the last", sent[len(sent)-1], 7)
		r.publish("ten")
		synctest.Wait()
		sameSeqs(t, "what comes afterwards", r.s.seqs(), 10)
		sameGaps(t, "gaps", r.stored(), append(want[:4], gapSeen{5, 5, true}, gapSeen{6, 6, false}, gapSeen{7, 9, false})...)
		p, _ = r.Position(r.sub.ID)
		equal(t, "position", p, delivery.Position{Settled: 10})
	})
}

// A subscription that was backing off gets its replay at once, and its earlier failures count no more.
// Then the notification that failed is tried again.
func TestReplayOfAFailingOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(t, dispatch.Config{RetryFirst: time.Hour, RetryMax: 3 * time.Hour, KeepAtLeast: 100 * time.Hour}, 3)
		r.s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		r.publish("four")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		r.s.take()
		p, _ := r.Position(r.sub.ID)
		if p.Failures < 5 {
			t.Fatalf("position %+v", p)
		}
		r.s.setAnswer(nil)
		r.replay(2, 3)
		synctest.Wait()
		sent := r.s.take()
		equal(t, "attempts", len(sent), 3)
		for i, seq := range []delivery.Seq{2, 3, 4} {
			equal(t, "sequence number", sent[i].seq, seq)
			equal(t, "number", sent[i].number, 1)
		}
		equal(t, "failing", r.Totals().Failing, 0)
	})
}

// Notifications that are trimmed while a replay runs are passed over, and still are a gap.
func TestReplayOfWhatIsTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := keeping
		cfg.CacheBytes = -1
		r := givenUp(t, cfg, 6)
		r.s.setAnswer(func(context.Context, *send.Attempt) send.Outcome {
			time.Sleep(time.Minute)
			return delivered
		})
		trim := func(before delivery.Seq) {
			if _, err := r.e.Trim(t.Context(), topicURL, before, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		r.replay(1, 6)
		time.Sleep(30 * time.Second)
		trim(4) // 1 is under way
		time.Sleep(time.Minute)
		trim(7) // 4 is
		time.Sleep(time.Hour)
		sameSeqs(t, "deliveries", r.s.seqs(), 1, 4)
		sameGaps(t, "gaps", r.stored(), gapSeen{1, 1, true}, gapSeen{2, 3, false}, gapSeen{4, 4, true}, gapSeen{5, 6, false})
		r.publish("seven")
		time.Sleep(time.Hour)
		sameSeqs(t, "deliveries", r.s.seqs(), 7)
		equal(t, "gaps", len(r.stored()), 4)
	})
}

// A log's trimming leaves what a replay still needs.
func TestReplayKeepsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(t, dispatch.Config{KeepAtLeast: time.Minute, CacheBytes: -1}, 4)
		r.s.setAnswer(func(context.Context, *send.Attempt) send.Outcome {
			time.Sleep(time.Hour)
			return delivered
		})
		r.replay(2, 4)
		time.Sleep(90 * time.Minute)
		state, err := r.e.State(t.Context(), topicURL)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "the oldest that is kept, while 3 is under way", state.First, 3)
		time.Sleep(3 * time.Hour)
		sameSeqs(t, "deliveries", r.s.seqs(), 2, 3, 4)
		state, _ = r.e.State(t.Context(), topicURL)
		equal(t, "the oldest that is kept", state.First, 5)
	})
}

// A callback that is gone ends its subscription, replay or not; a renewal leaves the replay
// as it is, and who subscribes anew has none.
func TestReplayAndLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(t, dispatch.Config{}, 5)
		slow := func(context.Context, *send.Attempt) send.Outcome {
			time.Sleep(time.Second)
			return delivered
		}
		r.s.setAnswer(slow)
		r.replay(1, 5)
		time.Sleep(1500 * time.Millisecond)
		renewed := r.sub
		renewed.Expires, renewed.Secret = renewed.Expires.Add(time.Hour), "new"
		r.e.with(func() { r.e.subs[r.sub.ID] = renewed })
		r.Activated(renewed)
		time.Sleep(time.Minute)
		sent := r.s.take()
		equal(t, "deliveries", len(sent), 5)
		equal(t, "secret after the renewal", sent[4].secret, "new")

		r.replay(1, 2)
		time.Sleep(1500 * time.Millisecond)
		r.publish("six")
		anew := renewed
		anew.Start = 6
		r.Activated(anew) // a life that begins behind the replay, of which the last is under way
		time.Sleep(time.Minute)
		sameSeqs(t, "deliveries", r.s.seqs(), 1, 2)
		p, _ := r.Position(r.sub.ID)
		equal(t, "position", p, delivery.Position{Settled: 6})

		r.s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return gone })
		r.e.with(func() { r.e.removeErr = errAway })
		r.replay(2, 3)
		synctest.Wait()
		sameSeqs(t, "deliveries", r.s.seqs(), 2)
		r.e.with(func() { r.e.removeErr = nil })
		time.Sleep(time.Hour)
		equal(t, "deliveries to who is gone", len(r.s.take()), 0)
		_, there := r.Standing(r.sub.ID)
		equal(t, "there", there, false)
	})
}

// A gap that comes as a replay has begun is known when it has ended.
func TestReplayBesideANewGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := keeping
		cfg.RetryFor = time.Second // no room for a second attempt
		r := newReplaying(t, cfg, 2)
		r.s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if a.Notification.Seq == 3 {
				time.Sleep(2 * time.Hour)
				return broken
			}
			return delivered
		})
		r.publish("three")
		synctest.Wait()
		r.replay(1, 2)
		time.Sleep(24 * time.Hour)
		sameSeqs(t, "deliveries", r.s.seqs(), 3, 1, 2)
		sameGaps(t, "gaps", r.stored(), gapSeen{3, 3, false})
		s, _ := r.Standing(r.sub.ID)
		equal(t, "gapped", s.Gapped, true)
	})
}

// Whose end is still to be stored has no replay.
func TestReplayOfWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(t, keeping, 2)
		r.e.with(func() { r.e.removeErr = errAway })
		r.s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return gone })
		r.publish("three")
		synctest.Wait()
		if _, _, err := r.Replay(t.Context(), r.sub.ID, 1, 2); !errors.Is(err, delivery.ErrNothingToDo) {
			t.Errorf("a replay: %v", err)
		}
	})
}

// A shard that is handed over takes its replay along.
func TestReplayHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		e.ended = func(subscription.ID) {}
		here := startOwning(t, e, sharedEngine{e}.stores(), dispatch.Config{}, s, 0, subscription.Shards)
		sub := here.subscribe(e, callbackIn(0, 0))
		for range 4 {
			here.publish("x")
		}
		synctest.Wait()
		s.take()
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome {
			time.Sleep(time.Second)
			return delivered
		})
		if _, _, err := here.Replay(t.Context(), sub.ID, 2, 4); err != nil {
			t.Fatal(err)
		}
		var marked map[string]delivery.Seq
		e.with(func() { marked = e.marks[0].lowest })
		equal(t, "the mark of its shard", marked[topicURL], 1)
		time.Sleep(1500 * time.Millisecond)
		here.Lost(0)
		there := startOwning(t, e, sharedEngine{e}.stores(), dispatch.Config{}, s, 0, 1)
		time.Sleep(time.Minute)
		sameSeqs(t, "deliveries", s.seqs(), 2, 3, 4)
		p, _ := there.Position(sub.ID)
		equal(t, "position", p, delivery.Position{Settled: 4})
	})
}

func (e sharedEngine) stores() dispatch.Stores {
	return dispatch.Stores{Log: e, Cursors: e, Marks: e}
}

// A replay is picked up often, by processes that know only the stored state, with random deliveries
// and losses. Every marked number was delivered again. Every number of a gap that was delivered again
// is marked at the end. No number leaves the gaps.
func TestReplayAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const head = 24
		stored := map[delivery.Seq]delivery.Gap{}
		store := func(gaps []delivery.Gap) {
			for _, g := range gaps {
				stored[g.First] = g
			}
		}
		gaps := func() (all []delivery.Gap) {
			for _, g := range stored {
				all = append(all, g)
			}
			return all
		}
		inGap := map[delivery.Seq]bool{}
		for seq := delivery.Seq(1); seq <= head; seq++ {
			last := seq + delivery.Seq(rapid.IntRange(0, 6).Draw(t, "length"))
			if rapid.Bool().Draw(t, "gap") {
				stored[seq] = delivery.Gap{First: seq, Last: last}
				for s := seq; s <= last; s++ {
					inGap[s] = true
				}
			}
			seq = last
		}
		from := delivery.Seq(rapid.IntRange(1, head).Draw(t, "from"))
		last := delivery.Seq(rapid.IntRange(int(from), head).Draw(t, "last"))
		r, cuts := dispatch.NewReplaying(from, last, gaps())
		store(cuts)
		again := map[delivery.Seq]bool{}
		for r.Next() <= last {
			if rapid.IntRange(0, 4).Draw(t, "restart") == 0 {
				r = dispatch.Resumed(r.Next(), last, gaps())
			}
			first, to := r.Next(), delivery.Seq(rapid.IntRange(int(r.Next()), int(last)+3).Draw(t, "to"))
			if rapid.IntRange(0, 3).Draw(t, "pass") == 0 {
				to = min(to, last)
				store(r.Pass(to))
			} else {
				store(r.Deliver(to, time.Now()))
				for s := first; s <= min(to, last); s++ {
					again[s] = true
				}
			}
		}
		left := false
		for seq := delivery.Seq(1); seq <= head+8; seq++ {
			var in []delivery.Gap
			for _, g := range stored {
				if g.First <= seq && seq <= g.Last {
					in = append(in, g)
				}
			}
			if inGap[seq] != (len(in) == 1) || len(in) > 1 {
				t.Fatalf("%d is in %v, was in a gap: %v", seq, in, inGap[seq])
			}
			if len(in) == 1 {
				left = left || in[0].Replayed.IsZero()
				if again[seq] == in[0].Replayed.IsZero() {
					t.Fatalf("%d was delivered again: %v, and is in %v", seq, again[seq], in)
				}
			}
		}
		if left != r.Gapped() {
			t.Fatalf("gaps are left: %v, known: %v", left, r.Gapped())
		}
	})
}

// A replay that another process's epoch keeps from being stored is not reported as begun. A process
// that is not sure of its shards begins no replay and no retry.
func TestReplayOfWhatIsAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(t, dispatch.Config{}, 5)
		time.Sleep(10 * time.Second) // all is saved
		shard := subscription.ShardOf(r.sub.ID)
		r.surety.Sure(time.Now())
		if _, _, err := r.Replay(t.Context(), r.sub.ID, 1, 5); !errors.Is(err, delivery.ErrNotHeld) {
			t.Errorf("a replay by who is not sure: %v", err)
		}
		if err := r.RetryNow(t.Context(), r.sub.ID); !errors.Is(err, delivery.ErrNotHeld) {
			t.Errorf("a retry by who is not sure: %v", err)
		}
		r.surety.Sure(time.Now().Add(time.Hour))
		r.e.with(func() { r.e.epochs[shard]++ })
		if _, _, err := r.Replay(t.Context(), r.sub.ID, 1, 5); !errors.Is(err, delivery.ErrNotHeld) {
			t.Errorf("a replay that is refused by the engine: %v", err)
		}
		synctest.Wait()
		equal(t, "stored position", r.e.positions[r.sub.ID], delivery.Position{Settled: 5})
	})
}

// Notifications that wait behind a replay grow old untried. They are not given up before as many tries
// as a replayed one has, also where another process takes the subscription over.
func TestReplayBeforeWhatIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(t, keeping, 600)
		tried := 0
		r.s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			time.Sleep(time.Second)
			switch tried++; {
			case a.Notification.Seq <= 600 && a.Number < 9, a.Notification.Seq == 601 && a.Number < dispatch.ReplayTries:
				return broken
			}
			return delivered
		})
		began := time.Now()
		r.replay(1, 600)
		time.Sleep(time.Second)
		r.publish("new")
		r.publish("newer")
		for p, _ := r.Position(r.sub.ID); p.ReplayLast > 0 || p.Failures == 0 && p.Settled == 600; p, _ = r.Position(r.sub.ID) {
			time.Sleep(10 * time.Second)
		}
		if took := time.Since(began); took < 80*time.Hour {
			t.Fatalf("the replay took %s", took)
		}
		equal(t, "gaps, after an attempt of what is old", len(r.stored()), 0)
		r.s.take()
		r.restart(t, keeping)
		time.Sleep(24 * time.Hour)
		sent := r.s.seqs()
		equal(t, "the last", sent[len(sent)-1], 602)
		equal(t, "gaps", len(r.stored()), 0)
	})
}

// The line at the end of a replay has the outcome of each number. It is a warning where not all were
// delivered; those stay undelivered, if they were so before.
func TestReplayEndIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		bad  []delivery.Seq
		trim delivery.Seq // while the first is under way
		want string
		fate report.Tally // of the seventh
	}{
		"whole": {
			want: `level=INFO msg="a replay has ended" FIRST=2 last=9 delivered=8 given_up=0 not_tried=0`,
			fate: report.Tally{Seq: 7, Subscribers: 1, Delivered: 1},
		},
		"one is refused": {
			bad:  []delivery.Seq{7},
			want: `level=WARN msg="a replay has ended, and not all of it was delivered" FIRST=2 last=9 delivered=7 given_up=1 not_tried=0 not_delivered_from=7`,
			fate: report.Tally{Seq: 7, Subscribers: 1, GivenUp: 1},
		},
		"two in a row are": {
			bad:  []delivery.Seq{4, 5},
			want: `level=WARN msg="a replay has ended early: the callback took none of two in a row" FIRST=2 last=9 delivered=2 given_up=2 not_tried=4 not_delivered_from=4`,
			fate: report.Tally{Seq: 7, Subscribers: 1, GivenUp: 1},
		},
		"the last two are": {
			bad:  []delivery.Seq{8, 9},
			want: `level=WARN msg="a replay has ended, and not all of it was delivered" FIRST=2 last=9 delivered=6 given_up=2 not_tried=0 not_delivered_from=8`,
			fate: report.Tally{Seq: 7, Subscribers: 1, Delivered: 1},
		},
		"some are trimmed": {
			trim: 6,
			want: `level=WARN msg="a replay has ended, and not all of it was delivered" FIRST=2 last=9 delivered=5 given_up=0 not_tried=3 not_delivered_from=3`,
			fate: report.Tally{Seq: 7, Subscribers: 1, Delivered: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := keeping
				cfg.CacheBytes = -1
				r := givenUp(t, cfg, 9)
				r.s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
					if time.Sleep(time.Second); slices.Contains(c.bad, a.Notification.Seq) {
						return broken
					}
					return delivered
				})
				r.replay(2, 9)
				synctest.Wait()
				if _, err := r.e.Trim(t.Context(), topicURL, c.trim, time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Hour)
				equal(t, "the seventh", r.tallies(7)[0], c.fate)
				r.stop()
				want := strings.Replace(c.want, " FIRST", fmt.Sprintf(" subscription=%s topic=%s first", r.sub.ID, topicURL), 1)
				if !strings.Contains(r.logs.String(), want+"\n") {
					t.Errorf("logged:\n%swanted:\n%s", r.logs, want)
				}
			})
		})
	}
}

package deliverytest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"carillon/delivery"
	"carillon/subscription"
)

// RunCursors runs the suite of delivery.Cursors.
func RunCursors(t *testing.T, open func(t *testing.T) Harness) {
	t.Run("Members", func(t *testing.T) { testMembers(t, open) })
	t.Run("Save", func(t *testing.T) { testSave(t, open) })
	t.Run("Fenced", func(t *testing.T) { testFenced(t, open) })
	t.Run("Gaps", func(t *testing.T) { testGaps(t, open) })
	t.Run("Gapped", func(t *testing.T) { testGapped(t, open) })
	t.Run("Gone", func(t *testing.T) { testGone(t, open) })
	t.Run("Durable", func(t *testing.T) { testCursorsDurable(t, open) })
	t.Run("Refused", func(t *testing.T) { refused(t, open, cursorCalls) })
	t.Run("Faults", func(t *testing.T) { testCursorFaults(t, open) })
}

func testMembers(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"every subscription, in its shard": func(t *testing.T, h Harness) {
			all := make(map[subscription.ID]subscription.Subscription)
			for n := range 300 {
				sub := subscribe(t, h.Subscriptions, n, delivery.Seq(n))
				all[sub.ID] = sub
			}
			for s := range subscription.Shard(subscription.Shards) {
				for _, m := range members(t, h.Cursors, s) {
					want, ok := all[m.ID]
					if !ok || subscription.ShardOf(m.ID) != s {
						t.Fatalf("shard %d has %s", s, m.ID)
					}
					m.Expires, m.Created = m.Expires.UTC(), m.Created.UTC()
					if m.Subscription != want {
						t.Fatalf("got %#v, want %#v", m.Subscription, want)
					}
					delete(all, m.ID)
				}
			}
			if len(all) > 0 {
				t.Fatalf("%d subscriptions are in no shard", len(all))
			}
		},
		"without a position it stands at its Start": func(t *testing.T, h Harness) {
			sub := subscribe(t, h.Subscriptions, 1, 17)
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{Settled: 17})
		},
		"a position before the Start counts for nothing": func(t *testing.T, h Harness) {
			sub := subscribe(t, h.Subscriptions, 1, 17)
			save(t, h.Cursors, own(t, h.Shards).batch(sub.ID, owing(16)))
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{Settled: 17})
		},
		"a position at the Start counts": func(t *testing.T, h Harness) {
			sub := subscribe(t, h.Subscriptions, 1, 17)
			save(t, h.Cursors, own(t, h.Shards).batch(sub.ID, owing(17)))
			wantPosition(t, h.Cursors, sub.ID, owing(17))
		},
		"a renewal leaves the position": func(t *testing.T, h Harness) {
			sub := subscribe(t, h.Subscriptions, 1, 1)
			save(t, h.Cursors, own(t, h.Shards).batch(sub.ID, owing(5)))
			subscribe(t, h.Subscriptions, 1, 1)
			wantPosition(t, h.Cursors, sub.ID, owing(5))
		},
		"while others subscribe, end and save": testMembersMeanwhile,
		"listing may be left early": func(t *testing.T, h Harness) {
			for n := range 200 {
				subscribe(t, h.Subscriptions, n, 0)
			}
			for _, err := range h.Cursors.Members(t.Context(), 0) {
				must(t, err)
				break
			}
		},
	})
}

// testMembersMeanwhile lists the members while some come, some go and some move on.
// Those that stay are listed, each once and where it stood at some moment.
func testMembersMeanwhile(t *testing.T, h Harness) {
	const n = 60
	o := own(t, h.Shards)
	var subs []subscription.Subscription
	for i := range n {
		subs = append(subs, subscribe(t, h.Subscriptions, i, 1))
	}
	must(t, together(2*n, func(i int) error {
		switch {
		case i >= n:
			return listMeanwhile(t, h.Cursors, subs)
		case i%3 == 0:
			_, err := h.Subscriptions.Remove(t.Context(), subs[i])
			return err
		case i%3 == 1:
			return activate(t, h.Subscriptions, n+i, 1)
		}
		for seq := delivery.Seq(2); seq < 6; seq++ {
			if err := h.Cursors.Save(t.Context(), []delivery.Batch{o.batch(subs[i].ID, owing(seq))}); err != nil {
				return err
			}
		}
		return nil
	}))
	for i, sub := range subs {
		if i%3 == 2 {
			wantPosition(t, h.Cursors, sub.ID, owing(5))
		}
	}
}

// listMeanwhile lists every shard; of subs those that are not a third one stay.
func listMeanwhile(t *testing.T, c delivery.Cursors, subs []subscription.Subscription) error {
	seen := make(map[subscription.ID]int)
	for s := range subscription.Shard(subscription.Shards) {
		for m, err := range c.Members(t.Context(), s) {
			if err != nil {
				return err
			}
			if seen[m.ID]++; m.Topic != topicA || m.Settled < 1 || m.Settled > 5 {
				return fmt.Errorf("listed %+v", m)
			}
			if p := owing(m.Settled); m.Settled > 1 && (m.Failures != p.Failures || m.LastStatus != p.LastStatus) {
				return fmt.Errorf("the position of %+v is of two moments", m)
			}
		}
	}
	for i, sub := range subs {
		if count := seen[sub.ID]; count > 1 || count == 0 && i%3 != 0 {
			return fmt.Errorf("subscription %d is listed %d times", i, count)
		}
	}
	return nil
}

func testSave(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"positions come back as they were": func(t *testing.T, h Harness) {
			o := own(t, h.Shards)
			for n, p := range []delivery.Position{
				owing(9),
				{Settled: delivery.MaxSeq},
				{Settled: 1, Failures: 1<<32 - 1, NextAttempt: start, LastFailure: delivery.ClassProtocol, LastStatus: 599},
				replaying(9, 1, 9), replaying(0, 5, 5), replaying(delivery.MaxSeq, delivery.MaxSeq-1, delivery.MaxSeq),
				{
					Settled: delivery.MaxSeq, Failures: 1<<32 - 1, NextAttempt: start, LastFailure: delivery.ClassProtocol, LastStatus: 599,
					ReplayNext: delivery.MaxSeq, ReplayLast: delivery.MaxSeq,
				},
			} {
				sub := subscribe(t, h.Subscriptions, n, 0)
				save(t, h.Cursors, o.batch(sub.ID, p))
				wantPosition(t, h.Cursors, sub.ID, p)
			}
		},
		"the last position counts": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			save(t, h.Cursors, o.batch(sub.ID, owing(5)))
			save(t, h.Cursors, o.batch(sub.ID, owing(6)), o.batch(sub.ID, delivery.Position{Settled: 7}))
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{Settled: 7})
		},
		"what lies before the stored position is left out": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			save(t, h.Cursors, o.batch(sub.ID, owing(7)))
			save(t, h.Cursors, o.batch(sub.ID, delivery.Position{Settled: 6}))
			wantPosition(t, h.Cursors, sub.ID, owing(7))
			save(t, h.Cursors, o.batch(sub.ID, delivery.Position{}, gap(sub.ID, 2, 3)))
			wantPosition(t, h.Cursors, sub.ID, owing(7))
			wantGaps(t, h.Cursors, sub.ID, 10, gap(sub.ID, 2, 3)) // that is no position
		},
		"what lies before another position of the same Save is left out": func(t *testing.T, h Harness) {
			o, sub, other := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0), subscribe(t, h.Subscriptions, 2, 0)
			save(t, h.Cursors, o.batch(sub.ID, owing(7)), o.batch(other.ID, owing(3)), o.batch(sub.ID, owing(5)))
			wantPosition(t, h.Cursors, sub.ID, owing(7))
			wantPosition(t, h.Cursors, other.ID, owing(3))
			both := o.batch(sub.ID, owing(9))
			both.Advances = append(
				both.Advances, delivery.Advance{Subscription: sub.ID, Position: delivery.Position{Settled: 8}},
			)
			save(t, h.Cursors, both)
			wantPosition(t, h.Cursors, sub.ID, owing(9))
		},
		"at the same place the last counts": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			save(t, h.Cursors, o.batch(sub.ID, owing(7)))
			save(t, h.Cursors, o.batch(sub.ID, delivery.Position{Settled: 7}))
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{Settled: 7})
		},
		"a replay goes on while the cursor rests, may be begun anew, and ends": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			failing := owing(7)
			failing.ReplayNext, failing.ReplayLast = 3, 6
			for _, p := range []delivery.Position{
				owing(7), replaying(7, 2, 6), failing, replaying(7, 6, 6), replaying(7, 1, 7), replaying(8, 2, 7), {Settled: 8},
			} {
				save(t, h.Cursors, o.batch(sub.ID, p))
				wantPosition(t, h.Cursors, sub.ID, p)
			}
			save(t, h.Cursors, o.batch(sub.ID, replaying(7, 2, 6))) // a call that arrives late
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{Settled: 8})
		},
		"great numbers are told apart": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			save(t, h.Cursors, o.batch(sub.ID, owing(delivery.MaxSeq-1)))
			save(t, h.Cursors, o.batch(sub.ID, owing(delivery.MaxSeq-2)))
			wantPosition(t, h.Cursors, sub.ID, owing(delivery.MaxSeq-1))
			save(t, h.Cursors, o.batch(sub.ID, owing(delivery.MaxSeq)))
			wantPosition(t, h.Cursors, sub.ID, owing(delivery.MaxSeq))
			small := subscribe(t, h.Subscriptions, 2, 0)
			save(t, h.Cursors, o.batch(small.ID, owing(9)))
			save(t, h.Cursors, o.batch(small.ID, owing(10))) // longer, not less
			wantPosition(t, h.Cursors, small.ID, owing(10))
		},
		"many shards at once": func(t *testing.T, h Harness) {
			o := own(t, h.Shards)
			var batches []delivery.Batch
			var subs []subscription.Subscription
			for n := range 200 {
				subs = append(subs, subscribe(t, h.Subscriptions, n, 0))
				batches = append(batches, o.batch(subs[n].ID, owing(delivery.Seq(n+1))))
			}
			save(t, h.Cursors, batches...)
			for n, sub := range subs {
				wantPosition(t, h.Cursors, sub.ID, owing(delivery.Seq(n+1)))
			}
		},
		"nothing": func(t *testing.T, h Harness) {
			save(t, h.Cursors)
			save(t, h.Cursors, delivery.Batch{Tenure: own(t, h.Shards).tenures[3]})
		},
		"from several goroutines": func(t *testing.T, h Harness) {
			o := own(t, h.Shards)
			var subs []subscription.Subscription
			for n := range 100 {
				subs = append(subs, subscribe(t, h.Subscriptions, n, 0))
			}
			must(t, together(100, func(i int) error {
				there, back := subs[i], subs[99-i]
				return h.Cursors.Save(t.Context(), []delivery.Batch{
					o.batch(there.ID, owing(5)), o.batch(back.ID, owing(5)),
				})
			}))
			for _, sub := range subs {
				wantPosition(t, h.Cursors, sub.ID, owing(5))
			}
		},
		"a subscription outside the batch's shard refuses everything": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			other := o.tenures[(subscription.ShardOf(sub.ID)+1)%subscription.Shards]
			good := o.batch(sub.ID, owing(5))
			for _, bad := range []delivery.Batch{
				{Tenure: other, Advances: good.Advances},
				{Tenure: other, Gaps: []delivery.Gap{gap(sub.ID, 1, 2)}},
			} {
				if err := h.Cursors.Save(t.Context(), []delivery.Batch{good, bad}); err == nil {
					t.Fatal("it was taken")
				}
			}
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{})
			wantGaps(t, h.Cursors, sub.ID, 10)
		},
	})
}

func testFenced(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"an old epoch is refused whole, the others are written": func(t *testing.T, h Harness) {
			o := own(t, h.Shards)
			old, current := subscribe(t, h.Subscriptions, 1, 0), subscribe(t, h.Subscriptions, 2, 0)
			stale := o.batch(old.ID, owing(5), gap(old.ID, 4, 5))
			if subscription.ShardOf(old.ID) == subscription.ShardOf(current.ID) {
				t.Fatal("the two subscriptions are in one shard; choose others")
			}
			stale.Tenure.Epoch--
			err := h.Cursors.Save(t.Context(), []delivery.Batch{stale, o.batch(current.ID, owing(6))})
			wantFenced(t, err, subscription.ShardOf(old.ID))
			wantPosition(t, h.Cursors, old.ID, delivery.Position{})
			wantGaps(t, h.Cursors, old.ID, 10)
			wantPosition(t, h.Cursors, current.ID, owing(6))
		},
		"a later owner fences the one before": func(t *testing.T, h Harness) {
			first := own(t, h.Shards)
			sub := subscribe(t, h.Subscriptions, 1, 0)
			save(t, h.Cursors, first.batch(sub.ID, owing(5)))
			first.end(t)
			second := own(t, h.Shards)
			err := h.Cursors.Save(t.Context(), []delivery.Batch{first.batch(sub.ID, owing(6))})
			wantFenced(t, err, subscription.ShardOf(sub.ID))
			err = h.Cursors.Save(t.Context(), []delivery.Batch{first.batch(sub.ID, replaying(5, 1, 5))})
			wantFenced(t, err, subscription.ShardOf(sub.ID))
			wantPosition(t, h.Cursors, sub.ID, owing(5))
			save(t, h.Cursors, second.batch(sub.ID, owing(7)))
			wantPosition(t, h.Cursors, sub.ID, owing(7))
		},
		"an owner from before a crash is fenced": func(t *testing.T, h Harness) {
			first := own(t, h.Shards)
			sub := subscribe(t, h.Subscriptions, 1, 0)
			p := h.Crash(t)
			own(t, p.Shards)
			err := p.Cursors.Save(t.Context(), []delivery.Batch{first.batch(sub.ID, owing(6))})
			wantFenced(t, err, subscription.ShardOf(sub.ID))
		},
		"nor can the one before move a cursor on after a crash": func(t *testing.T, h Harness) {
			first := own(t, h.Shards)
			sub := subscribe(t, h.Subscriptions, 1, 0)
			first.end(t)
			p := h.Crash(t)
			second := own(t, p.Shards)
			save(t, p.Cursors, second.batch(sub.ID, owing(5)))
			err := p.Cursors.Save(t.Context(), []delivery.Batch{first.batch(sub.ID, owing(6), gap(sub.ID, 6, 6))})
			wantFenced(t, err, subscription.ShardOf(sub.ID))
			wantPosition(t, p.Cursors, sub.ID, owing(5))
			wantGaps(t, p.Cursors, sub.ID, 10)
		},
		"nobody has epoch 0": func(t *testing.T, h Harness) {
			own(t, h.Shards)
			sub := subscribe(t, h.Subscriptions, 1, 0)
			nobody := &owner{tenures: map[subscription.Shard]delivery.Tenure{
				subscription.ShardOf(sub.ID): {Shard: subscription.ShardOf(sub.ID)},
			}}
			err := h.Cursors.Save(t.Context(), []delivery.Batch{nobody.batch(sub.ID, owing(6))})
			wantFenced(t, err, subscription.ShardOf(sub.ID))
		},
	})
}

func testCursorsDurable(t *testing.T, open Open) {
	for name, again := range endings() {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			o := own(t, h.Shards)
			var subs []subscription.Subscription
			for n := range 20 {
				subs = append(subs, subscribe(t, h.Subscriptions, n, 0))
				save(t, h.Cursors, o.batch(subs[n].ID, owing(delivery.Seq(n)), gap(subs[n].ID, 1, delivery.Seq(n))))
			}
			replays := subscribe(t, h.Subscriptions, 20, 0)
			save(t, h.Cursors, o.batch(replays.ID, replaying(9, 2, 5), replayed(gap(replays.ID, 1, 1))))
			o.end(t)
			p := again(t, h)
			wantPosition(t, p.Cursors, replays.ID, replaying(9, 2, 5))
			wantGaps(t, p.Cursors, replays.ID, 5, replayed(gap(replays.ID, 1, 1)))
			wantGapped(t, p.Cursors, subs...)
			for n, sub := range subs {
				wantPosition(t, p.Cursors, sub.ID, owing(delivery.Seq(n)))
				wantGaps(t, p.Cursors, sub.ID, 5, gap(sub.ID, 1, delivery.Seq(n)))
			}
		})
	}
}

func cursorCalls(h Harness) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Members": func(ctx context.Context) error {
			var errs []error
			for _, err := range h.Cursors.Members(ctx, 0) {
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
		"Save": func(ctx context.Context) error {
			return h.Cursors.Save(ctx, []delivery.Batch{{Tenure: delivery.Tenure{Shard: 1, Epoch: 1}}})
		},
		"Gaps": func(ctx context.Context) error {
			_, err := h.Cursors.Gaps(ctx, subscription.ID{}, 1)
			return err
		},
		"Gapped": func(ctx context.Context) error {
			var errs []error
			for _, err := range h.Cursors.Gapped(ctx, 0) {
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

func testCursorFaults(t *testing.T, open Open) {
	faults(t, "Save", open, func(t *testing.T, h Harness, f *Fault) {
		o := own(t, h.Shards)
		var batches []delivery.Batch
		var subs []subscription.Subscription
		for n := range 10 {
			sub := subscribe(t, h.Subscriptions, n, 0)
			subs = append(subs, sub)
			batches = append(batches, o.batch(sub.ID, owing(3), gap(sub.ID, 3, 3)))
		}
		wantError(t, FaultyCursors{h.Cursors, f}.Save(t.Context(), batches), delivery.ErrUnavailable)
		o.end(t)
		p := h.Crash(t)
		for _, sub := range subs {
			if f.Persisted {
				wantPosition(t, p.Cursors, sub.ID, owing(3))
				wantGaps(t, p.Cursors, sub.ID, 10, gap(sub.ID, 3, 3))
			} else {
				wantPosition(t, p.Cursors, sub.ID, delivery.Position{})
				wantGaps(t, p.Cursors, sub.ID, 10)
			}
		}
		o = own(t, p.Shards)
		for i := range batches {
			batches[i].Tenure = o.tenures[batches[i].Tenure.Shard]
		}
		save(t, p.Cursors, batches...)
		save(t, p.Cursors, batches...)
		for _, sub := range subs {
			wantPosition(t, p.Cursors, sub.ID, owing(3))
			wantGaps(t, p.Cursors, sub.ID, 10, gap(sub.ID, 3, 3))
		}
	})
}

package deliverytest

import (
	"slices"
	"testing"

	"carillon/delivery"
	"carillon/subscription"
)

func testGaps(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"newest first, up to the limit": func(t *testing.T, h Harness) {
			o, sub, other := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0), subscribe(t, h.Subscriptions, 2, 0)
			a, b, c := gap(sub.ID, 2, 2), gap(sub.ID, 4, 9), gap(sub.ID, 300, 301)
			b.Reason, b.Failure = delivery.GapTrimmed, delivery.ClassNone
			save(t, h.Cursors, o.batch(sub.ID, owing(9), a, b))
			save(t, h.Cursors, o.batch(sub.ID, owing(301), c), o.batch(other.ID, owing(5), gap(other.ID, 5, 5)))
			wantGaps(t, h.Cursors, sub.ID, 10, c, b, a)
			wantGaps(t, h.Cursors, sub.ID, 2, c, b)
			wantGaps(t, h.Cursors, sub.ID, 0)
			wantGaps(t, h.Cursors, other.ID, 10, gap(other.ID, 5, 5))
		},
		"none": func(t *testing.T, h Harness) {
			wantGaps(t, h.Cursors, subscribe(t, h.Subscriptions, 1, 0).ID, 10)
		},
		"the same again is one, and the later counts": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			save(t, h.Cursors, o.batch(sub.ID, owing(3), gap(sub.ID, 2, 3)))
			save(t, h.Cursors, o.batch(sub.ID, owing(5), gap(sub.ID, 2, 5)))
			wantGaps(t, h.Cursors, sub.ID, 10, gap(sub.ID, 2, 5))
			save(t, h.Cursors, o.batch(sub.ID, owing(5), replayed(gap(sub.ID, 2, 5))))
			wantGaps(t, h.Cursors, sub.ID, 10, replayed(gap(sub.ID, 2, 5)))
			save(t, h.Cursors, o.batch(sub.ID, owing(5), gap(sub.ID, 2, 5)))
			wantGaps(t, h.Cursors, sub.ID, 10, gap(sub.ID, 2, 5))
		},
		"the latest 100 are kept": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			var want []delivery.Gap
			for i := range 30 {
				var gaps []delivery.Gap
				for j := range 7 {
					seq := delivery.Seq(10*i + j + 1)
					gaps = append(gaps, gap(sub.ID, seq, seq))
				}
				save(t, h.Cursors, o.batch(sub.ID, owing(delivery.Seq(10*i+7)), gaps...))
				want = append(want, gaps...)
			}
			slices.Reverse(want)
			wantGaps(t, h.Cursors, sub.ID, 100, want[:100]...)
		},
	})
}

func testGapped(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"nobody": func(t *testing.T, h Harness) {
			wantGapped(t, h.Cursors)
			subscribe(t, h.Subscriptions, 1, 0)
			own(t, h.Shards)
			wantGapped(t, h.Cursors)
		},
		"each that has one, in its shard, once": func(t *testing.T, h Harness) {
			o := own(t, h.Shards)
			var gapped []subscription.Subscription
			for n := range 200 {
				sub := subscribe(t, h.Subscriptions, n, 0)
				switch n % 4 {
				case 0:
					save(t, h.Cursors, o.batch(sub.ID, owing(9), gap(sub.ID, 1, 2), gap(sub.ID, 4, 9)))
					gapped = append(gapped, sub)
				case 1:
					save(t, h.Cursors, o.batch(sub.ID, owing(9)))
				case 2:
					save(t, h.Cursors, o.batch(sub.ID, owing(9), replayed(gap(sub.ID, 1, 2))))
				}
			}
			wantGapped(t, h.Cursors, gapped...)
		},
		"until all of its gaps are replayed": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			a, b := gap(sub.ID, 1, 2), gap(sub.ID, 4, 9)
			save(t, h.Cursors, o.batch(sub.ID, owing(9), a, b))
			save(t, h.Cursors, o.batch(sub.ID, owing(9), replayed(a)))
			wantGapped(t, h.Cursors, sub)
			save(t, h.Cursors, o.batch(sub.ID, owing(9), replayed(b)))
			wantGapped(t, h.Cursors)
			save(t, h.Cursors, o.batch(sub.ID, owing(20), gap(sub.ID, 11, 20)))
			wantGapped(t, h.Cursors, sub)
		},
		"not under an old epoch": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			stale := o.batch(sub.ID, owing(9), gap(sub.ID, 1, 2))
			stale.Tenure.Epoch--
			wantFenced(t, h.Cursors.Save(t.Context(), []delivery.Batch{stale}), subscription.ShardOf(sub.ID))
			wantGapped(t, h.Cursors)
		},
		"a renewal leaves them": func(t *testing.T, h Harness) {
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 0)
			save(t, h.Cursors, o.batch(sub.ID, owing(9), gap(sub.ID, 1, 2)))
			subscribe(t, h.Subscriptions, 1, 0)
			wantGapped(t, h.Cursors, sub)
		},
		"listing may be left early": func(t *testing.T, h Harness) {
			o := own(t, h.Shards)
			for n := range 200 {
				sub := subscribe(t, h.Subscriptions, n, 0)
				save(t, h.Cursors, o.batch(sub.ID, owing(9), gap(sub.ID, 1, 2)))
			}
			for _, err := range h.Cursors.Gapped(t.Context(), 0) {
				must(t, err)
				break
			}
		},
	})
}

func testGone(t *testing.T, open Open) {
	ends := map[string]func(t *testing.T, s subscription.Store, sub subscription.Subscription){
		"Unsubscribe": unsubscribe,
		"Remove": func(t *testing.T, s subscription.Store, sub subscription.Subscription) {
			removed, err := s.Remove(t.Context(), sub)
			if err != nil || !removed {
				t.Fatalf("removed is %v, error %v", removed, err)
			}
		},
	}
	for name, end := range ends {
		t.Run(name+" takes position and gaps away", func(t *testing.T) {
			h := open(t)
			o, sub, other := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 1), subscribe(t, h.Subscriptions, 2, 1)
			save(
				t, h.Cursors, o.batch(sub.ID, replaying(5, 2, 4), gap(sub.ID, 4, 5)),
				o.batch(other.ID, owing(6), gap(other.ID, 6, 6)),
			)
			wantGapped(t, h.Cursors, sub, other)
			end(t, h.Subscriptions, sub)
			if got := members(t, h.Cursors, subscription.ShardOf(sub.ID)); len(got) != 0 {
				t.Fatalf("the shard still has %+v", got)
			}
			wantGaps(t, h.Cursors, sub.ID, 10)
			wantGapped(t, h.Cursors, other)
			subscribe(t, h.Subscriptions, 1, 1)
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{Settled: 1})
			wantGaps(t, h.Cursors, sub.ID, 10)
			wantGapped(t, h.Cursors, other)
			wantPosition(t, h.Cursors, other.ID, owing(6))
			wantGaps(t, h.Cursors, other.ID, 10, gap(other.ID, 6, 6))
		})
		t.Run("a Save after "+name+" does no harm", func(t *testing.T) {
			h := open(t)
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 1)
			end(t, h.Subscriptions, sub)
			save(t, h.Cursors, o.batch(sub.ID, replaying(5, 2, 4), gap(sub.ID, 4, 5)))
			if got := members(t, h.Cursors, subscription.ShardOf(sub.ID)); len(got) != 0 {
				t.Fatalf("the shard has %+v", got)
			}
			subscribe(t, h.Subscriptions, 1, 1)
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{Settled: 1})
			wantGaps(t, h.Cursors, sub.ID, 10)
			wantGapped(t, h.Cursors)
		})
	}
}

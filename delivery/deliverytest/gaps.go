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
			save(t, h.Cursors, o.batch(sub.ID, owing(5), gap(sub.ID, 4, 5)), o.batch(other.ID, owing(6), gap(other.ID, 6, 6)))
			end(t, h.Subscriptions, sub)
			if got := members(t, h.Cursors, subscription.ShardOf(sub.ID)); len(got) != 0 {
				t.Fatalf("the shard still has %+v", got)
			}
			wantGaps(t, h.Cursors, sub.ID, 10)
			subscribe(t, h.Subscriptions, 1, 1)
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{Settled: 1})
			wantGaps(t, h.Cursors, sub.ID, 10)
			wantPosition(t, h.Cursors, other.ID, owing(6))
			wantGaps(t, h.Cursors, other.ID, 10, gap(other.ID, 6, 6))
		})
		t.Run("a Save after "+name+" does no harm", func(t *testing.T) {
			h := open(t)
			o, sub := own(t, h.Shards), subscribe(t, h.Subscriptions, 1, 1)
			end(t, h.Subscriptions, sub)
			save(t, h.Cursors, o.batch(sub.ID, owing(5), gap(sub.ID, 4, 5)))
			if got := members(t, h.Cursors, subscription.ShardOf(sub.ID)); len(got) != 0 {
				t.Fatalf("the shard has %+v", got)
			}
			subscribe(t, h.Subscriptions, 1, 1)
			wantPosition(t, h.Cursors, sub.ID, delivery.Position{Settled: 1})
			wantGaps(t, h.Cursors, sub.ID, 10)
		})
	}
}

package deliverytest

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// RunMarks runs the suite of delivery.Marks.
func RunMarks(t *testing.T, open func(t *testing.T) Harness) {
	t.Run("Mark", func(t *testing.T) { testMark(t, open) })
	t.Run("Refused", func(t *testing.T) { refused(t, open, markCalls) })
}

// lows are marks of one shard.
type lows map[string]delivery.Seq

// markAll marks every shard: those that are not given with nothing.
func (o *owner) markAll(t *testing.T, m delivery.Marks, given map[subscription.Shard]lows) {
	t.Helper()
	for s, tenure := range o.tenures {
		must(t, m.Mark(t.Context(), tenure, given[s]))
	}
}

// wantLowest checks what is the lowest of what was marked in the last minute.
func wantLowest(t *testing.T, m delivery.Marks, want lows) {
	t.Helper()
	got, ok, err := m.Lowest(t.Context(), time.Now().Add(-time.Minute))
	must(t, err)
	if !ok || !maps.Equal(got, map[string]delivery.Seq(want)) {
		t.Fatalf("got %v, ok is %v; want %v", got, ok, want)
	}
}

func wantNotOK(t *testing.T, m delivery.Marks, since time.Time) {
	t.Helper()
	if got, ok, err := m.Lowest(t.Context(), since); ok || err != nil {
		t.Fatalf("got %v, ok is %v, error %v; want it not ok", got, ok, err)
	}
}

func testMark(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"the lowest of all shards": func(t *testing.T, h Harness) {
			own(t, h.Shards).markAll(t, h.Marks, map[subscription.Shard]lows{
				0: {topicA: 7, topicB: delivery.MaxSeq}, 3: {topicA: 5}, 63: {topicA: 10},
			})
			wantLowest(t, h.Marks, lows{topicA: 5, topicB: delivery.MaxSeq})
		},
		"nothing marked is a mark": func(t *testing.T, h Harness) {
			own(t, h.Shards).markAll(t, h.Marks, nil)
			wantLowest(t, h.Marks, lows{})
		},
		"not ok before every shard was marked": func(t *testing.T, h Harness) {
			o, since := own(t, h.Shards), time.Now().Add(-time.Minute)
			wantNotOK(t, h.Marks, since)
			for s := range subscription.Shard(subscription.Shards - 1) {
				must(t, h.Marks.Mark(t.Context(), o.tenures[s], lows{topicA: 1}))
			}
			wantNotOK(t, h.Marks, since)
			must(t, h.Marks.Mark(t.Context(), o.tenures[subscription.Shards-1], nil))
			wantLowest(t, h.Marks, lows{topicA: 1})
		},
		"not ok where a mark is too old": func(t *testing.T, h Harness) {
			own(t, h.Shards).markAll(t, h.Marks, nil)
			wantNotOK(t, h.Marks, time.Now().Add(time.Hour))
		},
		"a mark takes the place of the one before": func(t *testing.T, h Harness) {
			o := own(t, h.Shards)
			o.markAll(t, h.Marks, map[subscription.Shard]lows{0: {topicA: 7, topicB: 2}, 9: {topicA: 5, topicB: 6}})
			must(t, h.Marks.Mark(t.Context(), o.tenures[0], lows{topicA: 8}))
			must(t, h.Marks.Mark(t.Context(), o.tenures[9], lows{topicA: 9, topicB: 3}))
			wantLowest(t, h.Marks, lows{topicA: 8, topicB: 3})
			must(t, h.Marks.Mark(t.Context(), o.tenures[9], nil))
			wantLowest(t, h.Marks, lows{topicA: 8})
		},
		"many topics": func(t *testing.T, h Harness) {
			all := make(lows)
			for i := range 12_000 {
				all[fmt.Sprint(topicB, i)] = delivery.Seq(i)
			}
			o := own(t, h.Shards)
			o.markAll(t, h.Marks, map[subscription.Shard]lows{4: all})
			wantLowest(t, h.Marks, all)
		},
		"an old epoch marks nothing": func(t *testing.T, h Harness) {
			first := own(t, h.Shards)
			first.markAll(t, h.Marks, map[subscription.Shard]lows{2: {topicA: 5}})
			first.end(t)
			second := own(t, h.Shards)
			wantFenced(t, h.Marks.Mark(t.Context(), first.tenures[2], lows{topicB: 1}), 2)
			wantFenced(t, h.Marks.Mark(t.Context(), delivery.Tenure{Shard: 2}, nil), 2)
			wantLowest(t, h.Marks, lows{topicA: 5}) // of the owner before: cursors never move back
			must(t, h.Marks.Mark(t.Context(), second.tenures[2], lows{topicA: 6}))
			wantLowest(t, h.Marks, lows{topicA: 6})
		},
		"from several goroutines": func(t *testing.T, h Harness) {
			o := own(t, h.Shards)
			must(t, together(subscription.Shards, func(i int) error {
				s := subscription.Shard(i)
				return h.Marks.Mark(t.Context(), o.tenures[s], lows{topicA: delivery.Seq(100 - i)})
			}))
			wantLowest(t, h.Marks, lows{topicA: 100 - subscription.Shards + 1})
		},
	})
}

func markCalls(h Harness) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Mark": func(ctx context.Context) error {
			return h.Marks.Mark(ctx, delivery.Tenure{Shard: 1, Epoch: 1}, lows{topicA: 1})
		},
		"Lowest": func(ctx context.Context) error {
			_, _, err := h.Marks.Lowest(ctx, time.Now())
			return err
		},
	}
}

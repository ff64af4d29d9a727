package deliverytest

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
)

// mostBesides is the most that a notification of these tests may count for beside
// its body.
const mostBesides = 1500

func testShrink(t *testing.T, open Open) {
	const k = 100_000 // beside which the rest of a notification is little
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	sizes := []int{k, 3 * k, k, 0, 2 * k}
	for name, row := range map[string]struct {
		keep      int64
		before    int // below which one, from 1 on
		olderThan time.Time
		first     int // which is the first that stays
	}{
		"all fit":               {8 * k, 6, at(100), 1},
		"one is enough":         {65 * k / 10, 6, at(100), 2},
		"the great one must go": {63 * k / 10 / 2, 6, at(100), 3},
		"the empty one counts":  {2*k + 1600, 6, at(100), 4},
		"to nothing":            {0, 6, at(100), 6},
		"less than nothing":     {-1, 6, at(100), 6},
		"not below olderThan":   {0, 6, at(2), 3},
		"none is older":         {0, 6, at(0), 1},
		"not from before on":    {0, 4, at(100), 4},
		"none is before":        {0, 1, at(100), 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			seqs, other := appendSizes(t, h.Log, topicA, sizes...), appendMany(t, h.Log, topicB, 3)
			all := stateOf(t, h.Log, topicA).Bytes
			before := append(seqs, delivery.MaxSeq)[row.before-1]
			went, err := h.Log.Shrink(t.Context(), topicA, row.keep, before, row.olderThan)
			must(t, err)
			wantKept(t, h.Log, topicA, seqs[row.first-1:]...)
			wantKept(t, h.Log, topicB, other...)
			wantHead(t, h.Log, topicA, seqs[len(seqs)-1])
			wantCounted(t, h.Log, topicA)
			left := stateOf(t, h.Log, topicA).Bytes
			if went.Notifications != row.first-1 || went.Bytes != all-left {
				t.Errorf("%+v went, want %d and %d bytes", went, row.first-1, all-left)
			}
			if next := appendTo(t, h.Log, plain(topicA, "next")); next.Seq <= seqs[len(seqs)-1] {
				t.Errorf("the next is %d", next.Seq)
			}
			wantCounted(t, h.Log, topicA)
		})
	}
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"a topic without a log": func(t *testing.T, h Harness) {
			if went := shrink(t, h.Log, topicA, 0, at(5)); went != (delivery.Trimmed{}) {
				t.Errorf("%+v went", went)
			}
			wantHead(t, h.Log, topicA, 0)
		},
		"what is counted survives": func(t *testing.T, h Harness) {
			seqs := appendSizes(t, h.Log, topicA, sizes...)
			trim(t, h.Log, topicA, seqs[1], at(100))
			log := h.Crash(t).Log
			wantCounted(t, log, topicA)
			shrink(t, log, topicA, 0, at(100))
			appendTo(t, log, plain(topicA, "synced after what was not"))
			log = h.Crash(t).Log
			wantCounted(t, log, topicA)
			if state := stateOf(t, log, topicA); state.First != state.Head {
				t.Errorf("%+v: want the last alone", state)
			}
		},
		"more than a step": func(t *testing.T, h Harness) {
			const n = 1100
			must(t, together(n, func(i int) error {
				_, err := h.Log.Append(t.Context(), plain(topicA, "0123456789"), uuid.New(), start)
				return err
			}))
			all := stateOf(t, h.Log, topicA).Bytes
			went := shrink(t, h.Log, topicA, all/n*3, at(1))
			if left := stateOf(t, h.Log, topicA).Bytes; went.Notifications != n-3 || went.Bytes+left != all {
				t.Errorf("%+v went and %d bytes are left of %d, %d", went, left, n, all)
			}
		},
		"while others append and trim": func(t *testing.T, h Harness) {
			first := appendTo(t, h.Log, plain(topicA, "")).Seq
			var head atomic.Uint64
			must(t, together(90, func(i int) (err error) {
				var receipt delivery.Receipt
				switch i % 3 {
				case 0:
					_, err = h.Log.Shrink(t.Context(), topicA, int64(i*1000), delivery.MaxSeq, at(1))
				case 1:
					_, err = h.Log.Trim(t.Context(), topicA, first+delivery.Seq(i/3), at(1))
				default:
					receipt, err = h.Log.Append(
						t.Context(), plain(topicA, strings.Repeat("x", i*100)), uuid.New(), start,
					)
					raise(&head, receipt.Seq)
				}
				return err
			}))
			wantHead(t, h.Log, topicA, delivery.Seq(head.Load()))
			wantCounted(t, h.Log, topicA)
			shrink(t, h.Log, topicA, 0, at(1))
			if state := stateOf(t, h.Log, topicA); state.Bytes != 0 || !state.Oldest.IsZero() || state.First != state.Head+1 {
				t.Errorf("with nothing left: %+v", state)
			}
		},
	})
}

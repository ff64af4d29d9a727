package deliverytest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
)

func testHeads(t *testing.T, open Open) {
	heads := func(t *testing.T, l delivery.Log, keys ...string) []delivery.Seq {
		t.Helper()
		got, err := l.Heads(t.Context(), keys)
		must(t, err)
		return got
	}
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"in the order asked for, though one is asked for twice": func(t *testing.T, h Harness) {
			a, b := appendMany(t, h.Log, topicA, 2), appendMany(t, h.Log, topicB, 3)
			got := heads(t, h.Log, topicB, "https://source.example/none/", topicA, topicB)
			if want := []delivery.Seq{b[2], 0, a[1], b[2]}; !slices.Equal(got, want) {
				t.Fatalf("got %d, want %d", got, want)
			}
		},
		"of none": func(t *testing.T, h Harness) {
			if got := heads(t, h.Log); len(got) != 0 {
				t.Fatalf("got %d", got)
			}
		},
		"of many at once": func(t *testing.T, h Harness) {
			var topics []string
			var want []delivery.Seq
			for i := range 1000 {
				topics = append(topics, fmt.Sprint(topicB, i))
				want = append(want, 0)
				if i%100 == 99 {
					want[i] = appendTo(t, h.Log, plain(topics[i], "")).Seq
				}
			}
			if got := heads(t, h.Log, topics...); !slices.Equal(got, want) {
				t.Fatalf("got %d, want %d", got, want)
			}
		},
		"Trim does not change them": func(t *testing.T, h Harness) {
			seqs := appendMany(t, h.Log, topicA, 2)
			trim(t, h.Log, topicA, seqs[1]+1, start.Add(time.Hour))
			wantHead(t, h.Log, topicA, seqs[1])
		},
		"what was acknowledged is told of": func(t *testing.T, h Harness) {
			must(t, together(30, func(i int) error {
				receipt, err := h.Log.Append(t.Context(), plain(topicA, fmt.Sprint(i)), uuid.New(), start)
				if err != nil {
					return err
				}
				got, err := h.Log.Heads(t.Context(), []string{topicA})
				if err == nil && got[0] < receipt.Seq {
					return fmt.Errorf("head %d after %d was appended", got[0], receipt.Seq)
				}
				return err
			}))
		},
	})
}

package deliverytest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/topic"
)

// summaryOf is what a log must tell of the notification.
func summaryOf(n *delivery.Notification) delivery.Summary {
	return delivery.Summary{
		Seq: n.Seq, After: n.After, ID: n.ID, Accepted: n.Accepted.UTC(),
		ContentType: n.ContentType, From: n.From, Until: n.Until, Bytes: int64(len(n.Body)),
	}
}

func sameSummary(a, b delivery.Summary) bool {
	equal := a.Accepted.Equal(b.Accepted)
	a.Accepted = b.Accepted
	return equal && a == b
}

// wantSummaries checks the log's latest summaries below before.
func wantSummaries(t *testing.T, l delivery.Log, key string, before delivery.Seq, limit int, want ...delivery.Summary) {
	t.Helper()
	got, err := l.Summaries(t.Context(), key, before, limit)
	must(t, err)
	if !slices.EqualFunc(got, want, sameSummary) {
		t.Fatalf("the latest %d below %d:\n got %+v\nwant %+v", limit, before, got, want)
	}
}

// summaries are those of all that is kept of a topic, the newest first, by Read.
func summaries(t *testing.T, l delivery.Log, key string) (all []delivery.Summary) {
	t.Helper()
	for from := delivery.Seq(0); ; {
		n, err := l.Read(t.Context(), key, from)
		if errors.Is(err, delivery.ErrEndOfLog) {
			slices.Reverse(all)
			return all
		}
		must(t, err)
		all = append(all, summaryOf(n))
		from = n.Seq + 1
	}
}

func testSummaries(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"the newest first, below before, at most limit": func(t *testing.T, h Harness) {
			seqs := appendMany(t, h.Log, topicA2, 5)
			appendMany(t, h.Log, topicB, 2)
			all := summaries(t, h.Log, topicA)
			if len(all) != 5 || all[0].Bytes != 18 || all[0].From == "" || all[0].ContentType != "application/xml" {
				t.Fatalf("there are %+v", all)
			}
			wantSummaries(t, h.Log, topicA, 0, 10, all...)
			wantSummaries(t, h.Log, topicA, 0, 5, all...)
			wantSummaries(t, h.Log, topicA, 0, 2, all[:2]...)
			wantSummaries(t, h.Log, topicA, seqs[4], 2, all[1:3]...)
			wantSummaries(t, h.Log, topicA, seqs[4]+1, 1, all[0])
			wantSummaries(t, h.Log, topicA, seqs[0]+1, 9, all[4])
			wantSummaries(t, h.Log, topicA, seqs[0], 9)
			wantSummaries(t, h.Log, topicA, 1, 9)
			wantSummaries(t, h.Log, topicA, 1<<62, 9, all...)
			wantSummaries(t, h.Log, topicA, 0, 0)
			wantSummaries(t, h.Log, topicA, 0, -1)
			wantSummaries(t, h.Log, topicA, 0, 1<<40, all...)
		},
		"page by page": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 25)
			all := summaries(t, h.Log, topicA)
			var paged []delivery.Summary
			for before := delivery.Seq(0); ; before = paged[len(paged)-1].Seq {
				page, err := h.Log.Summaries(t.Context(), topicA, before, 4)
				must(t, err)
				if len(page) == 0 {
					break
				}
				paged = append(paged, page...)
			}
			if !slices.EqualFunc(paged, all, sameSummary) {
				t.Fatalf("the pages have\n%+v, want\n%+v", paged, all)
			}
		},
		"more than one round trip has": func(t *testing.T, h Harness) {
			var seqs []delivery.Seq
			for range 1100 {
				seqs = append(seqs, appendTo(t, h.Log, plain(topicA, "x")).Seq)
			}
			got, err := h.Log.Summaries(t.Context(), topicA, 0, 1050)
			must(t, err)
			if len(got) != 1050 {
				t.Fatalf("got %d, want 1050", len(got))
			}
			for i, s := range got {
				if want := seqs[len(seqs)-1-i]; s.Seq != want {
					t.Fatalf("at %d: number %d, want %d", i, s.Seq, want)
				}
			}
		},
		"content of any bytes, and of none": func(t *testing.T, h Harness) {
			p := change(topicA, 1)
			p.ContentType, p.From, p.Body = "a b;c=\"\xff\"\x00", "1:2 3", []byte{}
			appendTo(t, h.Log, p)
			appendTo(t, h.Log, delivery.Publication{Topic: topic.Parse(topicA), Links: []string{"<x>"}})
			all := summaries(t, h.Log, topicA)
			if all[1].ContentType != p.ContentType || all[1].From != p.From || all[0].Bytes != 0 {
				t.Fatalf("there are %+v", all)
			}
			wantSummaries(t, h.Log, topicA, 0, 9, all...)
		},
		"of a log that is trimmed, partly and whole": func(t *testing.T, h Harness) {
			seqs := appendMany(t, h.Log, topicA, 5)
			all := summaries(t, h.Log, topicA)
			trim(t, h.Log, topicA, seqs[3], start.Add(time.Hour))
			wantSummaries(t, h.Log, topicA, 0, 9, all[:2]...)
			wantSummaries(t, h.Log, topicA, seqs[3], 9)
			wantSummary(t, h.Log, topicA, 0, all[1])
			trim(t, h.Log, topicA, seqs[4]+1, start.Add(time.Hour))
			wantSummaries(t, h.Log, topicA, 0, 9)
			_, err := h.Log.Summary(t.Context(), topicA, 0)
			wantError(t, err, delivery.ErrEndOfLog)
			next := appendTo(t, h.Log, change(topicA, 9)).Seq
			got, err := h.Log.Summary(t.Context(), topicA, 0)
			if must(t, err); got.Seq != next || got.After != seqs[4] {
				t.Fatalf("got %+v, want %d after %d", got, next, seqs[4])
			}
		},
		"Summary begins where Read does": func(t *testing.T, h Harness) {
			seqs := appendMany(t, h.Log, topicA, 3)
			all := summaries(t, h.Log, topicA)
			for i, seq := range seqs {
				wantSummary(t, h.Log, topicA, seq, all[2-i])
			}
			wantSummary(t, h.Log, topicA, 0, all[2])
			wantSummary(t, h.Log, topicA, seqs[1]+1, all[0])
			for _, from := range []delivery.Seq{seqs[2] + 1, 1 << 62} {
				_, err := h.Log.Summary(t.Context(), topicA, from)
				wantError(t, err, delivery.ErrEndOfLog)
			}
		},
		"an unknown topic has none": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 1)
			wantSummaries(t, h.Log, topicB, 0, 9)
			_, err := h.Log.Summary(t.Context(), topicB, 0)
			wantError(t, err, delivery.ErrEndOfLog)
		},
		"they are there again after a crash": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 3)
			all := summaries(t, h.Log, topicA)
			log := h.Crash(t).Log
			wantSummaries(t, log, topicA, 0, 9, all...)
			appendMany(t, log, topicA, 1) // Redis goes on with a number far above
			all = append(summaries(t, log, topicA)[:1], all...)
			wantSummaries(t, log, topicA, 0, 9, all...)
			wantSummaries(t, log, topicA, all[0].Seq, 2, all[1:3]...)
			wantSummary(t, log, topicA, all[1].Seq+1, all[0])
		},
		"while others append and trim": testSummariesMeanwhile,
	})
}

func wantSummary(t *testing.T, l delivery.Log, key string, from delivery.Seq, want delivery.Summary) {
	t.Helper()
	got, err := l.Summary(t.Context(), key, from)
	if must(t, err); !sameSummary(got, want) {
		t.Fatalf("from %d: got %+v, want %+v", from, got, want)
	}
}

// testSummariesMeanwhile: whatever is listed was there, in order and without a hole.
func testSummariesMeanwhile(t *testing.T, h Harness) {
	first := appendTo(t, h.Log, plain(topicA, "")).Seq
	var head atomic.Uint64
	must(t, together(60, func(i int) error {
		switch i % 3 {
		case 0:
			_, err := h.Log.Trim(t.Context(), topicA, first+delivery.Seq(i/3), start.Add(time.Hour))
			return err
		case 1:
			receipt, err := h.Log.Append(t.Context(), plain(topicA, fmt.Sprint(i)), uuid.New(), start)
			raise(&head, receipt.Seq)
			return err
		}
		list, err := h.Log.Summaries(t.Context(), topicA, 0, 10)
		for n := 1; n < len(list) && err == nil; n++ {
			if list[n].Seq != list[n-1].After {
				err = fmt.Errorf("after %d comes %d: %+v", list[n-1].After, list[n].Seq, list)
			}
		}
		return err
	}))
	got, err := h.Log.Summaries(t.Context(), topicA, 0, 1)
	if must(t, err); len(got) != 1 || got[0].Seq != delivery.Seq(head.Load()) {
		t.Fatalf("got %+v, want %d", got, head.Load())
	}
}

func testState(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"as Topics has it": func(t *testing.T, h Harness) {
			a := appendMany(t, h.Log, topicA2, 3)
			appendMany(t, h.Log, topicB, 2)
			wantState(t, h.Log)
			trim(t, h.Log, topicA, a[1], start.Add(time.Hour))
			wantState(t, h.Log)
			trim(t, h.Log, topicA, a[2]+1, start.Add(time.Hour))
			wantState(t, h.Log)
		},
		"Keys has every topic once, also one that is trimmed to nothing": func(t *testing.T, h Harness) {
			want := map[string]bool{topicA: true, topicB: true}
			appendMany(t, h.Log, topicA2, 2)
			appendMany(t, h.Log, topicA, 1)
			appendMany(t, h.Log, topicB, 1)
			trim(t, h.Log, topicB, delivery.MaxSeq, start.Add(time.Hour))
			for key, err := range h.Log.Keys(t.Context()) {
				if must(t, err); !want[key] {
					t.Errorf("%s is listed, again or without a log", key)
				}
				delete(want, key)
			}
			if len(want) > 0 {
				t.Errorf("not listed: %v", want)
			}
			for _, err := range h.Log.Keys(t.Context()) {
				must(t, err)
				break
			}
		},
		"of a topic that never had anything": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 1)
			got, err := h.Log.State(t.Context(), topicB)
			if must(t, err); got != (delivery.TopicState{Topic: topicB, First: 1}) {
				t.Fatalf("got %+v", got)
			}
		},
	})
}

// wantState compares the State of both topics with the result of Topics.
func wantState(t *testing.T, l delivery.Log) {
	t.Helper()
	for want, err := range l.Topics(t.Context()) {
		must(t, err)
		for _, topic := range []string{topicA, topicB} {
			if got, err := l.State(t.Context(), topic); err != nil || got.Topic == want.Topic && got != want {
				t.Fatalf("got %+v, error %v; want %+v", got, err, want)
			}
		}
	}
}

// RunSummaries checks that a list of many notifications with bodies of the size costs a small part of
// them: read is what the engine, or the process, has read or copied so far. What an engine does by
// itself meanwhile counts too, so that the least of three lists is what one costs.
func RunSummaries(t *testing.T, size int, open func(t *testing.T) Harness, read func(t *testing.T) int64) {
	h := open(t)
	const n = 8
	body := make([]byte, size)
	for i := range n {
		body[0] = byte(i)
		_, err := h.Log.Append(
			t.Context(), delivery.Publication{Topic: topic.Parse(topicA), Body: body}, uuid.New(), start,
		)
		must(t, err)
	}
	cost := int64(math.MaxInt64)
	for range 3 {
		log := h.Reopen(t).Log
		before := read(t)
		list, err := log.Summaries(t.Context(), topicA, 0, n)
		must(t, err)
		if len(list) != n || list[0].Bytes != int64(size) {
			t.Fatalf("got %+v", list)
		}
		for _, s := range list {
			_, err := log.Summary(t.Context(), topicA, s.Seq)
			must(t, err)
		}
		cost = min(cost, read(t)-before)
	}
	if cost > int64(size)/2 {
		t.Errorf("a list of %d bodies of %d bytes cost %d bytes", n, size, cost)
	}
}

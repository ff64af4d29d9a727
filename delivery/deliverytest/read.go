package deliverytest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/topic"
)

func testRead(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"a notification comes back as it was": func(t *testing.T, h Harness) {
			every := make([]byte, 256)
			for i := range every {
				every[i] = byte(i)
			}
			p := change(topicA2, 1)
			p.Body, p.Links = every, []string{`<https://source.example/>; rel="resourcesync"`, "", "\xff"}
			id := uuid.New()
			_, err := h.Log.Append(t.Context(), p, id, start)
			must(t, err)
			got, err := h.Log.Read(t.Context(), topicA, 0)
			must(t, err)
			if !got.Accepted.Equal(start) {
				t.Fatalf("accepted %v, want %v", got.Accepted, start)
			}
			want := &delivery.Notification{Publication: p, ID: id, Seq: got.Seq, Accepted: got.Accepted}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		},
		"one with nothing in it": func(t *testing.T, h Harness) {
			appendTo(t, h.Log, delivery.Publication{Topic: topic.Parse(topicA)})
			got, err := h.Log.Read(t.Context(), topicA, 0)
			must(t, err)
			if len(got.Body) != 0 || len(got.Links) != 0 || got.ContentType != "" || got.From != "" || got.Until != "" {
				t.Fatalf("got %+v", got)
			}
		},
		"a great body": func(t *testing.T, h Harness) {
			testBody(t, h.Log, 2<<20, func() delivery.Log { return h.Crash(t).Log })
		},
		"from says where to begin": func(t *testing.T, h Harness) {
			before := delivery.Seq(0)
			for _, want := range appendMany(t, h.Log, topicA, 5) {
				for _, from := range []delivery.Seq{before + 1, want} {
					got, err := h.Log.Read(t.Context(), topicA, from)
					must(t, err)
					if got.Seq != want {
						t.Fatalf("from %d: got %d, want %d", from, got.Seq, want)
					}
				}
				before = want
			}
		},
		"beyond the head is ErrEndOfLog": func(t *testing.T, h Harness) {
			head := appendMany(t, h.Log, topicA, 2)[1]
			for _, from := range []delivery.Seq{head + 1, head + 2, 1 << 62} {
				_, err := h.Log.Read(t.Context(), topicA, from)
				wantError(t, err, delivery.ErrEndOfLog)
			}
		},
		"an unknown topic has an empty log": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 1)
			_, err := h.Log.Read(t.Context(), topicB, 0)
			wantError(t, err, delivery.ErrEndOfLog)
			wantHead(t, h.Log, topicB, 0)
		},
	})
}

// RunBody checks that a body of the size comes back after a restart. It is apart
// from RunLog since the largest that a hub takes can take a test long.
func RunBody(t *testing.T, size int, open func(t *testing.T) Harness) {
	h := open(t)
	testBody(t, h.Log, size, func() delivery.Log { return h.Reopen(t).Log })
}

// testBody appends a body of the size between two others and reads them again.
func testBody(t *testing.T, log delivery.Log, size int, again func() delivery.Log) {
	t.Helper()
	p := plain(topicA, "")
	p.Body = bytes.Repeat([]byte("0123456789abcdef"), size/16)
	before := appendTo(t, log, plain(topicA, "before")).Seq
	great := appendTo(t, log, p).Seq
	after := appendTo(t, log, plain(topicA, "after")).Seq
	log = again()
	got, err := log.Read(t.Context(), topicA, before+1)
	must(t, err)
	if !bytes.Equal(got.Body, p.Body) {
		t.Fatalf("got a body of %d bytes, want the same %d", len(got.Body), len(p.Body))
	}
	wantKept(t, log, topicA, before, great, after)
}

func testTrim(t *testing.T, open Open) {
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	const n = 5
	for name, row := range map[string]struct {
		before    int // which of the notifications, from 1 on; one more is behind the last
		olderThan time.Time
		first     int // which is the first that stays
	}{
		"below before":          {3, at(100), 3},
		"below 1 there is none": {1, at(100), 1},
		"all":                   {n + 1, at(100), n + 1},
		"older than olderThan":  {n + 1, at(2), 3},
		"none is older":         {n + 1, at(0), 1},
		"both must be":          {2, at(3), 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			seqs, other := appendMany(t, h.Log, topicA, n), appendMany(t, h.Log, topicB, n)
			places := append(seqs[:n:n], seqs[n-1]+1)
			trim(t, h.Log, topicA, places[row.before-1], row.olderThan)
			wantKept(t, h.Log, topicA, seqs[row.first-1:]...)
			wantKept(t, h.Log, topicB, other...)
			wantHead(t, h.Log, topicA, seqs[n-1])
			got := appendTo(t, h.Log, change(topicA, 9))
			if got.Seq <= seqs[n-1] || got.Previous != change(topicA, 4).Until {
				t.Fatalf("the next: got %+v, want it above %d and after %s", got, seqs[n-1], change(topicA, 4).Until)
			}
			next, err := h.Log.Read(t.Context(), topicA, seqs[n-1]+1)
			must(t, err)
			if next.After != seqs[n-1] {
				t.Fatalf("the next is after %d, want %d", next.After, seqs[n-1])
			}
		})
	}
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"before may be 0, or far ahead": func(t *testing.T, h Harness) {
			seqs := appendMany(t, h.Log, topicA, 2)
			trim(t, h.Log, topicA, 0, at(100))
			wantKept(t, h.Log, topicA, seqs...)
			trim(t, h.Log, topicA, 1<<62, at(100))
			wantKept(t, h.Log, topicA)
			wantHead(t, h.Log, topicA, seqs[1])
		},
		"it stops at the first that stays": func(t *testing.T, h Harness) {
			var seqs []delivery.Seq
			for _, accepted := range []time.Time{at(0), at(9), at(1)} {
				receipt, err := h.Log.Append(t.Context(), plain(topicA, ""), uuid.New(), accepted)
				must(t, err)
				seqs = append(seqs, receipt.Seq)
			}
			trim(t, h.Log, topicA, seqs[2]+1, at(5))
			wantKept(t, h.Log, topicA, seqs[1:]...)
		},
		"a topic without a log": func(t *testing.T, h Harness) {
			trim(t, h.Log, topicA, 5, at(5))
			wantHead(t, h.Log, topicA, 0)
		},
		"while others append and read": func(t *testing.T, h Harness) {
			first := appendTo(t, h.Log, plain(topicA, "")).Seq
			var head atomic.Uint64
			must(t, together(60, func(i int) error {
				at := first + delivery.Seq(i/3)
				switch i % 3 {
				case 0:
					_, err := h.Log.Trim(t.Context(), topicA, at, start.Add(time.Hour))
					return err
				case 1:
					receipt, err := h.Log.Append(t.Context(), plain(topicA, fmt.Sprint(i)), uuid.New(), start)
					raise(&head, receipt.Seq)
					return err
				}
				_, err := h.Log.Read(t.Context(), topicA, at)
				if errors.Is(err, delivery.ErrEndOfLog) {
					return nil
				}
				return err
			}))
			wantHead(t, h.Log, topicA, delivery.Seq(head.Load()))
			if got := kept(t, h.Log, topicA); len(got) == 0 || got[len(got)-1] != delivery.Seq(head.Load()) {
				t.Fatalf("the log has %v, want it up to %d", got, head.Load())
			}
		},
	})
}

// raise makes n at least seq.
func raise(n *atomic.Uint64, seq delivery.Seq) {
	for old := n.Load(); old < uint64(seq) && !n.CompareAndSwap(old, uint64(seq)); old = n.Load() {
	}
}

func testTopics(t *testing.T, open Open) {
	list := func(t *testing.T, l delivery.Log) map[string]delivery.TopicState {
		states := make(map[string]delivery.TopicState)
		for state, err := range l.Topics(t.Context()) {
			must(t, err)
			wantCounted(t, l, state.Topic)
			state.Bytes, state.Oldest = 0, state.Oldest.UTC()
			states[state.Topic] = state
		}
		return states
	}
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"every topic with a log": func(t *testing.T, h Harness) {
			if got := list(t, h.Log); len(got) != 0 {
				t.Fatalf("an empty engine has %v", got)
			}
			a, b := appendMany(t, h.Log, topicA2, 3), appendMany(t, h.Log, topicB, 4)
			trim(t, h.Log, topicB, b[2], start.Add(time.Hour))
			want := map[string]delivery.TopicState{
				topicA: {Topic: topicA, First: a[0], Head: a[2], Last: last(t, h.Log, topicA, a[2]), Oldest: start.UTC()},
				topicB: {Topic: topicB, First: b[2], Head: b[3], Last: last(t, h.Log, topicB, b[3]), Oldest: start.Add(2 * time.Second).UTC()},
			}
			if got := list(t, h.Log); !reflect.DeepEqual(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		},
		"one that covers no interval": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 1)
			id := uuid.New()
			receipt, err := h.Log.Append(t.Context(), plain(topicA, ""), id, start)
			must(t, err)
			got := list(t, h.Log)[topicA]
			if got.Head != receipt.Seq || got.Last != (delivery.Last{ID: id}) {
				t.Fatalf("got %+v, want %s alone", got, id)
			}
		},
		"while others append": func(t *testing.T, h Harness) {
			before := appendMany(t, h.Log, topicA, 3)[2]
			var head atomic.Uint64
			must(t, together(60, func(i int) error {
				if i%2 == 0 {
					_, other := h.Log.Append(t.Context(), plain(fmt.Sprint(topicB, i%6), ""), uuid.New(), start)
					same, err := h.Log.Append(t.Context(), plain(topicA, ""), uuid.New(), start)
					raise(&head, same.Seq)
					return errors.Join(other, err)
				}
				last, firsts := before, make(map[string]delivery.Seq)
				for range 3 {
					head, err := headOf(t, h.Log, topicA, firsts)
					if err != nil {
						return err
					}
					if head < last {
						return fmt.Errorf("head %d after %d", head, last)
					}
					last = head
				}
				return nil
			}))
			got, err := headOf(t, h.Log, topicA, make(map[string]delivery.Seq))
			if got != delivery.Seq(head.Load()) || err != nil {
				t.Fatalf("head is %d, error %v; want %d", got, err, head.Load())
			}
		},
		"where nothing is kept First is behind Head": func(t *testing.T, h Harness) {
			head := appendMany(t, h.Log, topicA, 3)[2]
			want := delivery.TopicState{Topic: topicA, First: head + 1, Head: head, Last: last(t, h.Log, topicA, head)}
			trim(t, h.Log, topicA, head+1, start.Add(time.Hour))
			if got := list(t, h.Log)[topicA]; got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		},
		"listing may be left early": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 1)
			appendMany(t, h.Log, topicB, 1)
			for _, err := range h.Log.Topics(t.Context()) {
				must(t, err)
				break
			}
		},
	})
}

// last is what is remembered of the notification with the number, while it is kept.
func last(t *testing.T, l delivery.Log, topic string, seq delivery.Seq) delivery.Last {
	t.Helper()
	n, err := l.Read(t.Context(), topic, seq)
	must(t, err)
	return delivery.Last{ID: n.ID, Until: n.Until, Digest: n.Digest()}
}

// headOf finds the topic's head among all topics, which are listed once each and
// with all that is kept: their firsts stay what they were seen to be.
func headOf(
	t *testing.T, l delivery.Log, topic string, firsts map[string]delivery.Seq,
) (head delivery.Seq, err error) {
	seen := make(map[string]bool)
	for state, err := range l.Topics(t.Context()) {
		if err != nil {
			return 0, err
		}
		first, known := firsts[state.Topic]
		if seen[state.Topic] || state.First > state.Head || known && state.First != first {
			return 0, fmt.Errorf("got %+v, seen before: %v, first was %d", state, seen[state.Topic], first)
		}
		firsts[state.Topic] = state.First
		if seen[state.Topic] = true; state.Topic == topic {
			head = state.Head
		}
	}
	return head, nil
}

package deliverytest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
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
			got, err := h.Log.Read(t.Context(), topicA, 1)
			must(t, err)
			if !got.Accepted.Equal(start) {
				t.Fatalf("accepted %v, want %v", got.Accepted, start)
			}
			want := &delivery.Notification{Publication: p, ID: id, Seq: 1, Accepted: got.Accepted}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		},
		"one with nothing in it": func(t *testing.T, h Harness) {
			appendTo(t, h.Log, delivery.Publication{Topic: topicA})
			got, err := h.Log.Read(t.Context(), topicA, 1)
			must(t, err)
			if len(got.Body) != 0 || len(got.Links) != 0 || got.ContentType != "" || got.From != "" || got.Until != "" {
				t.Fatalf("got %+v", got)
			}
		},
		"a great body": func(t *testing.T, h Harness) {
			testBody(t, h.Log, 2<<20, func() delivery.Log { return h.Crash(t).Log })
		},
		"from says where to begin": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 5)
			for from, want := range []delivery.Seq{1, 1, 2, 3, 4, 5} {
				got, err := h.Log.Read(t.Context(), topicA, delivery.Seq(from))
				must(t, err)
				if got.Seq != want {
					t.Fatalf("from %d: got %d, want %d", from, got.Seq, want)
				}
			}
		},
		"beyond the head is ErrEndOfLog": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 2)
			for _, from := range []delivery.Seq{3, 4, 1 << 62} {
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
	appendTo(t, log, plain(topicA, "before"))
	appendTo(t, log, p)
	appendTo(t, log, plain(topicA, "after"))
	log = again()
	got, err := log.Read(t.Context(), topicA, 2)
	must(t, err)
	if !bytes.Equal(got.Body, p.Body) {
		t.Fatalf("got a body of %d bytes, want the same %d", len(got.Body), len(p.Body))
	}
	wantKept(t, log, topicA, 1, 2, 3)
}

func testTrim(t *testing.T, open Open) {
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	for name, row := range map[string]struct {
		before    delivery.Seq
		olderThan time.Time
		want      []delivery.Seq
	}{
		"below before":            {3, at(100), []delivery.Seq{3, 4, 5}},
		"below 1 there is none":   {1, at(100), []delivery.Seq{1, 2, 3, 4, 5}},
		"all":                     {6, at(100), nil},
		"before may be far ahead": {1 << 62, at(100), nil},
		"older than olderThan":    {6, at(2), []delivery.Seq{3, 4, 5}},
		"none is older":           {6, at(0), []delivery.Seq{1, 2, 3, 4, 5}},
		"both must be":            {2, at(3), []delivery.Seq{2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			appendMany(t, h.Log, topicA, 5)
			appendMany(t, h.Log, topicB, 5)
			must(t, h.Log.Trim(t.Context(), topicA2, row.before, row.olderThan))
			wantKept(t, h.Log, topicA, row.want...)
			wantKept(t, h.Log, topicB, 1, 2, 3, 4, 5)
			wantHead(t, h.Log, topicA, 5)
			if got := appendTo(t, h.Log, change(topicA, 9)); got.Seq != 6 || got.Previous != change(topicA, 4).Until {
				t.Fatalf("the next: got %+v, want 6 after %s", got, change(topicA, 4).Until)
			}
		})
	}
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"it stops at the first that stays": func(t *testing.T, h Harness) {
			for _, accepted := range []time.Time{at(0), at(9), at(1)} {
				_, err := h.Log.Append(t.Context(), plain(topicA, ""), uuid.New(), accepted)
				must(t, err)
			}
			must(t, h.Log.Trim(t.Context(), topicA, 4, at(5)))
			wantKept(t, h.Log, topicA, 2, 3)
		},
		"a topic without a log": func(t *testing.T, h Harness) {
			must(t, h.Log.Trim(t.Context(), topicA, 5, at(5)))
			wantHead(t, h.Log, topicA, 0)
		},
		"while others append and read": func(t *testing.T, h Harness) {
			must(t, together(60, func(i int) error {
				switch i % 3 {
				case 0:
					return h.Log.Trim(t.Context(), topicA, delivery.Seq(i), at(100))
				case 1:
					_, err := h.Log.Append(t.Context(), plain(topicA, fmt.Sprint(i)), uuid.New(), start)
					return err
				}
				_, err := h.Log.Read(t.Context(), topicA, delivery.Seq(i/3))
				if errors.Is(err, delivery.ErrEndOfLog) {
					return nil
				}
				return err
			}))
			wantHead(t, h.Log, topicA, 20)
		},
	})
}

func testTopics(t *testing.T, open Open) {
	list := func(t *testing.T, l delivery.Log) map[string]delivery.TopicState {
		states := make(map[string]delivery.TopicState)
		for state, err := range l.Topics(t.Context()) {
			must(t, err)
			states[state.Topic] = state
		}
		return states
	}
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"every topic with a log": func(t *testing.T, h Harness) {
			if got := list(t, h.Log); len(got) != 0 {
				t.Fatalf("an empty engine has %v", got)
			}
			appendMany(t, h.Log, topicA2, 3)
			appendMany(t, h.Log, topicB, 4)
			must(t, h.Log.Trim(t.Context(), topicB, 3, start.Add(time.Hour)))
			want := map[string]delivery.TopicState{
				topicA: {Topic: topicA, First: 1, Head: 3},
				topicB: {Topic: topicB, First: 3, Head: 4},
			}
			if got := list(t, h.Log); !reflect.DeepEqual(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		},
		"while others append": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 3)
			must(t, together(60, func(i int) error {
				if i%2 == 0 {
					_, other := h.Log.Append(t.Context(), plain(fmt.Sprint(topicB, i%6), ""), uuid.New(), start)
					_, same := h.Log.Append(t.Context(), plain(topicA, ""), uuid.New(), start)
					return errors.Join(other, same)
				}
				var last delivery.Seq
				for range 3 {
					head, err := headOf(t, h.Log, topicA)
					if err != nil {
						return err
					}
					if head < max(last, 3) || head > 33 {
						return fmt.Errorf("head %d after %d", head, last)
					}
					last = head
				}
				return nil
			}))
			if head, err := headOf(t, h.Log, topicA); head != 33 || err != nil {
				t.Fatalf("head is %d, error %v; want 33", head, err)
			}
		},
		"where nothing is kept First is behind Head": func(t *testing.T, h Harness) {
			appendMany(t, h.Log, topicA, 3)
			must(t, h.Log.Trim(t.Context(), topicA, 4, start.Add(time.Hour)))
			want := delivery.TopicState{Topic: topicA, First: 4, Head: 3}
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

// headOf finds the topic's head among all topics, which are listed once each and
// with all that is kept.
func headOf(t *testing.T, l delivery.Log, topic string) (head delivery.Seq, err error) {
	seen := make(map[string]bool)
	for state, err := range l.Topics(t.Context()) {
		if err != nil {
			return 0, err
		}
		if seen[state.Topic] || state.First != 1 {
			return 0, fmt.Errorf("got %+v, seen before: %v", state, seen[state.Topic])
		}
		if seen[state.Topic] = true; state.Topic == topic {
			head = state.Head
		}
	}
	return head, nil
}

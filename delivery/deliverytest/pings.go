package deliverytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"carillon/delivery"
	"carillon/topic"
)

// RunPings runs the suite of delivery.Pings.
func RunPings(t *testing.T, open func(t *testing.T) Harness) {
	t.Run("Ping", func(t *testing.T) { testPing(t, open) })
	t.Run("Fetched", func(t *testing.T) { testFetched(t, open) })
	t.Run("Durable", func(t *testing.T) { testPingsDurable(t, open) })
	t.Run("Refused", func(t *testing.T) { refused(t, open, pingCalls) })
	t.Run("Faults", func(t *testing.T) { testPingFaults(t, open) })
}

func ping(t *testing.T, p delivery.Pings, topics ...string) []delivery.Ping {
	t.Helper()
	pings, err := p.Ping(t.Context(), addresses(topics...))
	must(t, err)
	if len(pings) != len(topics) {
		t.Fatalf("got %d pings, want %d", len(pings), len(topics))
	}
	return pings
}

func addresses(topics ...string) []topic.Address {
	all := make([]topic.Address, len(topics))
	for i, one := range topics {
		all[i] = topic.Parse(one)
	}
	return all
}

// fetched forgets the ping; nothing of its topic must be left.
func fetched(t *testing.T, p delivery.Pings, one delivery.Ping) {
	t.Helper()
	left, err := p.Fetched(t.Context(), one)
	must(t, err)
	if left != nil {
		t.Fatalf("%+v is left", *left)
	}
}

// wantWaiting checks what waits, by topic.
func wantWaiting(t *testing.T, p delivery.Pings, want ...delivery.Ping) {
	t.Helper()
	got, expected := make(map[string]uint64), make(map[string]uint64)
	for one, err := range p.Waiting(t.Context()) {
		must(t, err)
		if _, twice := got[one.Topic.Key()]; twice {
			t.Fatalf("%s waits twice", one.Topic)
		}
		got[one.Topic.Key()] = one.Count
	}
	for _, one := range want {
		expected[one.Topic.Key()] = one.Count
	}
	if !maps.Equal(got, expected) {
		t.Fatalf("waiting are %v, want %v", got, expected)
	}
}

func testPing(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"topics wait, and come back in order and as written": func(t *testing.T, h Harness) {
			wantWaiting(t, h.Pings)
			pings := ping(t, h.Pings, topicB, topicA2)
			if pings[0].Topic.String() != topicB || pings[1].Topic.String() != topicA2 {
				t.Fatalf("got %+v, want %s first and %s as written", pings, topicB, topicA2)
			}
			wantWaiting(t, h.Pings, pings...)
			for one, err := range h.Pings.Waiting(t.Context()) {
				must(t, err)
				if at := one.Topic.String(); at != topicB && at != topicA2 {
					t.Fatalf("%s waits, want it as in the request", one.Topic)
				}
			}
		},
		"a topic that waits is noted once, with a risen count": func(t *testing.T, h Harness) {
			first := ping(t, h.Pings, topicA)[0]
			second := ping(t, h.Pings, topicA2)[0]
			if second.Count <= first.Count {
				t.Fatalf("count %d after %d, want it risen", second.Count, first.Count)
			}
			wantWaiting(t, h.Pings, second)
		},
		"a topic given twice is noted once": func(t *testing.T, h Harness) {
			pings := ping(t, h.Pings, topicA, topicB, topicA2)
			if pings[0].Count != pings[2].Count {
				t.Fatalf("got %+v, want one count for the topic", pings)
			}
			wantWaiting(t, h.Pings, pings[1], pings[2])
			fetched(t, h.Pings, pings[2])
			wantWaiting(t, h.Pings, pings[1])
		},
		"no topics": func(t *testing.T, h Harness) {
			ping(t, h.Pings)
			wantWaiting(t, h.Pings)
		},
		"several at once": func(t *testing.T, h Harness) {
			must(t, together(100, func(i int) error {
				_, err := h.Pings.Ping(t.Context(), addresses(topicA, fmt.Sprint(topicB, i%10)))
				return err
			}))
			count := 0
			for _, err := range h.Pings.Waiting(t.Context()) {
				must(t, err)
				count++
			}
			if count != 11 {
				t.Fatalf("%d wait, want 11", count)
			}
		},
		"listing may be left early": func(t *testing.T, h Harness) {
			ping(t, h.Pings, topicA, topicB)
			for _, err := range h.Pings.Waiting(t.Context()) {
				must(t, err)
				break
			}
		},
	})
}

func testFetched(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"a fetched ping is forgotten": func(t *testing.T, h Harness) {
			pings := ping(t, h.Pings, topicA, topicB)
			fetched(t, h.Pings, pings[0])
			wantWaiting(t, h.Pings, pings[1])
		},
		"one that came since is left": func(t *testing.T, h Harness) {
			first := ping(t, h.Pings, topicA)[0]
			second := ping(t, h.Pings, topicA)[0]
			left, err := h.Pings.Fetched(t.Context(), first)
			must(t, err)
			if left == nil || *left != second {
				t.Fatalf("left is %+v, want %+v", left, second)
			}
			wantWaiting(t, h.Pings, second)
			fetched(t, h.Pings, second)
			wantWaiting(t, h.Pings)
		},
		"a topic that does not wait": func(t *testing.T, h Harness) {
			fetched(t, h.Pings, delivery.Ping{Topic: topic.Parse(topicA), Count: 1})
		},
		"a count never returns": func(t *testing.T, h Harness) {
			first := ping(t, h.Pings, topicA)[0]
			fetched(t, h.Pings, first)
			p := h.Crash(t).Pings
			second := ping(t, p, topicA)[0]
			if second.Count <= first.Count {
				t.Fatalf("count %d after %d, want it risen", second.Count, first.Count)
			}
			left, err := p.Fetched(t.Context(), first)
			must(t, err)
			if left == nil || *left != second {
				t.Fatalf("left is %+v, want %+v", left, second)
			}
		},
	})
}

func testPingsDurable(t *testing.T, open Open) {
	for name, again := range endings() {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			pings := ping(t, h.Pings, topicA, topicB)
			fetched(t, h.Pings, pings[0])
			wantWaiting(t, again(t, h).Pings, pings[1])
		})
	}
}

func pingCalls(h Harness) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Ping": func(ctx context.Context) error {
			_, err := h.Pings.Ping(ctx, addresses(topicA))
			return err
		},
		"Fetched": func(ctx context.Context) error {
			_, err := h.Pings.Fetched(ctx, delivery.Ping{Topic: topic.Parse(topicA), Count: 1})
			return err
		},
		"Waiting": func(ctx context.Context) error {
			var errs []error
			for _, err := range h.Pings.Waiting(ctx) {
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

func testPingFaults(t *testing.T, open Open) {
	faults(t, "Ping", open, func(t *testing.T, h Harness, f *Fault) {
		_, err := FaultyPings{h.Pings, f}.Ping(t.Context(), addresses(topicA, topicB))
		wantError(t, err, delivery.ErrUnavailable)
		p := h.Crash(t).Pings
		count := 0
		for _, err := range p.Waiting(t.Context()) {
			must(t, err)
			count++
		}
		if want := map[bool]int{false: 0, true: 2}[f.Persisted]; count != want {
			t.Fatalf("%d wait, want %d", count, want)
		}
		wantWaiting(t, p, ping(t, p, topicA, topicB)...)
	})
	faults(t, "Fetched", open, func(t *testing.T, h Harness, f *Fault) {
		one := ping(t, h.Pings, topicA)[0]
		_, err := FaultyPings{h.Pings, f}.Fetched(t.Context(), one)
		wantError(t, err, delivery.ErrUnavailable)
		p := h.Crash(t).Pings
		if f.Persisted {
			wantWaiting(t, p)
		} else {
			wantWaiting(t, p, one)
		}
		fetched(t, p, one)
		wantWaiting(t, p)
	})
}

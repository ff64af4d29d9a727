package deliverytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/topic"
)

// RunLog runs the suite of delivery.Log.
func RunLog(t *testing.T, open func(t *testing.T) Harness) {
	open = keyed(open)
	t.Run("Append", func(t *testing.T) { testAppend(t, open) })
	t.Run("Repeated", func(t *testing.T) { testRepeated(t, open) })
	t.Run("Read", func(t *testing.T) { testRead(t, open) })
	t.Run("Trim", func(t *testing.T) { testTrim(t, open) })
	t.Run("Shrink", func(t *testing.T) { testShrink(t, open) })
	t.Run("Heads", func(t *testing.T) { testHeads(t, open) })
	t.Run("Summaries", func(t *testing.T) { testSummaries(t, open) })
	t.Run("State", func(t *testing.T) { testState(t, open) })
	t.Run("Topics", func(t *testing.T) { testTopics(t, open) })
	t.Run("Durable", func(t *testing.T) { testLogDurable(t, open) })
	t.Run("Refused", func(t *testing.T) { testLogRefused(t, open) })
	t.Run("Faults", func(t *testing.T) { testLogFaults(t, open) })
	t.Run("Model", func(t *testing.T) { testLogModel(t, open) })
}

func testAppend(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"sequence numbers rise, and After tells what came before": func(t *testing.T, h Harness) {
			before := delivery.Seq(0)
			for range 5 {
				seq := appendTo(t, h.Log, plain(topicA, "same")).Seq
				if seq <= before || seq > delivery.MaxSeq {
					t.Fatalf("got %d after %d", seq, before)
				}
				wantHead(t, h.Log, topicA, seq)
				if n, err := h.Log.Read(t.Context(), topicA, before+1); err != nil || n.Seq != seq || n.After != before {
					t.Fatalf("got %+v, error %v; want number %d after %d", n, err, seq, before)
				}
				before = seq
			}
		},
		"each topic has its own": func(t *testing.T, h Harness) {
			a, b := appendMany(t, h.Log, topicA, 2), appendMany(t, h.Log, topicB, 1)
			a = append(a, appendMany(t, h.Log, topicA, 1)...)
			wantKept(t, h.Log, topicA, a...)
			wantKept(t, h.Log, topicB, b...)
			for topic, want := range map[string]delivery.Seq{topicA: a[1], topicB: 0} {
				n, err := h.Log.Read(t.Context(), topic, want+1)
				must(t, err)
				if n.After != want {
					t.Fatalf("number %d of %s is after %d, want %d", n.Seq, topic, n.After, want)
				}
			}
		},
		"spellings of a topic are one topic": func(t *testing.T, h Harness) {
			first := appendTo(t, h.Log, plain(topicA, "1")).Seq
			second := appendTo(t, h.Log, plain(topicA2, "2")).Seq
			wantKept(t, h.Log, topicA, first, second)
			wantHead(t, h.Log, topicA, second)
		},
		"the receipt tells the id and the Until of the one before": func(t *testing.T, h Harness) {
			for i, p := range []delivery.Publication{
				change(topicA, 0), change(topicA, 1), plain(topicA, ""), change(topicA, 2),
			} {
				id := uuid.New()
				got, err := h.Log.Append(t.Context(), p, id, start)
				must(t, err)
				want := delivery.Receipt{ID: id, Seq: got.Seq}
				want.Previous = []string{"", change(topicA, 0).Until, change(topicA, 1).Until, ""}[i]
				if got != want {
					t.Fatalf("append %d: got %+v, want %+v", i, got, want)
				}
			}
		},
		"several at once get a number each": func(t *testing.T, h Harness) {
			const n = 200
			var mu sync.Mutex
			bodies := make(map[delivery.Seq]string)
			must(t, together(n, func(i int) error {
				body := fmt.Sprint(i)
				receipt, err := h.Log.Append(t.Context(), plain(topicA, body), uuid.New(), start)
				mu.Lock()
				defer mu.Unlock()
				bodies[receipt.Seq] = body
				return err
			}))
			log := h.Crash(t).Log
			seqs := slices.Sorted(maps.Keys(bodies))
			if len(seqs) != n {
				t.Fatalf("%d numbers were given, want %d", len(seqs), n)
			}
			wantHead(t, log, topicA, seqs[n-1])
			before := delivery.Seq(0)
			for _, seq := range seqs {
				got, err := log.Read(t.Context(), topicA, seq)
				must(t, err)
				if got.Seq != seq || got.After != before || string(got.Body) != bodies[seq] {
					t.Fatalf(
						"at %d: %d after %d, %q; want after %d, %q", seq, got.Seq, got.After,
						got.Body, before, bodies[seq],
					)
				}
				before = seq
			}
		},
		"the caller may use the body again": func(t *testing.T, h Harness) {
			p := plain(topicA, "before")
			appendTo(t, h.Log, p)
			copy(p.Body, "after!")
			got, err := h.Log.Read(t.Context(), topicA, 0)
			must(t, err)
			if string(got.Body) != "before" {
				t.Fatalf("the body changed to %q", got.Body)
			}
		},
	})
}

func testRepeated(t *testing.T, open Open) {
	first := change(topicA, 1)
	otherwise := func(f func(p *delivery.Publication)) delivery.Publication {
		p := first
		f(&p)
		return p
	}
	t.Run("the same body and interval is not appended again", func(t *testing.T) {
		for name, again := range map[string]delivery.Publication{
			"as it was":               first,
			"with other links":        otherwise(func(p *delivery.Publication) { p.Links = []string{`<x>; rel="y"`} }),
			"with another type":       otherwise(func(p *delivery.Publication) { p.ContentType = "text/xml" }),
			"under another spelling ": otherwise(func(p *delivery.Publication) { p.Topic = topic.Parse(topicA2) }),
		} {
			t.Run(name, func(t *testing.T) {
				h := open(t)
				before := appendTo(t, h.Log, change(topicA, 0)).Seq
				want := appendTo(t, h.Log, first)
				want.Repeated = true
				for range 2 {
					if got := appendTo(t, h.Log, again); got != want {
						t.Fatalf("got %+v, want %+v", got, want)
					}
				}
				wantKept(t, h.Log, topicA, before, want.Seq)
			})
		}
	})
	t.Run("anything else is appended", func(t *testing.T) {
		for name, other := range map[string]delivery.Publication{
			"another body":  otherwise(func(p *delivery.Publication) { p.Body = []byte("other") }),
			"another From":  otherwise(func(p *delivery.Publication) { p.From = change(topicA, 0).From }),
			"another Until": otherwise(func(p *delivery.Publication) { p.Until = change(topicA, 2).Until }),
			"no From":       otherwise(func(p *delivery.Publication) { p.From = "" }),
			"no Until":      otherwise(func(p *delivery.Publication) { p.Until = "" }),
			"no interval":   otherwise(func(p *delivery.Publication) { p.From, p.Until = "", "" }),
			"shifted": otherwise(func(p *delivery.Publication) {
				p.From, p.Until = p.From+p.Until[:1], p.Until[1:]
			}),
			"another topic": otherwise(func(p *delivery.Publication) { p.Topic = topic.Parse(topicB) }),
		} {
			t.Run(name, func(t *testing.T) {
				h := open(t)
				appendTo(t, h.Log, first)
				if got := appendTo(t, h.Log, other); got.Repeated {
					t.Fatalf("got %+v, want a notification of its own", got)
				}
			})
		}
	})
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"content without an interval is never a repetition": func(t *testing.T, h Harness) {
			for before := delivery.Seq(0); len(kept(t, h.Log, topicA)) < 3; {
				got := appendTo(t, h.Log, plain(topicA, "same"))
				if got.Repeated || got.Seq <= before {
					t.Fatalf("got %+v, want a number above %d", got, before)
				}
				before = got.Seq
			}
		},
		"only the last is compared": func(t *testing.T, h Harness) {
			appendTo(t, h.Log, first)
			between := appendTo(t, h.Log, plain(topicA, "between"))
			if got := appendTo(t, h.Log, first); got.Repeated || got.Seq <= between.Seq {
				t.Fatalf("got %+v, want a number above %d", got, between.Seq)
			}
		},
		"it is known beyond Trim and crash": func(t *testing.T, h Harness) {
			appendTo(t, h.Log, change(topicA, 0))
			want := appendTo(t, h.Log, first)
			want.Repeated = true
			trim(t, h.Log, topicA, want.Seq+1, start.Add(time.Hour))
			if got := appendTo(t, h.Log, first); got != want {
				t.Fatalf("after Trim: got %+v, want %+v", got, want)
			}
			log := h.Crash(t).Log
			if got := appendTo(t, log, first); got != want {
				t.Fatalf("after the crash: got %+v, want %+v", got, want)
			}
			if got := appendTo(t, log, change(topicA, 2)); got.Seq <= want.Seq || got.Previous != first.Until {
				t.Fatalf("the next: got %+v, want it above %d and after %s", got, want.Seq, first.Until)
			}
		},
		"who is told that it is repeated finds it after a crash": func(t *testing.T, h Harness) {
			const n = 8
			told := make(chan error, n)
			for range n {
				go func() {
					receipt, err := h.Log.Append(t.Context(), first, uuid.New(), start)
					if err == nil && !receipt.Repeated {
						return // the repetition is reported
					}
					told <- err
				}()
			}
			must(t, <-told)
			if got := kept(t, h.Crash(t).Log, topicA); len(got) != 1 {
				t.Fatalf("the log has %v, want one", got)
			}
			for range n - 2 {
				if err := <-told; err != nil { // the crash came first
					wantError(t, err, delivery.ErrUnavailable)
				}
			}
		},
		"several at once are one": func(t *testing.T, h Harness) {
			must(t, together(50, func(int) error {
				_, err := h.Log.Append(t.Context(), first, uuid.New(), start)
				return err
			}))
			if got := kept(t, h.Crash(t).Log, topicA); len(got) != 1 {
				t.Fatalf("the log has %v, want one", got)
			}
		},
	})
}

func testLogDurable(t *testing.T, open Open) {
	for name, again := range endings() {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			a, b := appendMany(t, h.Log, topicA, 5), appendMany(t, h.Log, topicB, 1)
			log := again(t, h).Log
			wantKept(t, log, topicA, a...)
			wantHead(t, log, topicA, a[4])
			next := appendTo(t, log, change(topicA, 9)).Seq
			n, err := log.Read(t.Context(), topicA, a[4]+1)
			must(t, err)
			if n.Seq != next || n.After != a[4] {
				t.Fatalf("the next is %d after %d, want %d after %d", n.Seq, n.After, next, a[4])
			}
			wantKept(t, log, topicB, b...)
		})
	}
}

func logCalls(h Harness) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Append": func(ctx context.Context) error {
			_, err := h.Log.Append(ctx, plain(topicA, ""), uuid.New(), start)
			return err
		},
		"Read": func(ctx context.Context) error {
			_, err := h.Log.Read(ctx, topicA, 1)
			return err
		},
		"Summaries": func(ctx context.Context) error {
			_, err := h.Log.Summaries(ctx, topicA, 0, 1)
			return err
		},
		"Summary": func(ctx context.Context) error {
			_, err := h.Log.Summary(ctx, topicA, 0)
			return err
		},
		"State": func(ctx context.Context) error {
			_, err := h.Log.State(ctx, topicA)
			return err
		},
		"Heads": func(ctx context.Context) error {
			_, err := h.Log.Heads(ctx, []string{topicA})
			return err
		},
		"Trim": func(ctx context.Context) error {
			_, err := h.Log.Trim(ctx, topicA, 2, start)
			return err
		},
		"Shrink": func(ctx context.Context) error {
			_, err := h.Log.Shrink(ctx, topicA, 0, delivery.MaxSeq, start)
			return err
		},
		"Keys": func(ctx context.Context) error {
			var errs []error
			for _, err := range h.Log.Keys(ctx) {
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
		"Topics": func(ctx context.Context) error {
			var errs []error
			for _, err := range h.Log.Topics(ctx) {
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

func testLogRefused(t *testing.T, open Open) {
	refused(t, open, logCalls)
	t.Run("a context that is done appends and trims nothing", func(t *testing.T) {
		h := open(t)
		seqs := appendMany(t, h.Log, topicA, 2)
		_, err := h.Log.Append(done(t), change(topicA, 2), uuid.New(), start)
		wantError(t, err, context.Canceled)
		_, err = h.Log.Trim(done(t), topicA, delivery.MaxSeq, start.Add(time.Hour))
		wantError(t, err, context.Canceled)
		_, err = h.Log.Shrink(done(t), topicA, 0, delivery.MaxSeq, start.Add(time.Hour))
		wantError(t, err, context.Canceled)
		log := h.Reopen(t).Log
		wantKept(t, log, topicA, seqs...)
		wantHead(t, log, topicA, seqs[1])
	})
}

func testLogFaults(t *testing.T, open Open) {
	faults(t, "Append with an interval", open, func(t *testing.T, h Harness, f *Fault) {
		first := appendTo(t, h.Log, change(topicA, 0)).Seq
		_, err := FaultyLog{h.Log, f}.Append(t.Context(), change(topicA, 1), uuid.New(), start)
		wantError(t, err, delivery.ErrUnavailable)
		log := h.Crash(t).Log
		got := appendTo(t, log, change(topicA, 1))
		if got.Repeated != f.Persisted {
			t.Fatalf("repeated: got %+v, want Repeated %v", got, f.Persisted)
		}
		wantKept(t, log, topicA, first, got.Seq)
	})
	faults(t, "Append without an interval", open, func(t *testing.T, h Harness, f *Fault) {
		_, err := FaultyLog{h.Log, f}.Append(t.Context(), plain(topicA, "x"), uuid.New(), start)
		wantError(t, err, delivery.ErrUnavailable)
		log := h.Crash(t).Log
		appendTo(t, log, plain(topicA, "x"))
		if got, want := len(kept(t, log, topicA)), map[bool]int{false: 1, true: 2}[f.Persisted]; got != want {
			t.Fatalf("the log has %d, want %d", got, want)
		}
	})
	faults(t, "Trim", open, func(t *testing.T, h Harness, f *Fault) {
		seqs := appendMany(t, h.Log, topicA, 3)
		_, err := FaultyLog{h.Log, f}.Trim(t.Context(), topicA, seqs[2], start.Add(time.Hour))
		wantError(t, err, delivery.ErrUnavailable)
		log := h.Crash(t).Log
		wantHead(t, log, topicA, seqs[2])
		trim(t, log, topicA, seqs[2], start.Add(time.Hour))
		wantKept(t, log, topicA, seqs[2])
	})
	faults(t, "Shrink", open, func(t *testing.T, h Harness, f *Fault) {
		seqs := appendMany(t, h.Log, topicA, 3)
		_, err := FaultyLog{h.Log, f}.Shrink(t.Context(), topicA, 0, delivery.MaxSeq, start.Add(2*time.Second))
		wantError(t, err, delivery.ErrUnavailable)
		log := h.Crash(t).Log
		wantHead(t, log, topicA, seqs[2])
		wantCounted(t, log, topicA)
		_, err = log.Shrink(t.Context(), topicA, 0, delivery.MaxSeq, start.Add(2*time.Second))
		must(t, err)
		wantKept(t, log, topicA, seqs[2])
		wantCounted(t, log, topicA)
	})
}

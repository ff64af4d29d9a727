package deliverytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
)

// RunLog runs the suite of delivery.Log.
func RunLog(t *testing.T, open func(t *testing.T) Harness) {
	t.Run("Append", func(t *testing.T) { testAppend(t, open) })
	t.Run("Repeated", func(t *testing.T) { testRepeated(t, open) })
	t.Run("Read", func(t *testing.T) { testRead(t, open) })
	t.Run("Trim", func(t *testing.T) { testTrim(t, open) })
	t.Run("Topics", func(t *testing.T) { testTopics(t, open) })
	t.Run("Durable", func(t *testing.T) { testLogDurable(t, open) })
	t.Run("Refused", func(t *testing.T) { testLogRefused(t, open) })
	t.Run("Faults", func(t *testing.T) { testLogFaults(t, open) })
	t.Run("Model", func(t *testing.T) { testLogModel(t, open) })
}

// plain is content without an interval.
func plain(topic, body string) delivery.Publication {
	return delivery.Publication{Topic: topic, ContentType: "text/plain", Body: []byte(body)}
}

// change is a notification of the n-th second.
func change(topic string, n int) delivery.Publication {
	at := func(n int) string { return start.Add(time.Duration(n) * time.Second).Format(time.RFC3339Nano) }
	return delivery.Publication{
		Topic: topic, ContentType: "application/xml", Body: fmt.Appendf(nil, "<urlset>%d</urlset>", n),
		From: at(n), Until: at(n + 1),
	}
}

func appendTo(t *testing.T, l delivery.Log, p delivery.Publication) delivery.Receipt {
	t.Helper()
	receipt, err := l.Append(t.Context(), p, uuid.New(), start)
	must(t, err)
	return receipt
}

// appendMany appends n notifications, accepted a second apart from start on.
func appendMany(t *testing.T, l delivery.Log, topic string, n int) {
	t.Helper()
	for i := range n {
		_, err := l.Append(t.Context(), change(topic, i), uuid.New(), start.Add(time.Duration(i)*time.Second))
		must(t, err)
	}
}

// wantKept checks which sequence numbers of the topic are there.
func wantKept(t *testing.T, l delivery.Log, topic string, want ...delivery.Seq) {
	t.Helper()
	var got []delivery.Seq
	for from := delivery.Seq(0); ; {
		n, err := l.Read(t.Context(), topic, from)
		if errors.Is(err, delivery.ErrEndOfLog) {
			break
		}
		must(t, err)
		got = append(got, n.Seq)
		from = n.Seq + 1
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the log has %v, want %v", got, want)
	}
}

func wantHead(t *testing.T, l delivery.Log, topic string, want delivery.Seq) {
	t.Helper()
	got, err := l.Heads(t.Context(), []string{topic})
	must(t, err)
	if len(got) != 1 || got[0] != want {
		t.Fatalf("heads are %d, want %d", got, want)
	}
}

func testAppend(t *testing.T, open Open) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"sequence numbers begin at 1 and are consecutive": func(t *testing.T, h Harness) {
			for want := delivery.Seq(1); want <= 5; want++ {
				if got := appendTo(t, h.Log, plain(topicA, "same")).Seq; got != want {
					t.Fatalf("got %d, want %d", got, want)
				}
				wantHead(t, h.Log, topicA, want)
			}
		},
		"each topic has its own": func(t *testing.T, h Harness) {
			appendTo(t, h.Log, plain(topicA, "1"))
			appendTo(t, h.Log, plain(topicA, "2"))
			if got := appendTo(t, h.Log, plain(topicB, "1")).Seq; got != 1 {
				t.Fatalf("got %d, want 1", got)
			}
			wantKept(t, h.Log, topicA, 1, 2)
			wantKept(t, h.Log, topicB, 1)
		},
		"spellings of a topic are one topic": func(t *testing.T, h Harness) {
			appendTo(t, h.Log, plain(topicA, "1"))
			if got := appendTo(t, h.Log, plain(topicA2, "2")).Seq; got != 2 {
				t.Fatalf("got %d, want 2", got)
			}
			wantKept(t, h.Log, topicA, 1, 2)
			wantKept(t, h.Log, topicA2, 1, 2)
			wantHead(t, h.Log, topicA2, 2)
		},
		"the receipt tells the id and the Until of the one before": func(t *testing.T, h Harness) {
			for i, p := range []delivery.Publication{change(topicA, 0), change(topicA, 1), plain(topicA, ""), change(topicA, 2)} {
				id := uuid.New()
				got, err := h.Log.Append(t.Context(), p, id, start)
				must(t, err)
				want := delivery.Receipt{ID: id, Seq: delivery.Seq(i + 1)}
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
			wantHead(t, log, topicA, n)
			for seq := delivery.Seq(1); seq <= n; seq++ {
				got, err := log.Read(t.Context(), topicA, seq)
				must(t, err)
				if got.Seq != seq || string(got.Body) != bodies[seq] {
					t.Fatalf("at %d: %d %q, want %q", seq, got.Seq, got.Body, bodies[seq])
				}
			}
		},
		"the caller may use the body again": func(t *testing.T, h Harness) {
			p := plain(topicA, "before")
			appendTo(t, h.Log, p)
			copy(p.Body, "after!")
			got, err := h.Log.Read(t.Context(), topicA, 1)
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
			"under another spelling ": otherwise(func(p *delivery.Publication) { p.Topic = topicA2 }),
		} {
			t.Run(name, func(t *testing.T) {
				h := open(t)
				appendTo(t, h.Log, change(topicA, 0))
				want := appendTo(t, h.Log, first)
				want.Repeated = true
				for range 2 {
					if got := appendTo(t, h.Log, again); got != want {
						t.Fatalf("got %+v, want %+v", got, want)
					}
				}
				wantKept(t, h.Log, topicA, 1, 2)
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
			"another topic": otherwise(func(p *delivery.Publication) { p.Topic = topicB }),
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
			for want := delivery.Seq(1); want <= 3; want++ {
				if got := appendTo(t, h.Log, plain(topicA, "same")); got.Repeated || got.Seq != want {
					t.Fatalf("got %+v, want number %d", got, want)
				}
			}
		},
		"only the last is compared": func(t *testing.T, h Harness) {
			appendTo(t, h.Log, first)
			appendTo(t, h.Log, plain(topicA, "between"))
			if got := appendTo(t, h.Log, first); got.Repeated || got.Seq != 3 {
				t.Fatalf("got %+v, want number 3", got)
			}
		},
		"it is known beyond Trim and crash": func(t *testing.T, h Harness) {
			appendTo(t, h.Log, change(topicA, 0))
			want := appendTo(t, h.Log, first)
			want.Repeated = true
			must(t, h.Log.Trim(t.Context(), topicA, 3, start.Add(time.Hour)))
			if got := appendTo(t, h.Log, first); got != want {
				t.Fatalf("after Trim: got %+v, want %+v", got, want)
			}
			log := h.Crash(t).Log
			if got := appendTo(t, log, first); got != want {
				t.Fatalf("after the crash: got %+v, want %+v", got, want)
			}
			if got := appendTo(t, log, change(topicA, 2)); got.Seq != 3 || got.Previous != first.Until {
				t.Fatalf("the next: got %+v, want 3 after %s", got, first.Until)
			}
		},
		"who is told that it is repeated finds it after a crash": func(t *testing.T, h Harness) {
			const n = 8
			told := make(chan error, n)
			for range n {
				go func() {
					receipt, err := h.Log.Append(t.Context(), first, uuid.New(), start)
					if err == nil && !receipt.Repeated {
						return // what is told of is the repetition
					}
					told <- err
				}()
			}
			must(t, <-told)
			wantKept(t, h.Crash(t).Log, topicA, 1)
			for range n - 2 {
				must(t, <-told)
			}
		},
		"several at once are one": func(t *testing.T, h Harness) {
			must(t, together(50, func(int) error {
				_, err := h.Log.Append(t.Context(), first, uuid.New(), start)
				return err
			}))
			wantKept(t, h.Crash(t).Log, topicA, 1)
		},
	})
}

func testLogDurable(t *testing.T, open Open) {
	for name, again := range endings() {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			appendMany(t, h.Log, topicA, 5)
			appendMany(t, h.Log, topicB, 1)
			log := again(t, h).Log
			wantKept(t, log, topicA, 1, 2, 3, 4, 5)
			wantHead(t, log, topicA, 5)
			if got := appendTo(t, log, change(topicA, 9)); got.Seq != 6 {
				t.Fatalf("the next is %d, want 6", got.Seq)
			}
			wantKept(t, log, topicB, 1)
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
		"Heads": func(ctx context.Context) error {
			_, err := h.Log.Heads(ctx, []string{topicA})
			return err
		},
		"Trim": func(ctx context.Context) error { return h.Log.Trim(ctx, topicA, 2, start) },
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
		appendMany(t, h.Log, topicA, 2)
		_, err := h.Log.Append(done(t), change(topicA, 2), uuid.New(), start)
		wantError(t, err, context.Canceled)
		wantError(t, h.Log.Trim(done(t), topicA, 3, start.Add(time.Hour)), context.Canceled)
		log := h.Reopen(t).Log
		wantKept(t, log, topicA, 1, 2)
		wantHead(t, log, topicA, 2)
	})
}

func testLogFaults(t *testing.T, open Open) {
	faults(t, "Append with an interval", open, func(t *testing.T, h Harness, f *Fault) {
		appendTo(t, h.Log, change(topicA, 0))
		_, err := FaultyLog{h.Log, f}.Append(t.Context(), change(topicA, 1), uuid.New(), start)
		wantError(t, err, delivery.ErrUnavailable)
		log := h.Crash(t).Log
		if got := appendTo(t, log, change(topicA, 1)); got.Seq != 2 || got.Repeated != f.Persisted {
			t.Fatalf("repeated: got %+v, want number 2, Repeated %v", got, f.Persisted)
		}
		wantKept(t, log, topicA, 1, 2)
	})
	faults(t, "Append without an interval", open, func(t *testing.T, h Harness, f *Fault) {
		_, err := FaultyLog{h.Log, f}.Append(t.Context(), plain(topicA, "x"), uuid.New(), start)
		wantError(t, err, delivery.ErrUnavailable)
		log := h.Crash(t).Log
		appendTo(t, log, plain(topicA, "x"))
		if f.Persisted {
			wantKept(t, log, topicA, 1, 2)
		} else {
			wantKept(t, log, topicA, 1)
		}
	})
	faults(t, "Trim", open, func(t *testing.T, h Harness, f *Fault) {
		appendMany(t, h.Log, topicA, 3)
		err := FaultyLog{h.Log, f}.Trim(t.Context(), topicA, 3, start.Add(time.Hour))
		wantError(t, err, delivery.ErrUnavailable)
		log := h.Crash(t).Log
		wantHead(t, log, topicA, 3)
		must(t, log.Trim(t.Context(), topicA, 3, start.Add(time.Hour)))
		wantKept(t, log, topicA, 3)
	})
}

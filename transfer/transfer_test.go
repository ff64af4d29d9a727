package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
	"carillon/topic"
	"carillon/transfer"
)

// Everything that an engine keeps comes back from another: the second export is
// the first, byte for byte.
func TestRoundTrip(t *testing.T) {
	from, to := memory(t), memory(t)
	fill(t, from, 200)
	first := export(t, from)
	s := load(t, to, first)
	equalStreams(t, export(t, to), first)
	want := transfer.Counts{Topics: 3, Notifications: 9, Requests: 100, Pings: 3, Subscriptions: 201, Gaps: 40, Sources: 3}
	if s.Counts != want || s.Bytes != int64(len(first)) || s.Engine != "test" || s.Hub != "1" || !s.Exported.Equal(noon) {
		t.Errorf("the summary is %+v; want %v and %d bytes", s, want, len(first))
	}
}

// The target goes on as the source would have: the next notification of each subscription, the
// numbers, and the memory of the last publications.
func TestTheTargetGoesOn(t *testing.T) {
	from, to := memory(t), memory(t)
	fill(t, from, 10)
	load(t, to, export(t, from))
	old, moved := read(t, from.Log, bells, 1), read(t, to.Log, bells, 1)
	if len(old) != 8 || len(moved) != len(old) {
		t.Fatalf("%d notifications came of %d", len(moved), len(old))
	}
	for i := range old {
		if moved[i].Seq != old[i].Seq || moved[i].After != old[i].After || moved[i].ID != old[i].ID || !bytes.Equal(moved[i].Body, old[i].Body) {
			t.Errorf("notification %d became %d, after %d", old[i].Seq, moved[i].Seq, moved[i].After)
		}
	}
	again := content(silent, 2)
	got, err := to.Log.Append(t.Context(), again, uuid.New(), noon)
	if err != nil || !got.Repeated || got.Seq != 12 {
		t.Errorf("the publication that was last, again: %+v, %v; want it known", got, err)
	}
	other := content(silent, 5)
	got, err = to.Log.Append(t.Context(), other, uuid.New(), noon)
	if err != nil || got.Seq <= 12 || got.Previous != again.Until {
		t.Errorf("another publication: %+v, %v; want a number above 12 and the interval that it goes on from", got, err)
	}
}

// Publications and deliveries during an export do not make it claim notifications that it does not
// have: the target would give out those numbers again.
func TestExportOfAnEngineInUse(t *testing.T) {
	from := memory(t)
	fill(t, from, 1)
	busy := from.Source
	busy.Cursors, busy.Log = ahead{busy.Cursors}, growing{busy.Log}
	var out bytes.Buffer
	_, err := transfer.Export(t.Context(), busy, &out, transfer.ExportConfig{})
	must(t, err)
	to := memory(t)
	load(t, to, out.Bytes())
	m := only(t, to.Cursors, subscription.NewID(silent, "https://callback.example/silent"))
	if m.ReplayNext != 11 || m.ReplayLast != 12 {
		t.Errorf("it gets %d to %d again; the log in the stream ends at 12", m.ReplayNext, m.ReplayLast)
	}
	if m.Settled != 12 || m.Start != 12 {
		t.Errorf("the subscription stands at %d, start %d; the log in the stream ends at 12", m.Settled, m.Start)
	}
	gaps, err := to.Cursors.Gaps(t.Context(), m.ID, 10)
	must(t, err)
	if len(gaps) != 1 || gaps[0].First != 12 || gaps[0].Last != 12 {
		t.Errorf("its gaps are %+v; want one, of 12 alone", gaps)
	}
}

// ahead shows subscriptions that have come further since the logs were read.
type ahead struct{ delivery.Cursors }

func (a ahead) Members(ctx context.Context, s subscription.Shard) iter.Seq2[delivery.Member, error] {
	return func(yield func(delivery.Member, error) bool) {
		for m, err := range a.Cursors.Members(ctx, s) {
			if m.Topic == silent {
				m.Start, m.Settled, m.ReplayNext, m.ReplayLast = 20, 22, 11, 21
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// growing is published to, and trimmed, as soon as the states of its topics are known.
type growing struct{ delivery.Log }

func (g growing) Topics(ctx context.Context) iter.Seq2[delivery.TopicState, error] {
	return func(yield func(delivery.TopicState, error) bool) {
		for t, err := range g.Log.Topics(ctx) {
			if err == nil {
				_, err = g.Append(ctx, content(t.Topic, 7), uuid.New(), noon)
			}
			if err == nil && t.Topic == towers {
				_, err = g.Trim(ctx, towers, t.Head+1, noon.Add(time.Hour))
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func (a ahead) Gaps(_ context.Context, id subscription.ID, _ int) ([]delivery.Gap, error) {
	if id != subscription.NewID(silent, "https://callback.example/silent") {
		return nil, nil
	}
	return []delivery.Gap{
		{Subscription: id, First: 21, Last: 21, Reason: delivery.GapGivenUp, At: noon},
		{Subscription: id, First: 12, Last: 14, Reason: delivery.GapGivenUp, At: noon},
	}, nil
}

func only(t *testing.T, cursors delivery.Cursors, id subscription.ID) delivery.Member {
	t.Helper()
	for m, err := range cursors.Members(t.Context(), subscription.ShardOf(id)) {
		must(t, err)
		if m.ID == id {
			return m
		}
	}
	t.Fatalf("there is no subscription %s", id)
	return delivery.Member{}
}

// A target that keeps anything at all is left as it is.
func TestRefusesATargetThatIsNotEmpty(t *testing.T) {
	from := memory(t)
	fill(t, from, 3)
	stream := export(t, from)
	for name, put := range map[string]func(transfer.Engine) error{
		"a subscription": func(e transfer.Engine) error {
			return e.Target.PutMembers(context.Background(), []delivery.Member{member(towers, "https://x.example/", 0, 0)})
		},
		"a request": func(e transfer.Engine) error {
			return e.Subscriptions.Submit(context.Background(), subscription.Request{
				ID: subscription.NewID(towers, "https://x.example/"), Token: uuid.New(), Mode: subscription.ModeSubscribe,
				Topic: towers, Callback: "https://x.example/", Lease: time.Hour, Received: noon,
			})
		},
		"a ping": func(e transfer.Engine) error {
			_, err := e.Pings.Ping(context.Background(), []topic.Address{topic.Parse(towers)})
			return err
		},
		"a log": func(e transfer.Engine) error {
			_, err := e.Log.Append(context.Background(), content(towers, 1), uuid.New(), noon)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := memory(t)
			must(t, put(to))
			before := export(t, to)
			_, err := transfer.Import(t.Context(), bytes.NewReader(stream), to, transfer.ImportConfig{})
			if !errors.Is(err, transfer.ErrNotEmpty) {
				t.Errorf("err = %v", err)
			}
			equalStreams(t, export(t, to), before)
		})
	}
}

// An import that ended anywhere is repeated with Merge, and all is as after one
// that did not.
func TestRepeatedImport(t *testing.T) {
	from := memory(t)
	fill(t, from, 50)
	stream := export(t, from)
	lines := bytes.SplitAfter(stream, []byte("\n"))
	for at := 1; at < len(lines); at += 1 + at/3 {
		to := memory(t)
		_, err := transfer.Import(t.Context(), bytes.NewReader(bytes.Join(lines[:at], nil)), to, transfer.ImportConfig{})
		if !errors.Is(err, transfer.ErrCutOff) {
			t.Fatalf("cut off after line %d: %v", at, err)
		}
		for range 2 {
			_, err = transfer.Import(t.Context(), bytes.NewReader(stream), to, transfer.ImportConfig{Merge: true})
			if err != nil {
				t.Fatalf("again, after %d lines: %v", at, err)
			}
			equalStreams(t, export(t, to), stream)
		}
	}
}

// A target that fails on any of its calls leaves an import that can be repeated.
func TestRepeatedAfterTrouble(t *testing.T) {
	from := memory(t)
	fill(t, from, 700)
	stream := export(t, from)
	for calls, failed := 0, true; failed; calls++ {
		to := memory(t)
		broken := to
		broken.Target = &failing{to.Target, calls}
		_, err := transfer.Import(t.Context(), bytes.NewReader(stream), broken, transfer.ImportConfig{})
		failed = err != nil
		if failed && !errors.Is(err, delivery.ErrUnavailable) {
			t.Fatalf("the error of the engine became %v", err)
		}
		if _, err = transfer.Import(t.Context(), bytes.NewReader(stream), to, transfer.ImportConfig{Merge: true}); err != nil {
			t.Fatal(err)
		}
		equalStreams(t, export(t, to), stream)
		if !failed && calls < 7 {
			t.Errorf("only %d calls were made to fail", calls)
		}
	}
}

// failing fails after so many calls, each of which takes effect.
type failing struct {
	transfer.Target
	left int
}

func (f *failing) after(err error) error {
	if f.left--; f.left < 0 {
		return errors.Join(err, delivery.ErrUnavailable)
	}
	return err
}

func (f *failing) Empty(ctx context.Context) (bool, error) {
	empty, err := f.Target.Empty(ctx)
	return empty, f.after(err)
}

func (f *failing) PutMembers(ctx context.Context, m []delivery.Member) error {
	return f.after(f.Target.PutMembers(ctx, m))
}

func (f *failing) PutGaps(ctx context.Context, g []delivery.Gap) error {
	return f.after(f.Target.PutGaps(ctx, g))
}

func (f *failing) PutTopics(ctx context.Context, s []delivery.TopicState) error {
	return f.after(f.Target.PutTopics(ctx, s))
}

func (f *failing) PutNotifications(ctx context.Context, n []*delivery.Notification) error {
	return f.after(f.Target.PutNotifications(ctx, n))
}

func TestAContextThatEndsEndsBoth(t *testing.T) {
	from, to := memory(t), memory(t)
	fill(t, from, 3)
	stream := export(t, from)
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(p transfer.Progress) {
		if p.Notifications == 2 {
			cancel()
		}
	}
	_, err := transfer.Import(ctx, bytes.NewReader(stream), to, transfer.ImportConfig{Progress: stop})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the import: %v", err)
	}
	_, err = transfer.Export(ctx, from.Source, &bytes.Buffer{}, transfer.ExportConfig{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the export: %v", err)
	}
}

// Secrets are in the stream, because signatures must go on, and nowhere else.
func TestSecretsAreCarriedAndNotTold(t *testing.T) {
	from := memory(t)
	m := member(towers, "https://x.example/", 0, 0)
	m.Secret = "tenor bell"
	must(t, from.Target.PutMembers(t.Context(), []delivery.Member{m}))
	stream := export(t, from)
	if !bytes.Contains(stream, []byte(`"secret":"tenor bell"`)) {
		t.Errorf("the secret is not in the stream:\n%s", stream)
	}
	broken := bytes.Replace(stream, []byte(`"settled":0`), []byte(`"settled":-1`), 1)
	_, err := transfer.Import(t.Context(), bytes.NewReader(broken), memory(t), transfer.ImportConfig{})
	if err == nil || strings.Contains(err.Error(), "tenor") {
		t.Errorf("err = %v; want one that does not tell the secret", err)
	}
}

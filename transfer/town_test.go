package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/source"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
	"carillon/transfer"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)

// memory is an empty store in memory, with its parts as an Engine.
func memory(t testing.TB) transfer.Engine {
	t.Helper()
	db, err := pebblestore.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return transfer.Engine{
		Source: transfer.Source{Subscriptions: db.Subscriptions(), Cursors: db.Cursors(), Log: db.Log(), Pings: db.Pings(), Sources: db.Sources()},
		Target: db.Restore(),
	}
}

// content is a publication of any bytes.
func content(topicURL string, n int) delivery.Publication {
	body := make([]byte, n*37%500)
	for i := range body {
		body[i] = byte(i * n)
	}
	p := delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "application/octet-stream", Body: body}
	switch n % 3 {
	case 1:
		p.ContentType, p.Links = "text/x-\xff\xfe", []string{`<https://a.example/?b&c="d">; rel="resourcesync"`, "<x>; t=\"\x80\""}
	case 2:
		p.From, p.Until = fmt.Sprintf("2026-01-01T00:00:%02dZ", n%60), fmt.Sprintf("2026-01-01T00:00:%02dZ", (n+1)%60)
	}
	return p
}

// notification is one with a place in a log of the test's own making.
func notification(topic string, seq, after delivery.Seq) *delivery.Notification {
	return &delivery.Notification{
		Publication: content(topic, int(seq%1000)), ID: uuid.New(), Seq: seq, After: after,
		Accepted: noon.Add(time.Duration(seq % 100_000)),
	}
}

// lastOf is what a log remembers of its last notification.
func lastOf(n *delivery.Notification) delivery.Last {
	return delivery.Last{ID: n.ID, Until: n.Until, Digest: n.Digest()}
}

func member(topic, callback string, start, settled delivery.Seq) delivery.Member {
	return delivery.Member{
		Subscription: subscription.Subscription{
			ID: subscription.NewID(topic, callback), Topic: topic, Callback: callback, Secret: "s\x00\xffecret",
			Start: uint64(start), Lease: 240*time.Hour + 3, Expires: noon.Add(240 * time.Hour), Created: noon,
		},
		Position: delivery.Position{Settled: settled},
	}
}

const (
	bells  = "https://source.example/bells?a=1&b=%7Echime" // not in the form to compare by
	towers = "https://source.example/towers"
	silent = "https://source.example/silent"
)

// fill puts every kind of record into an empty engine: numbers with holes, a log
// that is trimmed at its beginning and one that is trimmed away, retries, gaps,
// requests, pings, strings of any bytes.
func fill(t testing.TB, e transfer.Engine, subscribers int) {
	t.Helper()
	ctx := context.Background()
	first := notification(bells, 3, 2)
	log := []*delivery.Notification{first}
	for _, seq := range []delivery.Seq{4, 5, 900, 901, 1 << 40, 1<<40 + 1, delivery.MaxSeq - 100} {
		log = append(log, notification(bells, seq, log[len(log)-1].Seq))
	}
	towersOnly := notification(towers, 7, 0)
	gone := notification(silent, 12, 11)
	gone.Publication = content(silent, 2) // covers an interval: its digest is remembered
	must(t, e.Target.PutNotifications(ctx, append(log, towersOnly)))
	must(t, e.Target.PutTopics(ctx, []delivery.TopicState{
		{Topic: topic.Key(bells), First: 3, Head: log[len(log)-1].Seq, Last: lastOf(log[len(log)-1])},
		{Topic: towers, First: 7, Head: 7, Last: lastOf(towersOnly)},
		{Topic: silent, First: 13, Head: 12, Last: lastOf(gone)},
	}))
	var members []delivery.Member
	for i := range subscribers {
		m := member(bells, fmt.Sprintf("https://callback.example/%d?x=1&y=<2>", i), 3, []delivery.Seq{3, 5, 901, 1 << 40}[i%4])
		switch i % 5 {
		case 1:
			m.Position = delivery.Position{
				Settled: 5, Failures: 7, NextAttempt: noon.Add(time.Hour + 1), LastFailure: delivery.ClassServerError, LastStatus: 503,
			}
		case 2:
			m.Position = delivery.Position{
				Settled: 4, Failures: 1, LastFailure: delivery.ClassTimeout, ReplayNext: 3, ReplayLast: 4,
			}
		case 3:
			m.Secret = ""
		}
		members = append(members, m)
	}
	members = append(members, member(silent, "https://callback.example/silent", 12, 12))
	must(t, e.Target.PutMembers(ctx, members))
	var gaps []delivery.Gap
	for i, m := range members[:min(20, len(members))] {
		gaps = append(
			gaps,
			delivery.Gap{Subscription: m.ID, First: 1, Last: 2, Reason: delivery.GapTrimmed, At: noon},
			delivery.Gap{
				Subscription: m.ID, First: 3, Last: delivery.Seq(3 + i),
				Reason: delivery.GapGivenUp, Failure: delivery.ClassTLS, At: noon.Add(9),
			},
		)
		if i%2 == 0 {
			gaps[len(gaps)-1].Replayed = noon.Add(time.Hour + 5)
		}
	}
	must(t, e.Target.PutGaps(ctx, gaps))
	fillRequests(t, e)
	for i := range 3 {
		must(t, e.Sources.Add(ctx, registered(i)))
	}
}

// registered is the i-th Source.
func registered(i int) source.Source {
	return source.Source{
		Name: fmt.Sprintf("source-%d", i), Prefixes: []string{"https://source.example/", fmt.Sprintf("https://%d.example/<&>", i)},
		TokenHash: source.Token(fmt.Sprint(i)).Hash(), Created: noon.Add(time.Duration(i)), Issued: noon.Add(time.Hour),
	}
}

func fillRequests(t testing.TB, e transfer.Engine) {
	t.Helper()
	ctx := context.Background()
	for i := range 100 {
		callback := fmt.Sprintf("https://callback.example/new/%d", i)
		r := subscription.Request{
			ID: subscription.NewID(towers, callback), Token: uuid.New(), Mode: subscription.ModeSubscribe, Topic: towers,
			Callback: callback, Secret: "\xc3(", Lease: time.Hour + 7, Received: noon.Add(time.Duration(i)),
		}
		if i%3 == 0 {
			r.Mode, r.Lease, r.Secret = subscription.ModeUnsubscribe, 0, ""
		}
		if i%2 == 0 {
			r.VerifyToken = subscription.Secret(fmt.Sprintf("token %d \xff", i))
		}
		if i%5 == 0 {
			r.Since, r.Start = r.Received.Add(-time.Hour), uint64(i%10)
		}
		must(t, e.Subscriptions.Submit(ctx, r))
	}
	_, err := e.Pings.Ping(ctx, []topic.Address{topic.Parse(towers), topic.Parse(silent), topic.Parse("https://source.example/%7Enew")})
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// export is the engine's stream, always with the same header.
func export(t testing.TB, e transfer.Engine) []byte {
	t.Helper()
	var out bytes.Buffer
	_, err := transfer.Export(t.Context(), e.Source, &out, transfer.ExportConfig{Time: noon, Hub: "1", Engine: "test"})
	must(t, err)
	return out.Bytes()
}

func load(t testing.TB, e transfer.Engine, stream []byte) transfer.Summary {
	t.Helper()
	s, err := transfer.Import(t.Context(), bytes.NewReader(stream), e, transfer.ImportConfig{})
	must(t, err)
	return s
}

// equalStreams compares two exports line by line.
func equalStreams(t testing.TB, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("line %d of the streams is\n%.400s\nand should be\n%.400s", i+1, a[i], b[i])
		}
	}
	t.Fatalf("the streams have %d lines and %d", len(a), len(b))
}

// read lists a log from one number on.
func read(t testing.TB, log delivery.Log, topicURL string, from delivery.Seq) (all []*delivery.Notification) {
	t.Helper()
	for {
		n, err := log.Read(t.Context(), topic.Key(topicURL), from)
		if errors.Is(err, delivery.ErrEndOfLog) {
			return all
		}
		must(t, err)
		all, from = append(all, n), n.Seq+1
	}
}

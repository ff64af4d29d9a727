// Package transfertest moves a store whose keys are of an earlier form, on every engine. Only
// tests use it.
package transfertest

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/source"
	"carillon/subscription"
	"carillon/transfer"
)

// DB is an engine's store: its parts.
type DB[S subscription.Store, C delivery.Cursors, L delivery.Log, P delivery.Pings, O source.Store, R transfer.Target] interface {
	Subscriptions() S
	Cursors() C
	Log() L
	Pings() P
	Sources() O
	Restore() R
	FormerKeys() bool
}

// Engine returns the parts of the store.
func Engine[S subscription.Store, C delivery.Cursors, L delivery.Log, P delivery.Pings, O source.Store, R transfer.Target](
	db DB[S, C, L, P, O, R],
) transfer.Engine {
	return transfer.Engine{
		Source: transfer.Source{
			Subscriptions: db.Subscriptions(), Cursors: db.Cursors(), Log: db.Log(), Pings: db.Pings(), Sources: db.Sources(),
			FormerKeys: db.FormerKeys(),
		},
		Target: db.Restore(),
	}
}

// The topics: one in three spellings, and one in a spelling of today.
const (
	iri   = "https://source.example/café/"
	uri   = "https://source.example/caf%C3%A9/"
	shout = "HTTPS://source.example/caf%C3%A9/"
	plain = "https://source.example/plain/"
)

// FormerRecords is how many records of PutFormer have a key of an earlier form: two logs, and
// of subscriptions and requests those of the spellings, and of an IRI as callback.
const FormerRecords = 2 + 4 + 1

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// PutFormer puts logs, subscriptions, a gap and a request under the keys of
// subscription.FormerKey. The engine takes them so.
func PutFormer(t *testing.T, e transfer.Engine) {
	t.Helper()
	ctx := t.Context()
	var all []*delivery.Notification
	for topic, count := range map[string]delivery.Seq{iri: 3, uri: 2, shout: 4, plain: 1} {
		for seq := delivery.Seq(1); seq <= count; seq++ {
			all = append(all, &delivery.Notification{
				Publication: delivery.Publication{Topic: topic, ContentType: "text/plain", Body: body(topic, seq)},
				ID:          uuid.New(), Seq: seq, After: seq - 1, Accepted: noon,
			})
		}
	}
	must(t, e.Target.PutNotifications(ctx, all))
	must(t, e.Target.PutMembers(ctx, []delivery.Member{
		member(iri, "https://a.example/", 1, 2),   // owed iri 3
		member(uri, "https://b.example/", 0, 0),   // owed uri 1 and 2
		member(shout, "https://c.example/", 0, 4), // owed nothing
		member(iri, "https://twice.example/", 0, 3),
		member(uri, "https://twice.example/", 0, 1), // is the same: owed uri 2
		member(plain, "https://ü.example/ü", 0, 0),
		member(plain, "https://d.example/", 0, 1),
	}))
	must(t, e.Target.PutGaps(ctx, []delivery.Gap{
		{Subscription: formerID(iri, "https://a.example/"), First: 2, Last: 2, Reason: delivery.GapGivenUp, At: noon},
	}))
	must(t, e.Subscriptions.Submit(ctx, subscription.Request{
		ID: formerID(shout, "https://e.example/"), Token: uuid.New(), Mode: subscription.ModeSubscribe, Topic: shout,
		Callback: "https://e.example/", Lease: time.Hour, Received: noon, Since: noon, Start: 3,
	}))
}

// Export writes the engine's state.
func Export(t *testing.T, e transfer.Engine, w io.Writer) {
	t.Helper()
	_, err := transfer.Export(t.Context(), e.Source, w, transfer.ExportConfig{})
	must(t, err)
}

// WantFormer imports the stream of what PutFormer has put into an empty engine, and checks what is there.
func WantFormer(t *testing.T, e transfer.Engine, stream io.Reader) {
	t.Helper()
	ctx := t.Context()
	_, err := transfer.Import(ctx, stream, e, transfer.ImportConfig{})
	must(t, err)
	// The keys in order: of shout, uri, iri.
	next := delivery.Seq(1)
	for _, log := range []struct {
		topic string
		count delivery.Seq
	}{{shout, 4}, {uri, 2}, {iri, 3}} {
		for seq := delivery.Seq(1); seq <= log.count; seq++ {
			n, err := e.Log.Read(ctx, iri, next)
			must(t, err)
			if n.Seq != next || n.After != next-1 || n.Topic != log.topic || string(n.Body) != string(body(log.topic, seq)) {
				t.Errorf("number %d is %+v, want %s", next, n, body(log.topic, seq))
			}
			next++
		}
	}
	if _, err := e.Log.Read(ctx, iri, next); !errors.Is(err, delivery.ErrEndOfLog) {
		t.Errorf("behind the log: error %v", err)
	}
	want := map[subscription.ID]struct {
		topic          string
		start, settled delivery.Seq
	}{
		subscription.NewID(iri, "https://a.example/"):     {iri, 7, 8},
		subscription.NewID(iri, "https://b.example/"):     {uri, 4, 4},
		subscription.NewID(iri, "https://c.example/"):     {shout, 0, 4},
		subscription.NewID(iri, "https://twice.example/"): {uri, 4, 5},
		subscription.NewID(plain, "https://ü.example/ü"):  {plain, 0, 0},
		subscription.NewID(plain, "https://d.example/"):   {plain, 0, 1},
	}
	found := 0
	for shard := range subscription.Shard(subscription.Shards) {
		for m, err := range e.Cursors.Members(ctx, shard) {
			must(t, err)
			found++
			w, known := want[m.ID]
			if !known || m.Topic != w.topic || m.Start != uint64(w.start) || m.Settled != w.settled || subscription.ShardOf(m.ID) != shard {
				t.Errorf("got %+v in shard %d, want %+v", m, shard, w)
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d subscriptions, want %d", found, len(want))
	}
	gaps, err := e.Cursors.Gaps(ctx, subscription.NewID(iri, "https://a.example/"), 10)
	if err != nil || len(gaps) != 1 || gaps[0].First != 8 || gaps[0].Last != 8 {
		t.Errorf("gaps: %+v, error %v; want one of 8", gaps, err)
	}
	r, err := e.Subscriptions.Request(ctx, subscription.NewID(uri, "https://e.example/"))
	if err != nil || r.Topic != shout || r.Start != 3 {
		t.Errorf("request: %+v, error %v", r, err)
	}
}

func body(topic string, seq delivery.Seq) []byte { return []byte(topic + " " + string(rune('0'+seq))) }

// formerID is the ID of a subscription whose topic or callback had another key.
func formerID(topic, callback string) subscription.ID {
	if subscription.Key(topic) == topic && subscription.Key(callback) == callback {
		return subscription.NewID(topic, callback)
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic+"\x00"+callback))
}

func member(topic, callback string, start, settled delivery.Seq) delivery.Member {
	expires := noon.Add(time.Hour)
	if topic == uri {
		expires = expires.Add(time.Hour) // the latest of twice
	}
	return delivery.Member{
		Subscription: subscription.Subscription{
			ID: formerID(topic, callback), Topic: topic, Callback: callback, Secret: "secret",
			Start: uint64(start), Lease: time.Hour, Expires: expires, Created: noon,
		},
		Position: delivery.Position{Settled: settled},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

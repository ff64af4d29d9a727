package pebblestore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/source"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
)

// The whole and the overwritten part in FuzzDamagedStore. The two subscriptions are of different
// topics.
const (
	wholeTopic  = "https://whole.example/change/"
	brokenTopic = "https://broken.example/change/"
	// kinds is how many kinds of record there are, from 0 on.
	kinds = 0x0e
)

func soundSub(topic string) subscription.Subscription {
	return subscription.Subscription{
		ID: subscription.NewID(topic, "https://destination.example/"), Topic: topic, Callback: "https://destination.example/",
		Secret: "secret", Start: 1, Lease: time.Hour, Expires: time.Unix(1e9, 0).UTC(), Created: time.Unix(1e8, 0).UTC(),
	}
}

// fillTwo stores one record of each kind of either topic.
func fillTwo(t testing.TB, db *pebblestore.DB) {
	t.Helper()
	ctx := context.Background()
	tenures := ownAll(t, db)
	for _, topicURL := range []string{wholeTopic, brokenTopic} {
		sub := soundSub(topicURL)
		r := subscription.Request{ID: sub.ID, Token: uuid.New(), Mode: subscription.ModeSubscribe, Topic: topicURL, Callback: sub.Callback}
		_, pinged := db.Pings().Ping(ctx, []topic.Address{topic.Parse(topicURL)})
		_, appended := db.Log().Append(
			ctx,
			delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "text/plain", Body: []byte("hello")},
			uuid.New(), time.Now(),
		)
		err := errors.Join(pinged, appended, db.Subscriptions().Submit(ctx, r), db.Subscriptions().Activate(ctx, r, sub),
			db.Subscriptions().Submit(ctx, r), db.Cursors().Save(ctx, []delivery.Batch{{
				Tenure:   tenures[subscription.ShardOf(sub.ID)],
				Advances: []delivery.Advance{{Subscription: sub.ID, Position: delivery.Position{Settled: 1}}},
				Gaps:     []delivery.Gap{{Subscription: sub.ID, First: 1, Last: 1, Reason: delivery.GapGivenUp}},
			}}), db.Sources().Add(ctx, sourceOf(topicURL)))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sourceOf is a Source that publishes to the topic. Its name has the topic's in it.
func sourceOf(topic string) source.Source {
	at := time.Unix(1e8, 0).UTC()
	return source.Source{Name: nameIn(topic), Prefixes: []string{topic}, TokenHash: source.Token(topic).Hash(), Created: at, Issued: at}
}

func nameIn(topic string) string { return strings.Split(topic, "/")[2] }

// FuzzDamagedStore puts any bytes in the place of a record, or under any key of its kind. The store
// opens, or reports that it is damaged. The whole part is served. Every call about the rest ends, with
// an error that its callers know.
func FuzzDamagedStore(f *testing.F) {
	for kind := range byte(kinds) {
		f.Add(kind, []byte(nil), []byte{1})
	}
	f.Add(byte(0x01), []byte("short"), []byte{})
	disk := vfs.NewMem()
	db, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: disk, MemTableBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	fillTwo(f, db)
	closeDB(f, db)
	whole, broken := keysOf(f, disk)
	f.Fuzz(func(t *testing.T, kind byte, suffix, record []byte) {
		kind %= kinds
		copied := vfs.NewMem()
		if _, err := vfs.Clone(disk, copied, "var/store", "var/store"); err != nil {
			t.Fatal(err)
		}
		key := append([]byte{kind}, suffix...)
		if len(suffix) == 0 && broken[kind] != nil {
			key = broken[kind]
		}
		withPebble(t, copied, "var/store", func(raw *pebble.DB) error { return raw.Set(key, record, pebble.Sync) })
		db, err := pebblestore.Open(pebblestore.Config{
			Dir: "var/store", FS: copied, MemTableBytes: 1 << 20, CacheBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			if !wholeStore(kind) {
				t.Errorf("key %x: the store does not open: %v", key, err)
			}
			return
		}
		defer closeDB(t, db)
		if !slices.Contains(whole, string(key)) {
			wantWhole(t, db)
		}
		askAll(t, db)
	})
}

// wholeStore reports whether a kind concerns the store as a whole: without it the store may not open.
func wholeStore(kind byte) bool { return kind == 0x00 || kind == 0x0a || kind == 0x0b }

// keysOf returns all keys that the store has because of the whole topic, and one of
// each kind that it has because of the other.
func keysOf(t testing.TB, disk vfs.FS) (whole []string, broken map[byte][]byte) {
	t.Helper()
	broken = make(map[byte][]byte)
	withPebble(t, disk, "var/store", func(raw *pebble.DB) error {
		it, err := raw.NewIter(nil)
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			if key := bytes.Clone(it.Key()); wholeStore(key[0]) || concerns(key, brokenTopic) {
				broken[key[0]] = key
			} else {
				whole = append(whole, string(key))
			}
		}
		return it.Close()
	})
	return whole, broken
}

// concerns reports whether a key is of the topic or of its subscription.
func concerns(key []byte, topicURL string) bool {
	sub, sum := soundSub(topicURL), sha256.Sum256([]byte(topic.Key(topicURL)))
	return bytes.Contains(key, sub.ID[:]) || bytes.Contains(key, sum[:16]) || bytes.Contains(key, []byte(nameIn(topicURL)))
}

// wantWhole holds that everything of the whole topic is served.
func wantWhole(t *testing.T, db *pebblestore.DB) {
	t.Helper()
	ctx, want := t.Context(), soundSub(wholeTopic)
	if got, err := db.Subscriptions().Get(ctx, want.ID); err != nil || got != want {
		t.Errorf("the subscription is %+v, error %v", got, err)
	}
	if got, err := db.Subscriptions().Request(ctx, want.ID); err != nil || got.Topic != wholeTopic {
		t.Errorf("the request is %+v, error %v", got, err)
	}
	if at, listed := positions(t, db)[want.ID]; !listed || at != 1 {
		t.Errorf("it stands at %d, listed %v", at, listed)
	}
	if got, err := db.Sources().Get(ctx, nameIn(wholeTopic)); err != nil || !got.Same(sourceOf(wholeTopic)) {
		t.Errorf("the Source is %+v, error %v", got, err)
	}
	if all, err := db.Sources().List(ctx); err != nil || !slices.ContainsFunc(all, sourceOf(wholeTopic).Same) {
		t.Errorf("the Sources are %+v, error %v", all, err)
	}
	if gaps, err := db.Cursors().Gaps(ctx, want.ID, 10); err != nil || len(gaps) != 1 {
		t.Errorf("the gaps are %v, error %v", gaps, err)
	}
	if n, err := db.Log().Read(ctx, wholeTopic, 1); err != nil || string(n.Body) != "hello" {
		t.Errorf("the log gives %+v, error %v", n, err)
	}
	topics, waiting := 0, 0
	for state, err := range db.Log().Topics(ctx) {
		if err == nil && state.Topic == topic.Key(wholeTopic) && state.Head == 1 {
			topics++
		}
	}
	for ping, err := range db.Pings().Waiting(ctx) {
		if err == nil && ping.Topic.String() == wholeTopic {
			waiting++
		}
	}
	if topics != 1 || waiting != 1 {
		t.Errorf("the topic is listed %d times and its ping %d times", topics, waiting)
	}
}

// askAll asks everything of the other topic, and changes it: each call ends, with an
// error that the rooms know.
func askAll(t *testing.T, db *pebblestore.DB) {
	t.Helper()
	ctx, sub := t.Context(), soundSub(brokenTopic)
	check := func(what string, err error) {
		t.Helper()
		for _, known := range []error{
			nil, pebblestore.ErrDamaged, source.ErrNotFound, subscription.ErrNotFound, subscription.ErrSuperseded, delivery.ErrEndOfLog, delivery.ErrFenced,
		} {
			if errors.Is(err, known) {
				return
			}
		}
		t.Errorf("%s: error %v", what, err)
	}
	_, err := db.Subscriptions().Get(ctx, sub.ID)
	check("get", err)
	_, err = db.Cursors().Gaps(ctx, sub.ID, 10)
	check("gaps", err)
	_, err = db.Log().Read(ctx, brokenTopic, 1)
	check("read", err)
	_, err = db.Log().Heads(ctx, []string{brokenTopic})
	check("heads", err)
	_, err = db.Log().Append(ctx, delivery.Publication{Topic: topic.Parse(brokenTopic), Body: []byte("x")}, uuid.New(), time.Now())
	check("append", err)
	_, err = db.Log().Shrink(ctx, brokenTopic, 1, delivery.MaxSeq, time.Now())
	check("shrink", err)
	_, err = db.Log().Trim(ctx, brokenTopic, 2, time.Now())
	check("trim", err)
	_, err = db.Sources().Get(ctx, nameIn(brokenTopic))
	check("get Source", err)
	check("replace Source", db.Sources().Replace(ctx, sourceOf(brokenTopic)))
	check("delete Source", db.Sources().Delete(ctx, nameIn(brokenTopic)))
	_, err = db.Pings().Fetched(ctx, delivery.Ping{Topic: topic.Parse(brokenTopic), Count: 1})
	check("fetched", err)
	check("save", db.Cursors().Save(ctx, []delivery.Batch{{
		Tenure:   ownAll(t, db)[subscription.ShardOf(sub.ID)],
		Advances: []delivery.Advance{{Subscription: sub.ID, Position: delivery.Position{Settled: 1}}},
	}}))
	requestsOfAll(t, db)
	expiredOfAll(t, db)
	r := subscription.Request{ID: sub.ID, Token: uuid.New(), Mode: subscription.ModeUnsubscribe}
	check("submit", db.Subscriptions().Submit(ctx, r))
	check("activate", db.Subscriptions().Activate(ctx, r, sub))
	if got, err := db.Subscriptions().Get(ctx, sub.ID); err != nil || got != sub {
		t.Errorf("subscribed anew it is %+v, error %v", got, err)
	}
	_, err = db.Subscriptions().Remove(ctx, sub)
	check("remove", err)
}

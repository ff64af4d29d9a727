package pebblestore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
)

// TestDamage cuts the records of one kind short, behind the store's back.
func TestDamage(t *testing.T) {
	good := subscription.NewID(topicURL, "https://destination.example/good")
	bad := subscription.NewID(topicURL, "https://destination.example/bad")
	for name, row := range map[string]struct {
		kind  byte
		check func(t *testing.T, db *pebblestore.DB)
	}{
		"subscription": {0x01, func(t *testing.T, db *pebblestore.DB) {
			_, err := db.Subscriptions().Get(t.Context(), bad)
			if !errors.Is(err, subscription.ErrNotFound) {
				t.Errorf("got error %v, want %v", err, subscription.ErrNotFound)
			}
			for m, err := range db.Cursors().Members(t.Context(), subscription.ShardOf(bad)) {
				t.Errorf("listed: %+v, error %v", m, err)
			}
			expired, err := db.Subscriptions().Expired(t.Context(), subscription.ShardOf(bad), time.Now(), 10)
			if len(expired) != 0 || err != nil {
				t.Errorf("expired: %v, error %v", expired, err)
			}
		}},
		"position": {0x02, func(t *testing.T, db *pebblestore.DB) {
			for m, err := range db.Cursors().Members(t.Context(), subscription.ShardOf(bad)) {
				if err != nil || m.Settled != 2 {
					t.Errorf("stands at %d, error %v; want its Start", m.Settled, err)
				}
			}
		}},
		"gap": {0x03, func(t *testing.T, db *pebblestore.DB) {
			gaps, err := db.Cursors().Gaps(t.Context(), bad, 10)
			if len(gaps) != 0 || err != nil {
				t.Errorf("gaps: %v, error %v", gaps, err)
			}
			for id, err := range db.Cursors().Gapped(t.Context(), subscription.ShardOf(bad)) {
				t.Errorf("it is said to have gaps: %s, error %v", id, err)
			}
		}},
		"request": {0x0c, func(t *testing.T, db *pebblestore.DB) {
			for r, err := range db.Subscriptions().Requests(t.Context(), subscription.ShardOf(good)) {
				t.Errorf("listed: %+v, error %v", r, err)
			}
			if r, err := db.Subscriptions().Request(t.Context(), good); !errors.Is(err, subscription.ErrNotFound) {
				t.Errorf("got %+v, error %v, want %v", r, err, subscription.ErrNotFound)
			}
			r := subscription.Request{ID: good, Token: uuid.New()}
			sub := subscription.Subscription{ID: good, Expires: time.Now()}
			if err := db.Subscriptions().Activate(t.Context(), r, sub); err != nil {
				t.Errorf("the request that it must have been is not settled: %v", err)
			}
			if err := db.Subscriptions().Activate(t.Context(), r, sub); !errors.Is(err, subscription.ErrSuperseded) {
				t.Errorf("a second time: got error %v, want %v", err, subscription.ErrSuperseded)
			}
		}},
		"topic": {0x06, func(t *testing.T, db *pebblestore.DB) {
			_, err := headOf(t.Context(), db, topicURL)
			wantDamaged(t, err)
			wantDamaged(t, appendOne(t.Context(), db, "x"))
			_, err = db.Log().State(t.Context(), topicURL)
			wantDamaged(t, err)
			for state, err := range db.Log().Topics(t.Context()) {
				t.Errorf("listed: %+v, error %v", state, err)
			}
		}},
		"notification": {0x07, func(t *testing.T, db *pebblestore.DB) {
			_, err := db.Log().Read(t.Context(), topicURL, 1)
			if !errors.Is(err, delivery.ErrEndOfLog) {
				t.Errorf("got error %v, want the end of the log", err)
			}
			if list, err := db.Log().Summaries(t.Context(), topicURL, 0, 9); len(list) != 0 || err != nil {
				t.Errorf("listed: %+v, error %v", list, err)
			}
			if s, err := db.Log().Summary(t.Context(), topicURL, 1); !errors.Is(err, delivery.ErrEndOfLog) {
				t.Errorf("got %+v, error %v, want the end of the log", s, err)
			}
		}},
		"body": {0x08, func(t *testing.T, db *pebblestore.DB) {
			_, err := db.Log().Read(t.Context(), topicURL, 1)
			if !errors.Is(err, delivery.ErrEndOfLog) {
				t.Errorf("got error %v, want the end of the log", err)
			}
		}},
		"ping": {0x09, func(t *testing.T, db *pebblestore.DB) {
			for ping, err := range db.Pings().Waiting(t.Context()) {
				t.Errorf("listed: %+v, error %v", ping, err)
			}
			if left, err := db.Pings().Fetched(t.Context(), delivery.Ping{Topic: topic.Parse(topicURL)}); left != nil || err != nil {
				t.Errorf("left %v, error %v", left, err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			db := openOn(t, disk)
			fill(t, db, good, bad)
			closeDB(t, db)
			cutShort(t, disk, row.kind)
			var log bytes.Buffer
			db, err := pebblestore.Open(pebblestore.Config{
				Dir: "var/store", FS: disk, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer closeDB(t, db)
			row.check(t, db)
			if !strings.Contains(log.String(), "kind="+name) {
				t.Errorf("the log does not tell of a damaged %s: %s", name, log.String())
			}
		})
	}
}

// TestDamagedCounts keeps the store closed: a count that began anew would repeat
// numbers that were given.
func TestDamagedCounts(t *testing.T) {
	for name, kind := range map[string]byte{"ping count": 0x0a, "epoch": 0x0b} {
		disk := vfs.NewMem()
		db := openOn(t, disk)
		ownAll(t, db)
		if _, err := db.Pings().Ping(t.Context(), []topic.Address{topic.Parse(topicURL)}); err != nil {
			t.Fatal(err)
		}
		closeDB(t, db)
		cutShort(t, disk, kind)
		_, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: disk})
		if !errors.Is(err, pebblestore.ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("got error %v, want %v and %q", err, pebblestore.ErrDamaged, name)
		}
	}
}

// TestActivateOverDamage makes a damaged subscription whole again.
func TestActivateOverDamage(t *testing.T) {
	disk := vfs.NewMem()
	db := openOn(t, disk)
	id := subscription.NewID(topicURL, "https://destination.example/")
	fill(t, db, subscription.ID{}, id)
	closeDB(t, db)
	cutShort(t, disk, 0x01)
	db = openOn(t, disk)
	r := subscription.Request{ID: id, Token: uuid.New()}
	sub := subscription.Subscription{ID: id, Topic: topicURL, Expires: time.Now().Add(time.Hour)}
	if err := errors.Join(db.Subscriptions().Submit(t.Context(), r), db.Subscriptions().Activate(t.Context(), r, sub)); err != nil {
		t.Fatal(err)
	}
	expired, err := db.Subscriptions().Expired(t.Context(), subscription.ShardOf(id), time.Now(), 10)
	if len(expired) != 0 || err != nil {
		t.Errorf("the old lease is still listed: %v, error %v", expired, err)
	}
}

func wantDamaged(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, pebblestore.ErrDamaged) {
		t.Errorf("got error %v, want %v", err, pebblestore.ErrDamaged)
	}
}

// fill stores one record of each kind: a request of one subscription and everything
// else of another, whose lease is over.
func fill(t *testing.T, db *pebblestore.DB, pending, active subscription.ID) {
	t.Helper()
	r := subscription.Request{ID: active, Token: uuid.New(), Topic: topicURL}
	sub := subscription.Subscription{ID: active, Topic: topicURL, Start: 2, Expires: time.Now().Add(-time.Hour)}
	_, pinged := db.Pings().Ping(t.Context(), []topic.Address{topic.Parse(topicURL)})
	err := errors.Join(pinged, appendOne(t.Context(), db, "body"),
		db.Subscriptions().Submit(t.Context(), r),
		db.Subscriptions().Activate(t.Context(), r, sub),
		db.Subscriptions().Submit(t.Context(), subscription.Request{ID: pending}),
		db.Cursors().Save(t.Context(), []delivery.Batch{{
			Tenure:   ownAll(t, db)[subscription.ShardOf(active)],
			Advances: []delivery.Advance{{Subscription: active, Position: delivery.Position{Settled: 5}}},
			Gaps:     []delivery.Gap{{Subscription: active, First: 3, Last: 4}},
		}}))
	if err != nil {
		t.Fatal(err)
	}
}

// cutShort takes the last byte of every record of the kind.
func cutShort(t *testing.T, disk vfs.FS, kind byte) {
	t.Helper()
	cut := 0
	withPebble(t, disk, "var/store", func(db *pebble.DB) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			if err := db.Set(it.Key(), it.Value()[:len(it.Value())-1], pebble.Sync); err != nil {
				return errors.Join(err, it.Close())
			}
			cut++
		}
		return it.Close()
	})
	if cut == 0 {
		t.Fatalf("there is no record of kind %d", kind)
	}
}

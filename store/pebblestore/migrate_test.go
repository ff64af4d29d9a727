package pebblestore_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// record is what lies in a store.
type record struct{ key, value []byte }

// layout1 reads the records of a store as the first layout had them.
func layout1(t *testing.T) (records []record) {
	t.Helper()
	text, err := os.ReadFile("testdata/layout1.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		k, keyErr := hex.DecodeString(key)
		v, valueErr := hex.DecodeString(value)
		if err := errors.Join(keyErr, valueErr); err != nil {
			t.Fatal(err)
		}
		records = append(records, record{k, v})
	}
	return records
}

// putRaw writes records behind the store's back.
func putRaw(t *testing.T, disk vfs.FS, records []record) {
	t.Helper()
	withPebble(t, disk, "var/store", func(db *pebble.DB) error {
		b := db.NewBatch()
		for _, r := range records {
			if err := b.Set(r.key, r.value, nil); err != nil {
				return err
			}
		}
		return b.Commit(pebble.Sync)
	})
}

// TestLayout1 opens a store of the first layout: all is there, also the second time.
func TestLayout1(t *testing.T) {
	disk := vfs.NewMem()
	putRaw(t, disk, layout1(t))
	for range 2 {
		var log bytes.Buffer
		db, err := pebblestore.Open(pebblestore.Config{
			Dir: "var/store", FS: disk, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		wantLayout1(t, db)
		closeDB(t, db)
		if strings.Contains(log.String(), "left out") {
			t.Errorf("it logs damage: %s", log.String())
		}
	}
	withPebble(t, disk, "var/store", func(db *pebble.DB) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{4}, UpperBound: []byte{5}})
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			t.Errorf("the record %x is left", it.Key())
		}
		format, closer, err := db.Get([]byte("\x00format"))
		if err != nil || string(format) != "\x01\x0ccarillon hub\x06" {
			t.Errorf("the format record is %q, error %v", format, err)
		}
		return errors.Join(it.Close(), closer.Close())
	})
}

// wantLayout1 checks what testdata/layout1.txt holds.
func wantLayout1(t *testing.T, db *pebblestore.DB) {
	t.Helper()
	at := time.Unix(1e9, 7).UTC()
	id := subscription.NewID(topic, "https://destination.example/0")
	members := membersOf(t, db)
	want := delivery.Member{
		Subscription: subscription.Subscription{
			ID: id, Topic: topic, Callback: "https://destination.example/0", Secret: "secret",
			Start: 1, Lease: time.Hour, Expires: at.Add(time.Hour), Created: at,
		},
		Position: delivery.Position{
			Settled: 2, Failures: 3, NextAttempt: at.Add(time.Minute), LastFailure: 2, LastStatus: 503,
		},
	}
	if len(members) != 1 || members[id] != want {
		t.Errorf("got %+v, want %+v", members, want)
	}
	gap := delivery.Gap{Subscription: id, First: 2, Last: 2, Reason: delivery.GapGivenUp, Failure: 2, At: at}
	if gaps, err := db.Cursors().Gaps(t.Context(), id, 10); err != nil || len(gaps) != 1 || gaps[0] != gap {
		t.Errorf("gaps: %+v, error %v", gaps, err)
	}
	for n, mode := range map[int]subscription.Mode{
		1: subscription.ModeSubscribe, 2: subscription.ModeUnsubscribe, 3: subscription.ModeSubscribe,
	} {
		callback := fmt.Sprintf("https://destination.example/%d", n)
		want := subscription.Request{
			ID: subscription.NewID(topic, callback), Token: uuid.MustParse("11111111-2222-4333-8444-555555555555"),
			Mode: mode, Topic: topic, Callback: callback, Secret: "secret", Lease: time.Hour, Received: at,
		}
		if got, err := db.Subscriptions().Request(t.Context(), want.ID); got != want || err != nil {
			t.Errorf("got %+v, error %v; want %+v", got, err, want)
		}
	}
	if count := requestsOfAll(t, db); count != 3 {
		t.Errorf("%d requests are listed, want 3", count)
	}
	if ended := expiredOfAll(t, db); ended != 1 {
		t.Errorf("%d leases are over, want 1", ended)
	}
	first := &delivery.Notification{
		Publication: delivery.Publication{Topic: topic, ContentType: "text/plain", Body: []byte("first")},
		ID:          uuid.MustParse("aaaaaaaa-2222-4333-8444-555555555551"), Seq: 1, Accepted: at,
	}
	second := &delivery.Notification{
		Publication: delivery.Publication{
			Topic: topic, ContentType: "application/xml", Links: []string{`<x>; rel="resourcesync"`},
			Body: []byte("second"), From: "2001", Until: "2002",
		},
		ID: uuid.MustParse("aaaaaaaa-2222-4333-8444-555555555552"), Seq: 2, After: 1, Accepted: at.Add(time.Second),
	}
	wantLog(t, db, topic, []*delivery.Notification{first, second})
	state := stateOf([]*delivery.Notification{first, second})
	if states := topicsOf(t, db); len(states) != 1 || states[0] != state {
		t.Errorf("got %+v, want %+v", states, state)
	}
	receipt, err := db.Log().Append(t.Context(), second.Publication, uuid.New(), at)
	if err != nil || !receipt.Repeated || receipt.ID != second.ID {
		t.Errorf("the last one again: got %+v, error %v", receipt, err)
	}
	for ping, err := range db.Pings().Waiting(t.Context()) {
		if want := (delivery.Ping{Topic: topic, Count: 1}); ping != want || err != nil {
			t.Errorf("got %+v, error %v; want %+v", ping, err, want)
		}
	}
	for shard, tenure := range ownAll(t, db) {
		if shard == 0 && tenure.Epoch < 2 {
			t.Errorf("got %+v, want a risen epoch", tenure)
		}
	}
}

// TestLayout1AfterACrash crashes the Open that moves many requests, before each of
// its syncs: the next one has them all.
func TestLayout1AfterACrash(t *testing.T) {
	disk := vfs.NewCrashableMem()
	records := layout1(t)
	const many = 130 // more than one batch
	for n := range many {
		id := subscription.NewID(topic, fmt.Sprint(n))
		records = append(records, record{append([]byte{4}, id[:]...), rawRequest(strings.Repeat("x", 10_000))})
	}
	putRaw(t, disk, records)
	var mu sync.Mutex
	var clones []*vfs.MemFS
	recording := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isSync(op) {
			mu.Lock()
			defer mu.Unlock()
			clones = append(clones, disk.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	}))
	db, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: recording, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	for i, clone := range clones {
		db, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: clone, MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
		if err != nil {
			t.Errorf("crash before sync %d: %v", i, err)
			continue
		}
		if count := requestsOfAll(t, db); count != many+3 {
			t.Errorf("crash before sync %d: %d requests are there, want %d", i, count, many+3)
		}
		closeDB(t, db)
	}
	if len(clones) < 5 {
		t.Errorf("only %d syncs were seen", len(clones))
	}
}

// rawRequest is the record of a request with the callback.
func rawRequest(callback string) []byte {
	b := append([]byte{1}, make([]byte, 16)...) // version, token
	for _, s := range []string{"subscribe", topic, callback, ""} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return append(b, 0, 0) // lease, time
}

package pebblestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
	"carillon/transfer"
)

var _ transfer.Target = (*pebblestore.Restore)(nil)

// restored is a log with holes, as one that comes from an engine whose numbers jump.
func restored(topicURL string) []*delivery.Notification {
	numbers := []delivery.Seq{3, 4, 1 << 40, 1<<40 + 1, delivery.MaxSeq - 2}
	all := make([]*delivery.Notification, len(numbers))
	for i, seq := range numbers {
		all[i] = &delivery.Notification{
			Publication: delivery.Publication{
				Topic: topic.Parse(topicURL), ContentType: "application/xml", Links: []string{`<x>; rel="resourcesync"`},
				Body: fmt.Appendf(nil, "body %d", i), From: fmt.Sprint(i), Until: fmt.Sprint(i + 1),
			},
			ID: uuid.New(), Seq: seq, Accepted: time.Unix(1e9, int64(i)).UTC(),
		}
		if i > 0 {
			all[i].After = numbers[i-1]
		} else {
			all[i].After = 1 // trimmed
		}
	}
	return all
}

// stateOf is what a log with these notifications says of itself.
func stateOf(all []*delivery.Notification) delivery.TopicState {
	last := all[len(all)-1]
	return delivery.TopicState{
		Topic: last.Topic.Key(), First: all[0].Seq, Head: last.Seq,
		Last: delivery.Last{ID: last.ID, Until: last.Until, Digest: last.Digest()},
	}
}

// wantLog reads the log from its beginning to its end.
func wantLog(t *testing.T, db *pebblestore.DB, topicURL string, want []*delivery.Notification) {
	t.Helper()
	from := delivery.Seq(0)
	for _, n := range want {
		got, err := db.Log().Read(t.Context(), topicURL, from)
		if err != nil || !reflect.DeepEqual(got, n) {
			t.Fatalf("from %d: got %.500s, error %v; want %.500s", from, fmt.Sprintf("%+v", got), err, fmt.Sprintf("%+v", n))
		}
		from = n.Seq + 1
	}
	if got, err := db.Log().Read(t.Context(), topicURL, from); !errors.Is(err, delivery.ErrEndOfLog) {
		t.Fatalf("from %d: got %+v, error %v; want the end of the log", from, got, err)
	}
}

// topicsOf lists the topics, and checks what is measured of their logs, which it
// leaves out.
func topicsOf(t *testing.T, db *pebblestore.DB) (states []delivery.TopicState) {
	t.Helper()
	for state, err := range db.Log().Topics(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		var want int64
		var oldest time.Time
		for n, err := db.Log().Read(t.Context(), state.Topic, 0); err == nil; n, err = db.Log().Read(t.Context(), state.Topic, n.Seq+1) {
			if want == 0 {
				oldest = n.Accepted
			}
			want += pebblestore.SizeOf(n)
		}
		if state.Bytes != want || !state.Oldest.Equal(oldest) {
			t.Errorf("%s takes %d bytes since %v, want %d since %v", state.Topic, state.Bytes, state.Oldest, want, oldest)
		}
		state.Bytes, state.Oldest = 0, time.Time{}
		states = append(states, state)
	}
	return states
}

// TestRestoreLog puts a log with holes, twice, and crashes: it reads as it was and
// goes on above its head.
func TestRestoreLog(t *testing.T) {
	w := newWorld(t, vfs.NewCrashableMem())
	all := restored(topicURL)
	for range 2 {
		put := w.db.Restore()
		err := errors.Join(put.PutNotifications(t.Context(), all),
			put.PutTopics(t.Context(), []delivery.TopicState{stateOf(all)}))
		if err != nil {
			t.Fatal(err)
		}
	}
	w.crash(t, 0, 0)
	wantLog(t, w.db, topicURL, all)
	if got := topicsOf(t, w.db); len(got) != 1 || got[0] != stateOf(all) {
		t.Errorf("got %+v, want %+v", got, stateOf(all))
	}
	last := all[len(all)-1]
	receipt, err := w.db.Log().Append(t.Context(), last.Publication, uuid.New(), time.Now())
	if want := (delivery.Receipt{ID: last.ID, Seq: last.Seq, Repeated: true, Previous: last.From}); receipt != want || err != nil {
		t.Errorf("the last one again: got %+v, error %v; want %+v", receipt, err, want)
	}
	next := delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte("next"), From: "5", Until: "6"}
	receipt, err = w.db.Log().Append(t.Context(), next, uuid.New(), time.Now())
	if err != nil || receipt.Seq != last.Seq+1 || receipt.Previous != last.Until {
		t.Fatalf("the next: got %+v, error %v; want %d", receipt, err, last.Seq+1)
	}
	if n, err := w.db.Log().Read(t.Context(), topicURL, receipt.Seq); err != nil || n.After != last.Seq {
		t.Errorf("the next: got %+v, error %v; want it after %d", n, err, last.Seq)
	}
	if _, err := w.db.Log().Trim(t.Context(), topicURL, last.Seq, time.Now()); err != nil {
		t.Fatal(err)
	}
	if n, err := w.db.Log().Read(t.Context(), topicURL, 0); err != nil || n.Seq != last.Seq {
		t.Errorf("trimmed: got %+v, error %v; want %d", n, err, last.Seq)
	}
}

// TestRestoreNumbersEnd: the numbers are used up, and said to be.
func TestRestoreNumbersEnd(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	state := delivery.TopicState{Topic: topicURL, Head: delivery.MaxSeq - 1}
	if err := db.Restore().PutTopics(t.Context(), []delivery.TopicState{state}); err != nil {
		t.Fatal(err)
	}
	if err := appendOne(t.Context(), db, "the last"); err != nil {
		t.Fatal(err)
	}
	if err := appendOne(t.Context(), db, "too many"); err == nil || !strings.Contains(err.Error(), "used up") {
		t.Errorf("got error %v", err)
	}
}

// TestRestoreHeads: a head is never lowered, be it by a state or by notifications.
func TestRestoreHeads(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	put := db.Restore()
	high := delivery.TopicState{
		Topic: topicURL, First: 8, Head: 7,
		Last: delivery.Last{ID: uuid.New(), Until: "u", Digest: [32]byte{1}},
	}
	low := delivery.TopicState{Topic: topicURL, Head: 6, Last: delivery.Last{ID: uuid.New()}}
	n := &delivery.Notification{Publication: delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte{}}, Seq: 5, After: 4}
	wantState := func(want delivery.TopicState) {
		t.Helper()
		if got := topicsOf(t, db); len(got) != 1 || got[0] != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
	for _, states := range [][]delivery.TopicState{{high}, {low}, {high, low}} {
		if err := put.PutTopics(t.Context(), states); err != nil {
			t.Fatal(err)
		}
		wantState(high) // nothing is kept: First = Head+1
	}
	if err := put.PutNotifications(t.Context(), []*delivery.Notification{n}); err != nil {
		t.Fatal(err)
	}
	high.First = 5
	wantState(high)
	n.Seq, n.After, n.ID = 9, 7, uuid.New()
	if err := put.PutNotifications(t.Context(), []*delivery.Notification{n}); err != nil {
		t.Fatal(err)
	}
	wantState(delivery.TopicState{Topic: topicURL, First: 5, Head: 9, Last: delivery.Last{ID: n.ID}})
}

// TestRestoreSpellings: topics are identified by their keys.
func TestRestoreSpellings(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	all := restored("https://source.example/%7Ea/")
	if err := db.Restore().PutNotifications(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	wantLog(t, db, "https://source.example/~a/", all)
}

// restoredMember is the n-th subscription, at a place of its own.
func restoredMember(n int) delivery.Member {
	callback := fmt.Sprintf("https://destination.example/%d", n)
	return delivery.Member{
		Subscription: subscription.Subscription{
			ID: subscription.NewID(topicURL, callback), Topic: topicURL, Callback: callback, Secret: "secret",
			Start: 2, Lease: time.Hour, Expires: time.Unix(int64(1e9+n), 5).UTC(), Created: time.Unix(1e8, 0).UTC(),
		},
		Position: delivery.Position{
			Settled: delivery.Seq(10 + n), Failures: 3, NextAttempt: time.Unix(2e9, 0).UTC(),
			LastFailure: 1, LastStatus: 503,
		},
	}
}

func membersOf(t *testing.T, db *pebblestore.DB) map[subscription.ID]delivery.Member {
	t.Helper()
	members := make(map[subscription.ID]delivery.Member)
	for s := range subscription.Shard(subscription.Shards) {
		for m, err := range db.Cursors().Members(t.Context(), s) {
			if err != nil {
				t.Fatal(err)
			}
			members[m.ID] = m
		}
	}
	return members
}

func TestRestoreMembers(t *testing.T) {
	w := newWorld(t, vfs.NewCrashableMem())
	const count = 300
	var members []delivery.Member
	var gaps []delivery.Gap
	for n := range count {
		m := restoredMember(n)
		members = append(members, m)
		gaps = append(gaps, delivery.Gap{
			Subscription: m.ID, First: 3, Last: 4, Reason: delivery.GapGivenUp, Failure: 2, At: time.Unix(5, 0).UTC(),
		})
	}
	stranger := delivery.Gap{Subscription: subscription.NewID(topicURL, "https://stranger.example/"), First: 1, Last: 1}
	// An earlier put, with what the next takes the place of.
	early := members[0]
	early.Expires, early.Settled = time.Unix(1, 0), 1000
	later := early
	later.Expires = time.Unix(3, 0)
	for _, put := range [][]delivery.Member{{early}, members, append([]delivery.Member{later}, members...)} {
		if err := w.db.Restore().PutMembers(t.Context(), put); err != nil {
			t.Fatal(err)
		}
		if err := w.db.Restore().PutGaps(t.Context(), append(gaps, stranger)); err != nil {
			t.Fatal(err)
		}
	}
	w.crash(t, 0, 0)
	got := membersOf(t, w.db)
	for i, m := range members {
		if got[m.ID] != m {
			t.Fatalf("got %+v, want %+v", got[m.ID], m)
		}
		if kept, err := w.db.Cursors().Gaps(t.Context(), m.ID, 10); err != nil || len(kept) != 1 || kept[0] != gaps[i] {
			t.Fatalf("gaps of %d: %+v, error %v", i, kept, err)
		}
	}
	if kept, err := w.db.Cursors().Gaps(t.Context(), stranger.Subscription, 10); err != nil || len(kept) > 0 {
		t.Errorf("of nobody: %+v, error %v", kept, err)
	}
	shard := subscription.ShardOf(early.ID)
	if subs, err := w.db.Subscriptions().Expired(t.Context(), shard, time.Unix(5, 0), 10); len(subs) > 0 || err != nil {
		t.Errorf("by its old lease: %+v, error %v", subs, err)
	}
	if ended := expiredOfAll(t, w.db); ended != count {
		t.Errorf("%d leases are over, want %d", ended, count)
	}
	closeDB(t, w.db)
	withPebble(t, w.fs, "var/store", func(db *pebble.DB) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{5}, UpperBound: []byte{6}})
		if err != nil {
			return err
		}
		ends := 0
		for ok := it.First(); ok; ok = it.Next() {
			ends++
		}
		if ends != count {
			t.Errorf("%d ends of leases are kept, want %d", ends, count)
		}
		return it.Close()
	})
}

// TestRestoreInParts: data too large for one batch arrives all the same.
func TestRestoreInParts(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	all := restored(topicURL)
	for i, n := range all {
		n.Body = bytes.Repeat([]byte{byte(i)}, 2<<20)
	}
	all[2].Body = bytes.Repeat([]byte{2}, 9<<20)
	if err := db.Restore().PutNotifications(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	wantLog(t, db, topicURL, all)
}

func TestRestoreRefuses(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	for name, n := range map[string]delivery.Notification{
		"no number":         {Seq: 0},
		"too great":         {Seq: delivery.MaxSeq + 1, After: 1},
		"after itself":      {Seq: 3, After: 3},
		"after a later one": {Seq: 3, After: 4},
	} {
		n.Topic = topic.Parse(topicURL)
		good := &delivery.Notification{Publication: n.Publication, Seq: 1}
		err := db.Restore().PutNotifications(t.Context(), []*delivery.Notification{good, &n})
		if err == nil || !strings.Contains(err.Error(), "sequence number") || !strings.Contains(err.Error(), topicURL) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	states := []delivery.TopicState{{Topic: topicURL, Head: 1}, {Topic: topicURL, Head: delivery.MaxSeq + 1}}
	if err := db.Restore().PutTopics(t.Context(), states); err == nil || !strings.Contains(err.Error(), "sequence number") {
		t.Errorf("a head that is too great: got error %v", err)
	}
	if empty, err := db.Restore().Empty(t.Context()); !empty || err != nil {
		t.Errorf("empty is %v, error %v: something of what was refused is there", empty, err)
	}
}

// restoreCalls are all methods.
func restoreCalls(db *pebblestore.DB) map[string]func(ctx context.Context) error {
	put := db.Restore()
	return map[string]func(ctx context.Context) error{
		"Empty":      func(ctx context.Context) error { _, err := put.Empty(ctx); return err },
		"PutMembers": func(ctx context.Context) error { return put.PutMembers(ctx, []delivery.Member{restoredMember(1)}) },
		"PutGaps": func(ctx context.Context) error {
			return put.PutGaps(ctx, []delivery.Gap{{Subscription: restoredMember(1).ID, First: 1, Last: 1}})
		},
		"PutTopics": func(ctx context.Context) error {
			return put.PutTopics(ctx, []delivery.TopicState{{Topic: topicURL, Head: 1}})
		},
		"PutNotifications": func(ctx context.Context) error { return put.PutNotifications(ctx, restored(topicURL)) },
	}
}

func TestRestoreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		db := openOn(t, disk)
		ended, end := context.WithCancel(t.Context())
		end()
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: pebblestore.DefaultMinFree - 1})
		time.Sleep(time.Minute)
		for name, call := range restoreCalls(db) {
			if err := call(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("%s when its context has ended: got error %v", name, err)
			}
			if err := call(t.Context()); name != "Empty" && !errors.Is(err, subscription.ErrUnavailable) {
				t.Errorf("%s on a disk that is nearly full: got error %v", name, err)
			}
		}
		if empty, err := db.Restore().Empty(t.Context()); !empty || err != nil {
			t.Errorf("empty is %v, error %v", empty, err)
		}
		closeDB(t, db)
		for name, call := range restoreCalls(db) {
			if err := call(t.Context()); !errors.Is(err, subscription.ErrUnavailable) {
				t.Errorf("%s after Close: got error %v", name, err)
			}
		}
	})
}

// TestEmpty: whatever is kept counts, and nothing else.
func TestEmpty(t *testing.T) {
	wantEmpty := func(db *pebblestore.DB, want bool) {
		t.Helper()
		if empty, err := db.Restore().Empty(t.Context()); empty != want || err != nil {
			t.Errorf("empty is %v, error %v; want %v", empty, err, want)
		}
	}
	for name, fill := range map[string]func(db *pebblestore.DB) error{
		"a request": func(db *pebblestore.DB) error {
			return db.Subscriptions().Submit(t.Context(), subscription.Request{ID: uuid.New()})
		},
		"a subscription": func(db *pebblestore.DB) error {
			return db.Restore().PutMembers(t.Context(), []delivery.Member{restoredMember(1)})
		},
		"a log": func(db *pebblestore.DB) error { return appendOne(t.Context(), db, "x") },
		"the state of a log": func(db *pebblestore.DB) error {
			return db.Restore().PutTopics(t.Context(), []delivery.TopicState{{Topic: topicURL, Head: 1}})
		},
		"a ping": func(db *pebblestore.DB) error {
			_, err := db.Pings().Ping(t.Context(), []topic.Address{topic.Parse(topicURL)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := openOn(t, vfs.NewMem())
			wantEmpty(db, true)
			if err := fill(db); err != nil {
				t.Fatal(err)
			}
			wantEmpty(db, false)
		})
	}
	t.Run("a hub that has done its work", func(t *testing.T) {
		db := openOn(t, vfs.NewMem())
		ownAll(t, db)
		pings, err := db.Pings().Ping(t.Context(), []topic.Address{topic.Parse(topicURL)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Pings().Fetched(t.Context(), pings[0]); err != nil {
			t.Fatal(err)
		}
		wantEmpty(db, true)
	})
}

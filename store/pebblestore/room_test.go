package pebblestore_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// TestGapsAreBounded: a subscription that is given up on again and again takes no
// more than 100 gaps' room.
func TestGapsAreBounded(t *testing.T) {
	db, err := pebblestore.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, db)
	id := subscription.NewID(topicURL, "https://destination.example/")
	r := subscription.Request{ID: id, Token: uuid.New()}
	if err := errors.Join(db.Subscriptions().Submit(t.Context(), r),
		db.Subscriptions().Activate(t.Context(), r, subscription.Subscription{ID: id})); err != nil {
		t.Fatal(err)
	}
	tenure := ownAll(t, db)[subscription.ShardOf(id)]
	for i := range 20 {
		var gaps []delivery.Gap
		for j := range 30 {
			seq := delivery.Seq(100*i + j)
			gaps = append(gaps, delivery.Gap{Subscription: id, First: seq, Last: seq})
		}
		if err := db.Cursors().Save(t.Context(), []delivery.Batch{{Tenure: tenure, Gaps: gaps}}); err != nil {
			t.Fatal(err)
		}
	}
	gaps, err := db.Cursors().Gaps(t.Context(), id, 1000)
	if err != nil || len(gaps) != 100 || gaps[0].First != 1929 {
		t.Errorf("%d gaps are kept, error %v; want the latest 100", len(gaps), err)
	}
}

// TestNothingIsLeftOfWhatEnded looks behind the store's back for records that would never be read
// again.
func TestNothingIsLeftOfWhatEnded(t *testing.T) {
	disk := vfs.NewMem()
	db := openOn(t, disk)
	id := subscription.NewID(topicURL, "https://destination.example/")
	fill(t, db, id, id)
	renewal := subscription.Request{ID: id, Token: uuid.New()}
	renewed := subscription.Subscription{ID: id, Expires: time.Now()}
	err := errors.Join(db.Subscriptions().Submit(t.Context(), renewal),
		db.Subscriptions().Activate(t.Context(), renewal, renewed))
	removed, removal := db.Subscriptions().Remove(t.Context(), renewed)
	if err := errors.Join(err, removal); err != nil || !removed {
		t.Fatalf("removed is %v, error %v", removed, err)
	}
	closeDB(t, db)
	withPebble(t, disk, "var/store", func(db *pebble.DB) error {
		it, err := db.NewIter(nil)
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			if bytes.Contains(it.Key(), id[:]) {
				t.Errorf("the record %x is left", it.Key())
			}
		}
		return it.Close()
	})
}

package pebblestore_test

import (
	"errors"
	"testing"

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
	id := subscription.NewID(topic, "https://destination.example/")
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

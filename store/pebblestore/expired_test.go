package pebblestore_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// leases are members of one shard whose leases end at these seconds.
func leases(ends ...int64) (members []delivery.Member) {
	m := restoredMember(0)
	for _, end := range ends {
		m.Expires = time.Unix(end, 0).UTC()
		members = append(members, m)
		m = neighbourOf(m, members)
	}
	return members
}

// neighbourOf is one of the same shard that is not among them.
func neighbourOf(of delivery.Member, members []delivery.Member) delivery.Member {
next:
	for n := 1; ; n++ {
		m := restoredMember(n)
		if subscription.ShardOf(m.ID) != subscription.ShardOf(of.ID) {
			continue
		}
		for _, other := range members {
			if m.ID == other.ID {
				continue next
			}
		}
		return m
	}
}

func put(t *testing.T, db *pebblestore.DB, members ...delivery.Member) {
	t.Helper()
	if err := db.Restore().PutMembers(t.Context(), members); err != nil {
		t.Fatal(err)
	}
}

// expiredAt are the seconds when the leases ended that are over by now.
func expiredAt(t *testing.T, db *pebblestore.DB, now int64, limit int) (ends []int64) {
	t.Helper()
	shard := subscription.ShardOf(restoredMember(0).ID)
	subs, err := db.Subscriptions().Expired(t.Context(), shard, time.Unix(now, 0), limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range subs {
		ends = append(ends, sub.Expires.Unix())
	}
	return ends
}

// TestExpiredGoesOn where it was, and goes back for what came since.
func TestExpiredGoesOn(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	members := leases(20, 30, 40, 10, 25)
	put(t, db, members[:3]...)
	expect := func(now int64, limit int, want ...int64) {
		t.Helper()
		got := expiredAt(t, db, now, limit)
		if len(got) != len(want) {
			t.Fatalf("at %d, of %d: got %d, want %d", now, limit, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("at %d, of %d: got %d, want %d", now, limit, got, want)
			}
		}
	}
	expect(50, 0)
	expect(50, 1, 20)
	expect(50, 1, 20) // it is not removed yet
	if removed, err := db.Subscriptions().Remove(t.Context(), members[0].Subscription); !removed || err != nil {
		t.Fatal(removed, err)
	}
	expect(50, 1, 30)
	expect(15, 5)
	put(t, db, members[3])
	expect(50, 5, 10, 30, 40)
	put(t, db, members[4])
	expect(50, 5, 10, 25, 30, 40)
	expect(15, 5, 10)
}

// TestExpiredMeanwhile finds the next time what was put in while it looked.
func TestExpiredMeanwhile(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	m := leases(20)[0]
	db.LookForExpired(subscription.ShardOf(m.ID), time.Unix(50, 0), func() { put(t, db, m) })
	if got := expiredAt(t, db, 50, 2); len(got) != 1 {
		t.Errorf("got %d, not the one that came while another look went over the index", got)
	}
	db.LookForExpired(subscription.ShardOf(m.ID), time.Unix(50, 0), func() {})
	if got := expiredAt(t, db, 50, 2); len(got) != 0 {
		t.Errorf("got %d from where nothing was seen", got)
	}
}

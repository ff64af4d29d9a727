package pebblestore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// TestStartLeavesTheCache: the records of all subscriptions that a start reads do not stay in memory,
// but later reads do.
func TestStartLeavesTheCache(t *testing.T) {
	const many, little = 40_000 / slowness, 4 << 20 / slowness
	cfg := pebblestore.Config{Dir: "store", FS: vfs.NewMem()}
	settle(t, cfg, many)
	db, err := pebblestore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, db)
	if found := countMembers(t, db); found != many {
		t.Fatalf("%d members of %d", found, many)
	}
	if cached := db.Cached(); cached > little {
		t.Errorf("%d bytes are cached after a start", cached)
	}
	for n := range many {
		if _, err := db.Subscriptions().Get(t.Context(), restoredMember(n).ID); err != nil {
			t.Fatal(err)
		}
	}
	if cached := db.Cached(); cached <= little {
		t.Errorf("%d bytes are cached after all was read again", cached)
	}
}

// BenchmarkStart opens a store with many subscriptions and reads all of them, as a
// start does.
func BenchmarkStart(b *testing.B) {
	for _, many := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) { benchmarkStart(b, many) })
	}
}

func benchmarkStart(b *testing.B, many int) {
	cfg := pebblestore.Config{Dir: b.TempDir()}
	settle(b, cfg, many)
	var opening, listing time.Duration
	for b.Loop() {
		began := time.Now()
		db, err := pebblestore.Open(cfg)
		if err != nil {
			b.Fatal(err)
		}
		opening += time.Since(began)
		began = time.Now()
		if found := countMembers(b, db); found != many {
			b.Fatalf("%d members of %d", found, many)
		}
		listing += time.Since(began)
		b.StopTimer()
		closeDB(b, db)
		b.StartTimer()
	}
	b.ReportMetric(float64(opening.Milliseconds())/float64(b.N), "ms/open")
	b.ReportMetric(float64(listing.Nanoseconds())/float64(b.N)/float64(many), "ns/member")
}

// settle makes a store with members.
func settle(b testing.TB, cfg pebblestore.Config, many int) {
	b.Helper()
	db, err := pebblestore.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer closeDB(b, db)
	const part = 10_000
	for n := 0; n < many; n += part {
		members := make([]delivery.Member, 0, part)
		for i := range part {
			members = append(members, restoredMember(n+i))
		}
		if err := db.Restore().PutMembers(b.Context(), members); err != nil {
			b.Fatal(err)
		}
	}
}

func countMembers(b testing.TB, db *pebblestore.DB) (n int) {
	b.Helper()
	for s := range subscription.Shard(subscription.Shards) {
		for range db.Subscriptions().Requests(b.Context(), s) {
			b.Fatal("a request")
		}
		for _, err := range db.Cursors().Members(b.Context(), s) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	return n
}

package pebblestore_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// TestSaveNeverMovesBack: neither from one call to the next nor within one, in
// whatever batch.
func TestSaveNeverMovesBack(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	m, other := restoredMember(0), neighbour(restoredMember(0))
	m.Position, other.Position = delivery.Position{Settled: 5}, delivery.Position{Settled: 5}
	if err := db.Restore().PutMembers(t.Context(), []delivery.Member{m, other}); err != nil {
		t.Fatal(err)
	}
	tenure := ownAll(t, db)[subscription.ShardOf(m.ID)]
	at := func(id subscription.ID, seq delivery.Seq, failures uint32) delivery.Batch {
		p := delivery.Position{Settled: seq, Failures: failures}
		return delivery.Batch{Tenure: tenure, Advances: []delivery.Advance{{Subscription: id, Position: p}}}
	}
	together := func(batches ...delivery.Batch) delivery.Batch {
		whole := delivery.Batch{Tenure: tenure}
		for _, b := range batches {
			whole.Advances = append(whole.Advances, b.Advances...)
		}
		return whole
	}
	for name, row := range map[string]struct {
		save []delivery.Batch
		want delivery.Position
	}{
		"back":                      {[]delivery.Batch{at(m.ID, 4, 1)}, m.Position},
		"where it was":              {[]delivery.Batch{at(m.ID, 5, 1)}, at(m.ID, 5, 1).Advances[0].Position},
		"forth and back":            {[]delivery.Batch{together(at(m.ID, 8, 1), at(m.ID, 7, 2))}, at(m.ID, 8, 1).Advances[0].Position},
		"forth and on":              {[]delivery.Batch{together(at(m.ID, 8, 1), at(m.ID, 9, 2))}, at(m.ID, 9, 2).Advances[0].Position},
		"twice the same, in order":  {[]delivery.Batch{together(at(m.ID, 8, 1), at(m.ID, 8, 2))}, at(m.ID, 8, 2).Advances[0].Position},
		"back in another batch":     {[]delivery.Batch{at(m.ID, 8, 1), at(m.ID, 7, 2)}, at(m.ID, 8, 1).Advances[0].Position},
		"with another between them": {[]delivery.Batch{at(m.ID, 8, 1), at(other.ID, 9, 0), at(m.ID, 7, 2)}, at(m.ID, 8, 1).Advances[0].Position},
	} {
		t.Run(name, func(t *testing.T) {
			if err := db.Restore().PutMembers(t.Context(), []delivery.Member{m, other}); err != nil {
				t.Fatal(err)
			}
			if err := db.Cursors().Save(t.Context(), row.save); err != nil {
				t.Fatal(err)
			}
			if got := membersOf(t, db)[m.ID].Position; got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

// neighbour is another member of the same shard.
func neighbour(of delivery.Member) delivery.Member {
	for n := 1; ; n++ {
		m := restoredMember(n)
		if m.ID != of.ID && subscription.ShardOf(m.ID) == subscription.ShardOf(of.ID) {
			return m
		}
	}
}

// TestSaveOverDamage takes the place of a position that cannot be read.
func TestSaveOverDamage(t *testing.T) {
	disk := vfs.NewMem()
	db := openOn(t, disk)
	m := restoredMember(0)
	if err := db.Restore().PutMembers(t.Context(), []delivery.Member{m}); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	cutShort(t, disk, 0x02)
	db = openOn(t, disk)
	want := delivery.Position{Settled: delivery.Seq(m.Start + 1)}
	err := db.Cursors().Save(t.Context(), []delivery.Batch{{
		Tenure:   ownAll(t, db)[subscription.ShardOf(m.ID)],
		Advances: []delivery.Advance{{Subscription: m.ID, Position: want}},
	}})
	if got := membersOf(t, db)[m.ID].Position; got != want || err != nil {
		t.Errorf("got %+v, error %v; want %+v", got, err, want)
	}
}

// BenchmarkSave writes what a flush does, 2,048 positions of 100,000, and compares
// it with writing them without a look at those that are stored.
func BenchmarkSave(b *testing.B) {
	db, err := pebblestore.Open(pebblestore.Config{Dir: "store", FS: vfs.NewMem()})
	if err != nil {
		b.Fatal(err)
	}
	defer closeDB(b, db)
	members := make([]delivery.Member, 100_000)
	for n := range members {
		members[n] = restoredMember(n)
	}
	if err := db.Restore().PutMembers(b.Context(), members); err != nil {
		b.Fatal(err)
	}
	tenures := ownAll(b, db)
	spent := func(save func(context.Context, []delivery.Batch) error, batches []delivery.Batch) time.Duration {
		began := time.Now()
		if err := save(b.Context(), batches); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	var saving, blind time.Duration
	seq := delivery.Seq(1e6)
	for b.Loop() {
		seq++
		batches := flushOf(members, tenures, seq)
		if seq%2 == 0 { // whoever comes second finds the blocks in the cache
			saving += spent(db.Cursors().Save, batches)
			blind += spent(db.SaveBlindly, batches)
		} else {
			blind += spent(db.SaveBlindly, batches)
			saving += spent(db.Cursors().Save, batches)
		}
	}
	b.ReportMetric(float64(saving.Microseconds())/float64(b.N), "µs/save")
	b.ReportMetric(float64(saving)/float64(blind), "times-blind")
}

// flushOf moves some members to the number, by shard and within a shard in no order.
func flushOf(
	members []delivery.Member, tenures map[subscription.Shard]delivery.Tenure, seq delivery.Seq,
) []delivery.Batch {
	byShard := make([][]delivery.Advance, subscription.Shards)
	for range 2048 {
		id := members[rand.IntN(len(members))].ID
		shard := subscription.ShardOf(id)
		byShard[shard] = append(byShard[shard], delivery.Advance{
			Subscription: id, Position: delivery.Position{Settled: seq},
		})
	}
	var batches []delivery.Batch
	for shard, advances := range byShard {
		if len(advances) > 0 {
			batches = append(batches, delivery.Batch{Tenure: tenures[subscription.Shard(shard)], Advances: advances})
		}
	}
	return batches
}

package pebblestore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

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

// TestSaveOfWhatIsGone: the remembered position of a subscription goes with it.
func TestSaveOfWhatIsGone(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	m := restoredMember(0)
	put := func() {
		t.Helper()
		if err := db.Restore().PutMembers(t.Context(), []delivery.Member{m}); err != nil {
			t.Fatal(err)
		}
	}
	tenure := ownAll(t, db)[subscription.ShardOf(m.ID)]
	save := func(seq delivery.Seq) {
		t.Helper()
		err := db.Cursors().Save(t.Context(), []delivery.Batch{{
			Tenure: tenure, Advances: []delivery.Advance{{Subscription: m.ID, Position: delivery.Position{Settled: seq}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	put()
	save(20)
	if removed, err := db.Subscriptions().Remove(t.Context(), m.Subscription); !removed || err != nil {
		t.Fatal(removed, err)
	}
	save(30)
	r := subscription.Request{ID: m.ID, Mode: subscription.ModeSubscribe, Topic: m.Topic, Callback: m.Callback}
	if err := errors.Join(
		db.Subscriptions().Submit(t.Context(), r),
		db.Subscriptions().Activate(t.Context(), r, m.Subscription)); err != nil {
		t.Fatal(err)
	}
	if got := membersOf(t, db)[m.ID].Settled; got != delivery.Seq(m.Start) {
		t.Errorf("subscribed anew it stands at %d, not at its start", got)
	}
	save(10)
	if got := membersOf(t, db)[m.ID].Settled; got != 10 {
		t.Errorf("it stands at %d, not where it was saved", got)
	}
}

// TestSaveThatFails: positions of a failed Save do not count as stored.
func TestSaveThatFails(t *testing.T) {
	disk := vfs.NewMem()
	var away atomic.Bool
	fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && away.Load() {
			return errorfs.ErrInjected
		}
		return nil
	}))
	m := restoredMember(0)
	other := neighbour(m)
	first := openOn(t, disk)
	if err := first.Restore().PutMembers(t.Context(), []delivery.Member{m, other}); err != nil {
		t.Fatal(err)
	}
	closeDB(t, first)
	// With next to no cache every look is a read.
	db, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: fs, CacheBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, db)
	tenure := ownAll(t, db)[subscription.ShardOf(m.ID)]
	at := func(seq delivery.Seq, gaps ...delivery.Gap) []delivery.Batch {
		p := delivery.Position{Settled: seq}
		return []delivery.Batch{{Tenure: tenure, Advances: []delivery.Advance{{Subscription: m.ID, Position: p}}, Gaps: gaps}}
	}
	if err := db.Cursors().Save(t.Context(), at(20)); err != nil {
		t.Fatal(err)
	}
	away.Store(true)
	err = db.Cursors().Save(t.Context(), at(30, delivery.Gap{Subscription: other.ID, First: 1, Last: 2, Reason: delivery.GapTrimmed}))
	if !errors.Is(err, subscription.ErrUnavailable) {
		t.Fatalf("a disk that cannot be read: %v", err)
	}
	away.Store(false)
	if err := db.Cursors().Save(t.Context(), at(25)); err != nil {
		t.Fatal(err)
	}
	if got := membersOf(t, db)[m.ID].Settled; got != 25 {
		t.Errorf("it stands at %d; 25 was saved last, 30 was not", got)
	}
}

// TestSaveRemembersOnlySoMuch: a shard has no bound, what is remembered of it has.
func TestSaveRemembersOnlySoMuch(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	tenures := ownAll(t, db)
	const many = 1<<14 + 5
	members := make([]delivery.Member, many)
	batch := delivery.Batch{Tenure: tenures[3]}
	for n := range members {
		id := subscription.ID{15: 3}
		binary.BigEndian.PutUint32(id[:], uint32(n))
		members[n].ID, members[n].Expires = id, time.Unix(2e9, 0)
		batch.Advances = append(batch.Advances, delivery.Advance{Subscription: id, Position: delivery.Position{Settled: 7}})
	}
	if err := db.Restore().PutMembers(t.Context(), members); err != nil {
		t.Fatal(err)
	}
	if err := db.Cursors().Save(t.Context(), []delivery.Batch{batch}); err != nil {
		t.Fatal(err)
	}
	if got := db.Remembered(3); got != 5 {
		t.Errorf("%d positions are remembered; the first ones are to go for the last 5", got)
	}
	for id, m := range membersOf(t, db) {
		if m.Settled != 7 {
			t.Fatalf("%s stands at %d", id, m.Settled)
		}
	}
}

// flushed is how many positions a flush writes under load.
const flushed = 8192

// BenchmarkSave writes what flushes do, to disk, and compares it with writing them
// without a look at those that are stored.
func BenchmarkSave(b *testing.B) {
	for _, many := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) { benchmarkSave(b, many) })
	}
}

func benchmarkSave(b *testing.B, many int) {
	cfg := pebblestore.Config{Dir: b.TempDir()}
	settle(b, cfg, many)
	db, err := pebblestore.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer closeDB(b, db)
	tenures := ownAll(b, db)
	ids := make([]subscription.ID, many)
	for n := range ids {
		ids[n] = restoredMember(n).ID
	}
	spent := func(save func(context.Context, []delivery.Batch) error, batches []delivery.Batch) time.Duration {
		began := time.Now()
		if err := save(b.Context(), batches); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	var saving, blind time.Duration
	seq := delivery.Seq(2 * many)
	for b.Loop() {
		seq++
		batches := flushOf(ids, tenures, seq)
		if seq%2 == 0 { // the second reader finds the blocks in the cache
			saving += spent(db.Cursors().Save, batches)
			blind += spent(db.SaveBlindly, batches)
		} else {
			blind += spent(db.SaveBlindly, batches)
			saving += spent(db.Cursors().Save, batches)
		}
	}
	b.ReportMetric(float64(saving.Nanoseconds())/float64(b.N)/flushed, "ns/position")
	b.ReportMetric(float64(saving)/float64(blind), "times-blind")
}

// flushOf moves some members to the number, by shard and within a shard in no order.
func flushOf(
	ids []subscription.ID, tenures map[subscription.Shard]delivery.Tenure, seq delivery.Seq,
) []delivery.Batch {
	byShard := make([][]delivery.Advance, subscription.Shards)
	for range flushed {
		id := ids[rand.IntN(len(ids))]
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

package pebblestore_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"carillon/delivery"
	"carillon/subscription"
)

// TestShardsAreTakenAgain: a holder that cannot take two shards for a while gets
// them again, each time with a higher epoch and after a Lost, while it has the others.
func TestShardsAreTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openOn(t, vfs.NewMem())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		const times = 20
		trouble := map[subscription.Shard]error{
			3: fmt.Errorf("members: %w", delivery.ErrUnavailable), 9: &delivery.FencedError{},
		}
		held := make(map[subscription.Shard]bool)
		epochs := make(map[subscription.Shard][]uint64)
		began := time.Now()
		err := db.Shards().Run(ctx, holder{
			gained: func(tenure delivery.Tenure) error {
				s := tenure.Shard
				if held[s] {
					t.Errorf("shard %d is gained and not lost", s)
				}
				held[s], epochs[s] = true, append(epochs[s], tenure.Epoch)
				switch {
				case trouble[s] != nil && len(epochs[s]) <= times:
					return trouble[s]
				case s == 9:
					stop()
				}
				return nil
			},
			lost: func(s subscription.Shard) {
				if !held[s] {
					t.Errorf("shard %d is lost and was not gained", s)
				}
				held[s] = false
				if trouble[s] != nil && len(epochs[s]) == times && len(held) != subscription.Shards {
					t.Errorf("only %d shards were tried meanwhile", len(held))
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for s := range subscription.Shard(subscription.Shards) {
			want := 1
			if trouble[s] != nil {
				want = times + 1
			}
			if len(epochs[s]) != want || held[s] {
				t.Errorf("shard %d was gained %d times, want %d; still held: %v", s, len(epochs[s]), want, held[s])
			}
			for i := 1; i < len(epochs[s]); i++ {
				if epochs[s][i] <= epochs[s][i-1] {
					t.Errorf("shard %d: epochs %d", s, epochs[s])
				}
			}
		}
		if took := time.Since(began); took < 30*time.Second || took > 10*time.Minute {
			t.Errorf("%d tries took %v", times, took)
		}
	})
}

// TestShardsOnAFullDisk are owned when there is room again.
func TestShardsOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		b := newBreakable(disk, func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite }, syscall.ENOSPC)
		db := openOn(t, b)
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30})
		b.broken.Store(true)
		underWay := make(chan error, 1)
		go func() { underWay <- appendOne(t.Context(), db, "under way") }()
		synctest.Wait()
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		gained := 0
		ended := make(chan error, 1)
		go func() {
			ended <- db.Shards().Run(ctx, holder{gained: func(delivery.Tenure) error {
				if gained++; gained == subscription.Shards {
					stop()
				}
				return nil
			}})
		}()
		time.Sleep(time.Minute)
		if len(ended) > 0 || gained > 0 {
			t.Fatalf("on a full disk %d shards were gained", gained)
		}
		b.broken.Store(false)
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30})
		if err := <-ended; err != nil || gained != subscription.Shards {
			t.Errorf("%d shards were gained, error %v", gained, err)
		}
		if err := <-underWay; err != nil {
			t.Errorf("the append under way: %v", err)
		}
	})
}

// TestShardsOfAClosedStore: a holder that cannot take a shard because the store is
// closed is not asked for ever.
func TestShardsOfAClosedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openOn(t, vfs.NewMem())
		err := db.Shards().Run(t.Context(), holder{gained: func(tenure delivery.Tenure) error {
			closeDB(t, db)
			_, err := db.Subscriptions().Get(t.Context(), subscription.ID{})
			return err
		}})
		if !errors.Is(err, delivery.ErrUnavailable) {
			t.Errorf("got error %v", err)
		}
	})
}

package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"carillon/delivery"
	"carillon/subscription"
)

// Shards gives all shards to this process, since nobody else has the directory.
type Shards struct{ db *DB }

var _ delivery.Shards = (*Shards)(nil)

var errRunning = errors.New("it runs already")

// Run implements delivery.Shards. It raises the epoch of every shard, durably, so
// that what an earlier Run left behind cannot write. It ends with an error when the
// engine cannot write any more.
func (s *Shards) Run(ctx context.Context, h delivery.Holder) (err error) {
	if !s.db.running.CompareAndSwap(false, true) {
		return fmt.Errorf("own the shards: %w", errRunning)
	}
	defer s.db.running.Store(false)
	if ctx.Err() != nil {
		return nil
	}
	tenures, err := s.raise(ctx)
	if err != nil {
		return fmt.Errorf("own the shards: %w", err)
	}
	owned := 0
	defer func() {
		for _, t := range tenures[:owned] {
			h.Lost(t.Shard)
		}
	}()
	for _, t := range tenures {
		if ctx.Err() != nil {
			return nil
		}
		owned++
		if err := h.Gained(ctx, t); err != nil {
			return fmt.Errorf("take shard %d: %w", t.Shard, err)
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.db.engine.broken:
		return fmt.Errorf("own the shards: %w", s.db.engine.failed())
	}
}

// raise gives every shard its next epoch.
func (s *Shards) raise(ctx context.Context) ([]delivery.Tenure, error) {
	tenures := make([]delivery.Tenure, subscription.Shards)
	all := make([]delivery.Batch, subscription.Shards)
	for i := range all {
		all[i].Tenure.Shard = subscription.Shard(i)
	}
	err := s.db.engine.change(ctx, shrinks, s.db.lockShards(all), func(b *pebble.Batch) error {
		for i := range tenures {
			shard := subscription.Shard(i)
			s.db.shards[i].epoch++
			tenures[i] = delivery.Tenure{Shard: shard, Epoch: s.db.shards[i].epoch}
			if err := b.Set(epochKey(shard), encodeCount(tenures[i].Epoch), nil); err != nil {
				return err
			}
		}
		return nil
	})
	return tenures, err
}

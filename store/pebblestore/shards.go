package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/cockroachdb/pebble/v2"

	"carillon/delivery"
	"carillon/subscription"
)

// Shards gives all shards to this process, since no other has the directory.
type Shards struct{ db *DB }

var _ delivery.Shards = (*Shards)(nil)

var errRunning = errors.New("it runs already")

// How long Run waits before it gives a shard again to a holder that could not
// take it: first, and at most.
const (
	takeAgainFirst = 100 * time.Millisecond
	takeAgainMax   = 10 * time.Second
)

// Run implements delivery.Shards. It raises the epoch of a shard, durably, each
// time that it gives it to h, so that what an earlier holder left behind cannot
// write. It ends with an error when the engine cannot write any more.
func (s *Shards) Run(ctx context.Context, h delivery.Holder) error {
	if !s.db.running.CompareAndSwap(false, true) {
		return fmt.Errorf("own the shards: %w", errRunning)
	}
	defer s.db.running.Store(false)
	t := &taking{db: s.db, holder: h}
	defer t.handBack()
	for shard := range subscription.Shard(subscription.Shards) {
		t.open = append(t.open, shard)
	}
	err := t.run(ctx)
	switch {
	case ctx.Err() != nil:
		return nil // whatever it broke off
	case err != nil:
		return fmt.Errorf("own the shards: %w", err)
	}
	return nil
}

// taking is one Run: every shard is either open or held.
type taking struct {
	db     *DB
	holder delivery.Holder
	open   []subscription.Shard // to be taken, again where that failed
	held   []subscription.Shard
}

// run takes the open shards, as often as it is needed, and returns when ctx ends,
// the engine is broken, or the holder fails for good.
func (t *taking) run(ctx context.Context) error {
	pause := takingPause()
	for ctx.Err() == nil {
		var again <-chan time.Time
		if err := t.takeAll(ctx); err != nil {
			return err
		}
		if len(t.open) > 0 {
			again = time.After(pause.NextBackOff())
		}
		select {
		case <-ctx.Done():
		case <-t.db.engine.broken:
			return t.db.engine.failed()
		case <-again:
		}
	}
	return nil
}

// takeAll gives every open shard to the holder. Those that it cannot take at the
// moment stay open.
func (t *taking) takeAll(ctx context.Context) error {
	tenures, err := t.db.raise(ctx, t.open)
	if err != nil {
		if t.db.engine.ended() || !passes(err) {
			return err
		}
		t.db.engine.log.Warn(
			"shards cannot be owned at the moment; it is tried again", "shards", len(t.open), "error", err,
		)
		return nil
	}
	var failed []error
	t.open = nil
	for _, tenure := range tenures {
		if ctx.Err() != nil {
			return nil
		}
		err := t.holder.Gained(ctx, tenure)
		if err == nil {
			t.held = append(t.held, tenure.Shard)
			continue
		}
		t.holder.Lost(tenure.Shard)
		if !passes(err) {
			return fmt.Errorf("take shard %d: %w", tenure.Shard, err)
		}
		t.open, failed = append(t.open, tenure.Shard), append(failed, err)
	}
	if len(failed) > 0 {
		t.db.engine.log.Warn(
			"the work on shards could not begin; it is tried again", "shards", len(failed), "error", failed[0],
		)
	}
	return nil
}

// passes reports whether the same may succeed later.
func passes(err error) bool {
	return errors.Is(err, delivery.ErrUnavailable) || errors.Is(err, delivery.ErrFenced)
}

func (t *taking) handBack() {
	for _, shard := range t.held {
		t.holder.Lost(shard)
	}
}

// raise gives the shards their next epochs.
func (db *DB) raise(ctx context.Context, shards []subscription.Shard) ([]delivery.Tenure, error) {
	tenures := make([]delivery.Tenure, len(shards))
	err := db.engine.change(ctx, shrinks, db.lockShards(slices.Clone(shards)), func(b *pebble.Batch) error {
		for i, shard := range shards {
			db.shards[shard].epoch++
			tenures[i] = delivery.Tenure{Shard: shard, Epoch: db.shards[shard].epoch}
			if err := b.Set(epochKey(shard), encodeCount(tenures[i].Epoch), nil); err != nil {
				return err
			}
		}
		return nil
	})
	return tenures, err
}

// takingPause is the time between the tries to take shards.
func takingPause() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(takeAgainFirst),
		backoff.WithMaxInterval(takeAgainMax),
		backoff.WithMaxElapsedTime(0),
	)
}

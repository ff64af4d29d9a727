package subscription

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/internal/wallclock"
)

// sweepAtOnce is how many expired subscriptions are removed at the same time, so
// that they share what durability costs.
const sweepAtOnce = 16

// doubtFor is after what time a clock that was set forward is believed, and what is over by it
// ends.
const doubtFor = time.Hour

// sweeper ends the subscriptions whose lease is over.
type sweeper struct {
	cfg     Config
	books   *books
	docket  *docket
	sure    *Surety
	health  *health
	clock   *wallclock.Clock
	metrics *metrics
	logger  *slog.Logger
}

// sweepLoop ends the subscriptions of this process's shards whose lease is over
// (WebSub §5.3.1), and brings the roster level with the store where that was in
// doubt, until ctx ends.
func (s *sweeper) sweepLoop(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.SweepInterval)
	defer ticker.Stop()
	for {
		err := s.sweep(ctx, s.clock.Now())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil: // the next round tries again
			s.health.failed("ending subscriptions whose lease is over", err)
		default:
			s.health.works()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweep sweeps each shard, not before it is known which renewals are under way. now is the time for
// all of the round: a clock that is set meanwhile has no effect on it.
func (s *sweeper) sweep(ctx context.Context, now time.Time) error {
	if err := s.books.reconcile(ctx, s.cfg.StoreTimeout); err != nil {
		return err
	}
	for shard, t := range s.docket.tenancies() {
		if err := s.sweepShard(ctx, shard, t, now); err != nil {
			return err
		}
	}
	return nil
}

// sweepShard removes portion after portion, until one is not full. Subscriptions that must stay lead
// every portion, which is larger by as many.
func (s *sweeper) sweepShard(ctx context.Context, shard Shard, t *tenancy, now time.Time) error {
	stay := 0
	for ctx.Err() == nil && s.docket.stays(shard, t) && s.sure.Of(shard, time.Now()) {
		limit := stay + s.cfg.SweepPortion
		subs, err := s.expired(ctx, shard, now, limit)
		if err != nil {
			return err
		}
		removed, err := s.end(ctx, shard, t, subs, now)
		if err != nil {
			return err
		}
		if len(subs) < limit {
			return nil
		}
		stay = len(subs) - removed
	}
	return nil
}

func (s *sweeper) expired(ctx context.Context, shard Shard, now time.Time, limit int) ([]Subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	subs, err := s.books.store.Expired(ctx, shard, now, limit)
	return subs, trouble(err)
}

// renewing reports whether a renewal that was asked for in time is still under way:
// the subscription then keeps its place until that is settled, for as long as it
// may take. The store is asked as well: another process may have taken the renewal,
// and may be verifying it by now, before this one hears of it or of losing the
// shard. The caller holds the lock of the books for it.
func (s *sweeper) renewing(ctx context.Context, sub Subscription, now time.Time) (bool, error) {
	if !now.Before(sub.Expires.Add(s.cfg.renewalTime())) {
		return false, nil
	}
	if s.docket.renews(sub) {
		return true, nil
	}
	r, err := s.books.store.Request(ctx, sub.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, trouble(err)
	}
	return r.Mode == ModeSubscribe && renews(r, sub), nil
}

// end removes the subscriptions, but for those that are being renewed, or were
// renewed or ended since they were read, and reports how many. It removes none where
// the shard is lost meanwhile, or may be: its next owner sees to them.
func (s *sweeper) end(ctx context.Context, shard Shard, t *tenancy, subs []Subscription, now time.Time) (int, error) {
	var removed atomic.Int64
	var group errgroup.Group
	group.SetLimit(sweepAtOnce)
	for _, sub := range subs {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			// Once begun it is finished: the roster must hear of it.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StoreTimeout)
			defer cancel()
			unlock, err := s.books.lock(ctx, sub.ID)
			if err != nil {
				return err
			}
			defer unlock()
			if stay, err := s.renewing(ctx, sub, now); err != nil || stay {
				return err
			}
			if !s.docket.stays(shard, t) || !s.sure.Of(shard, time.Now()) {
				return nil
			}
			switch err := s.books.remove(ctx, sub); {
			case errors.Is(err, ErrSuperseded), errors.Is(err, ErrNotFound):
				return nil
			case err != nil:
				return err
			}
			removed.Add(1)
			s.metrics.expired.Inc()
			s.logger.Info("subscription expired", "subscription", sub)
			return nil
		})
	}
	err := group.Wait()
	return int(removed.Load()), err
}

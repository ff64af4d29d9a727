package subscription

import (
	"context"
	"errors"
	"fmt"
)

// Remove ends a subscription whose callback said 410 (WebSub §7) and is told
// nothing. When it returns without an error the Roster has heard what holds:
// Ended, or Activated with the subscription that stands because it was renewed
// since sub was read. removed tells whether this call, or one before it that
// seemed to fail, ended it.
//
// After an error it is not known whether the subscription is gone, and the call
// may be repeated with the same sub; if it is not, Run finds out and tells the
// Roster. It is ErrUnavailable where the time for which this process is sure of its
// shards has passed (Sure).
func (s *Service) Remove(ctx context.Context, sub Subscription) (removed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	unlock, err := s.books.lock(ctx, sub.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	if !s.isSure(ShardOf(sub.ID)) { // by now: the lock may have taken long
		return false, errUnsure
	}
	switch err := s.books.remove(ctx, sub); {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrSuperseded), errors.Is(err, ErrNotFound):
		return false, nil
	default:
		s.metrics.storeErrors.Inc()
		return false, fmt.Errorf("ending the subscription: %w", err)
	}
}

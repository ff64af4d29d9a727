package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/subscription"
)

// Subscriptions keeps subscriptions and unsettled requests.
type Subscriptions struct{ db *DB }

var _ subscription.Store = (*Subscriptions)(nil)

// Submit implements subscription.Store. A request that cannot be read leaves nothing to
// the one that replaces it.
func (s *Subscriptions) Submit(ctx context.Context, r subscription.Request) error {
	err := s.db.engine.change(ctx, grows, s.db.shardLock(r.ID), func(b *pebble.Batch) error {
		switch earlier, err := s.request(r.ID); {
		case err == nil:
			r = r.Replacing(earlier)
		case errors.Is(err, ErrDamaged):
			s.db.engine.damaged(requestKey(r.ID), err)
		case !errors.Is(err, subscription.ErrNotFound):
			return err
		}
		return b.Set(requestKey(r.ID), encodeRequest(r), nil)
	})
	return inSubscription("submit request", r.ID, err)
}

// KeepStart implements subscription.Store. It adds a few bytes, and is taken though the
// disk is nearly full, as Activate is.
func (s *Subscriptions) KeepStart(
	ctx context.Context, r subscription.Request, start uint64,
) (kept subscription.Request, err error) {
	err = s.db.engine.change(ctx, shrinks, s.db.shardLock(r.ID), func(b *pebble.Batch) error {
		stored, err := s.pendingRequest(r)
		if err != nil {
			return err
		}
		kept = stored.StartingAt(start)
		return b.Set(requestKey(r.ID), encodeRequest(kept), nil)
	})
	if err != nil {
		return subscription.Request{}, inSubscription("keep the start of request", r.ID, err)
	}
	return kept, nil
}

// Requests implements subscription.Store.
func (s *Subscriptions) Requests(
	ctx context.Context, shard subscription.Shard,
) iter.Seq2[subscription.Request, error] {
	return records(ctx, s.db.engine, []byte{kindRequest, byte(shard)},
		func(key, value []byte) (subscription.Request, error) {
			if len(key) != 2+idLen {
				return subscription.Request{}, ErrDamaged
			}
			return decodeRequest(idOf(key), value)
		})
}

// Request implements subscription.Store. An unreadable one counts as missing: no process can work on
// it.
func (s *Subscriptions) Request(ctx context.Context, id subscription.ID) (subscription.Request, error) {
	if err := s.db.engine.enter(ctx); err != nil {
		return subscription.Request{}, inSubscription("get request", id, err)
	}
	defer s.db.engine.leave()
	r, err := s.request(id)
	if errors.Is(err, ErrDamaged) {
		s.db.engine.damaged(requestKey(id), err)
		err = fmt.Errorf("%w: %w", subscription.ErrNotFound, err)
	}
	return r, inSubscription("get request", id, err)
}

// request reads a request, or ErrNotFound, or ErrDamaged.
func (s *Subscriptions) request(id subscription.ID) (subscription.Request, error) {
	record, err := s.db.engine.get(requestKey(id))
	if err != nil {
		return subscription.Request{}, err
	}
	if record == nil {
		return subscription.Request{}, subscription.ErrNotFound
	}
	return decodeRequest(id, record)
}

// Activate implements subscription.Store. It takes the place of a request of about
// the same size, and is taken though the disk is nearly full: logs go on being
// trimmed then, and would lose what the subscription is owed.
func (s *Subscriptions) Activate(ctx context.Context, r subscription.Request, sub subscription.Subscription) error {
	err := s.db.engine.change(ctx, shrinks, s.db.shardLock(r.ID), func(b *pebble.Batch) error {
		if sub.ID != r.ID {
			return fmt.Errorf("the subscription has another id: %s", sub.ID)
		}
		if err := s.settle(b, r); err != nil {
			return err
		}
		if err := s.unindex(b, r.ID); err != nil {
			return err
		}
		return errors.Join(
			b.Set(memberKey(kindSubscription, sub.ID), encodeSubscription(sub), nil),
			s.addToIndex(b, sub))
	})
	return inSubscription("activate subscription", r.ID, err)
}

// Drop implements subscription.Store.
func (s *Subscriptions) Drop(ctx context.Context, r subscription.Request) error {
	err := s.db.engine.change(ctx, shrinks, s.db.shardLock(r.ID), func(b *pebble.Batch) error {
		if err := s.settle(b, r); !errors.Is(err, subscription.ErrSuperseded) {
			return err
		}
		return nil
	})
	return inSubscription("drop request", r.ID, err)
}

// Unsubscribe implements subscription.Store.
func (s *Subscriptions) Unsubscribe(ctx context.Context, r subscription.Request) error {
	err := s.db.engine.change(ctx, shrinks, s.db.shardLock(r.ID), func(b *pebble.Batch) error {
		if err := s.settle(b, r); err != nil {
			return err
		}
		return s.erase(b, r.ID)
	})
	return inSubscription("unsubscribe", r.ID, err)
}

// Remove implements subscription.Store.
func (s *Subscriptions) Remove(ctx context.Context, sub subscription.Subscription) (removed bool, err error) {
	err = s.db.engine.change(ctx, shrinks, s.db.shardLock(sub.ID), func(b *pebble.Batch) error {
		stored, err := s.find(sub.ID)
		if errors.Is(err, subscription.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if !stored.Expires.Equal(sub.Expires) {
			return nil
		}
		removed = true
		return s.erase(b, sub.ID)
	})
	if err != nil {
		return false, inSubscription("remove subscription", sub.ID, err)
	}
	return removed, nil
}

// Get implements subscription.Store. An unreadable subscription counts as missing: a new one must find
// the way free.
func (s *Subscriptions) Get(ctx context.Context, id subscription.ID) (subscription.Subscription, error) {
	if err := s.db.engine.enter(ctx); err != nil {
		return subscription.Subscription{}, inSubscription("get subscription", id, err)
	}
	defer s.db.engine.leave()
	sub, err := s.find(id)
	return sub, inSubscription("get subscription", id, err)
}

// Expired implements subscription.Store. The index is by time, and its keys tell
// the shard: of other shards nothing else is read. An entry that its subscription
// has outlived is passed over. It begins where the shard's first entry was found the
// last time, so that portion after portion the index is gone through once.
func (s *Subscriptions) Expired(
	ctx context.Context, shard subscription.Shard, now time.Time, limit int,
) ([]subscription.Subscription, error) {
	expired, err := s.expired(ctx, shard, now, limit)
	if err != nil {
		return nil, fmt.Errorf("list expired subscriptions: %w", err)
	}
	return expired, nil
}

func (s *Subscriptions) expired(
	ctx context.Context, shard subscription.Shard, now time.Time, limit int,
) (expired []subscription.Subscription, err error) {
	if err := s.db.engine.enter(ctx); err != nil {
		return nil, err
	}
	defer s.db.engine.leave()
	from, indexed := s.db.shards[shard].firstLease()
	end := expiryEnd(now)
	if bytes.Compare(from, end) >= 0 {
		return nil, nil
	}
	w, err := s.db.engine.walk(s.db.engine.db, from, end)
	if err != nil {
		return nil, err
	}
	for ok := w.toFirst(); ok && len(expired) < limit && err == nil; ok = w.next() {
		if err = ctx.Err(); err != nil {
			break
		}
		key := w.recordKey()
		if len(key) != 1+timeLen+idLen || subscription.ShardOf(idOf(key)) != shard {
			continue
		}
		var sub subscription.Subscription
		sub, err = s.find(idOf(key))
		switch {
		case errors.Is(err, subscription.ErrNotFound):
			err = nil
		case err == nil && bytes.Equal(expiryKey(sub.Expires, sub.ID), key):
			expired = append(expired, sub)
		}
	}
	if err := errors.Join(err, w.close()); err != nil {
		return nil, err
	}
	if len(expired) > 0 {
		end = expiryKey(expired[0].Expires, expired[0].ID)
	}
	if limit > 0 {
		s.db.shards[shard].passedLeases(end, indexed)
	}
	return expired, nil
}

// find reads a subscription, or ErrNotFound; it logs what cannot be read.
func (s *Subscriptions) find(id subscription.ID) (subscription.Subscription, error) {
	sub, err := s.get(id)
	if errors.Is(err, ErrDamaged) {
		s.db.engine.damaged(memberKey(kindSubscription, id), err)
		return subscription.Subscription{}, fmt.Errorf("%w: %w", subscription.ErrNotFound, err)
	}
	return sub, err
}

// get reads a subscription, or ErrNotFound, or ErrDamaged.
func (s *Subscriptions) get(id subscription.ID) (subscription.Subscription, error) {
	record, err := s.db.engine.get(memberKey(kindSubscription, id))
	if err != nil {
		return subscription.Subscription{}, err
	}
	if record == nil {
		return subscription.Subscription{}, subscription.ErrNotFound
	}
	return decodeSubscription(id, record)
}

// settle takes the request away, or is ErrSuperseded.
func (s *Subscriptions) settle(b *pebble.Batch, r subscription.Request) error {
	if _, err := s.pendingRequest(r); err != nil {
		return err
	}
	return b.Delete(requestKey(r.ID), nil)
}

// pendingRequest reads the request as it is stored, or returns ErrSuperseded. A record that cannot
// be read counts as r: it was accepted and perhaps verified, and no other process can have
// replaced it.
func (s *Subscriptions) pendingRequest(r subscription.Request) (subscription.Request, error) {
	stored, err := s.request(r.ID)
	switch {
	case errors.Is(err, subscription.ErrNotFound):
		return r, subscription.ErrSuperseded
	case errors.Is(err, ErrDamaged):
		s.db.engine.damaged(requestKey(r.ID), err)
		return r, nil
	case err != nil:
		return r, err
	case stored.Token != r.Token:
		return r, subscription.ErrSuperseded
	}
	return stored, nil
}

// addToIndex puts the subscription in the index of leases.
func (s *Subscriptions) addToIndex(b *pebble.Batch, sub subscription.Subscription) error {
	key := expiryKey(sub.Expires, sub.ID)
	s.db.shards[subscription.ShardOf(sub.ID)].indexes(key)
	return b.Set(key, nil, nil)
}

// unindex takes the stored subscription out of the index of leases. One that is
// damaged leaves its entry behind, which Expired passes over.
func (s *Subscriptions) unindex(b *pebble.Batch, id subscription.ID) error {
	switch stored, err := s.find(id); {
	case err == nil:
		return b.Delete(expiryKey(stored.Expires, id), nil)
	case errors.Is(err, subscription.ErrNotFound):
		return nil
	default:
		return err
	}
}

// erase takes the subscription away, with all that delivery keeps of it.
func (s *Subscriptions) erase(b *pebble.Batch, id subscription.ID) error {
	if err := s.unindex(b, id); err != nil {
		return err
	}
	gaps, err := s.db.gapKeys(id)
	if err != nil {
		return err
	}
	for _, key := range gaps {
		if err := b.Delete(key, nil); err != nil {
			return err
		}
	}
	delete(s.db.shards[subscription.ShardOf(id)].settled, id)
	return errors.Join(
		b.Delete(memberKey(kindSubscription, id), nil),
		b.Delete(memberKey(kindPosition, id), nil))
}

// inSubscription says what was being tried, and with which subscription.
func inSubscription(what string, id subscription.ID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, id, err)
}

package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"carillon/destination/follow"
	"carillon/subscription"
)

// followVersion is the version of the records of following.
const followVersion = 1

// Following keeps the position of a follower and its inbox.
type Following struct {
	engine *engine

	mu    sync.Mutex
	count int   // guarded by mu: notifications in the inbox
	bytes int64 // guarded by mu: of their bodies
}

var _ follow.Store = (*Following)(nil)

// load counts the inbox. Damaged records count with no bytes, here and when they are dropped.
func (f *Following) load() error {
	return f.engine.scan(context.Background(), []byte{kindFollowPlace}, func(key, value []byte) bool {
		_, size, err := followDecodePlace(key, value)
		f.count++
		if err == nil {
			f.bytes += size
		}
		return true
	})
}

// Position implements follow.Store.
func (f *Following) Position(ctx context.Context) (follow.Position, error) {
	if err := f.engine.enter(ctx); err != nil {
		return follow.Position{}, fmt.Errorf("read the position: %w", followError(err))
	}
	defer f.engine.leave()
	record, err := f.engine.get([]byte{kindFollowPosition})
	if err != nil || record == nil {
		return follow.Position{}, followError(err)
	}
	d := newDecoder(record, followVersion)
	p := follow.Position{At: d.instant(), Keys: d.list(), Assumed: d.number() != 0}
	if err := d.done(); err != nil {
		return follow.Position{}, fmt.Errorf("read the position: %w", err)
	}
	return p, nil
}

// Keep implements follow.Store.
func (f *Following) Keep(ctx context.Context, p follow.Pushed) error {
	if p.ID == "" {
		return errors.New("keep a notification: it has no id")
	}
	// Also for one that is there: the empty change waits until that is durable.
	err := f.engine.change(ctx, grows, &f.mu, func(b *pebble.Batch) error {
		known, err := f.engine.get(followIDKey(kindFollowID, p.ID))
		if err != nil || known != nil {
			return err
		}
		place := followPlaceKey(p)
		size := newEncoder(followVersion, 10)
		size.number(uint64(len(p.Body)))
		if err := errors.Join(
			b.Set(place, size, nil),
			b.Set(followIDKey(kindFollowID, p.ID), place, nil),
			b.Set(followIDKey(kindFollowBody, p.ID), p.Body, nil),
		); err != nil {
			return unavailable(err)
		}
		f.count++
		f.bytes += int64(len(p.Body))
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep a notification: %w", followError(err))
	}
	return nil
}

// First implements follow.Store.
func (f *Following) First(ctx context.Context) (follow.Pushed, error) {
	if err := f.engine.enter(ctx); err != nil {
		return follow.Pushed{}, fmt.Errorf("read the inbox: %w", followError(err))
	}
	defer f.engine.leave()
	p, found, damage := follow.Pushed{}, false, error(nil)
	err := f.engine.scan(ctx, []byte{kindFollowPlace}, func(key, value []byte) bool {
		found = true
		p, _, damage = followDecodePlace(key, value)
		return false
	})
	if err == nil && !found {
		return follow.Pushed{}, follow.ErrNothing
	}
	if err = errors.Join(err, damage); err == nil {
		if p.Body, err = f.engine.get(followIDKey(kindFollowBody, p.ID)); err == nil && p.Body == nil {
			err = fmt.Errorf("%w: a notification has no body", ErrDamaged)
		}
	}
	if p.ID != "" && errors.Is(err, ErrDamaged) && !errors.Is(err, subscription.ErrUnavailable) {
		return follow.Pushed{}, &follow.DamagedError{ID: p.ID, Err: err}
	}
	if err != nil {
		return follow.Pushed{}, fmt.Errorf("read the inbox: %w", followError(err))
	}
	return p, nil
}

// Kept implements follow.Store.
func (f *Following) Kept(context.Context) (n int, bytes int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count, f.bytes, nil
}

// Advance implements follow.Store.
func (f *Following) Advance(ctx context.Context, to follow.Position, drop ...string) error {
	record := newEncoder(followVersion, 32+48*len(to.Keys))
	record.instant(to.At)
	record.number(uint64(len(to.Keys)))
	for _, key := range to.Keys {
		record.words(key)
	}
	assumed := uint64(0)
	if to.Assumed {
		assumed = 1
	}
	record.number(assumed)
	drop = slices.Compact(slices.Sorted(slices.Values(drop)))
	err := f.engine.change(ctx, shrinks, &f.mu, func(b *pebble.Batch) error {
		count, bytes := f.count, f.bytes
		for _, id := range drop {
			place, size, err := f.placed(ctx, id)
			if err != nil {
				return err
			}
			if place == nil {
				continue
			}
			if err := errors.Join(b.Delete(place, nil), b.Delete(followIDKey(kindFollowID, id), nil),
				b.Delete(followIDKey(kindFollowBody, id), nil)); err != nil {
				return unavailable(err)
			}
			count, bytes = count-1, bytes-size
		}
		if err := b.Set([]byte{kindFollowPosition}, record, nil); err != nil {
			return unavailable(err)
		}
		f.count, f.bytes = count, bytes
		return nil
	})
	if err != nil {
		return fmt.Errorf("move the position: %w", followError(err))
	}
	return nil
}

// placed is where a notification of the inbox stands, and the bytes that it counts; nil where there is
// none. A damaged one is found too, by looking at all, so that it can be dropped.
func (f *Following) placed(ctx context.Context, id string) (place []byte, size int64, err error) {
	if place, err = f.engine.get(followIDKey(kindFollowID, id)); err != nil && !errors.Is(err, ErrDamaged) {
		return nil, 0, err
	}
	var value []byte
	if place != nil {
		if value, err = f.engine.get(place); err != nil && !errors.Is(err, ErrDamaged) {
			return nil, 0, err
		}
	}
	if p, size, err := followDecodePlace(place, value); err == nil && p.ID == id {
		return place, size, nil
	}
	place = nil
	err = f.engine.scan(ctx, []byte{kindFollowPlace}, func(key, value []byte) bool {
		p, n, damage := followDecodePlace(key, value)
		if p.ID != id {
			return true
		}
		if place = slices.Clone(key); damage == nil {
			size = n
		}
		return false
	})
	return place, size, err
}

func followIDKey(kind byte, id string) []byte { return append([]byte{kind}, id...) }

func followPlaceKey(p follow.Pushed) []byte {
	key := appendTime(appendTime([]byte{kindFollowPlace}, p.From), p.Until)
	return append(key, p.ID...)
}

// followDecodePlace reads what the inbox has besides the body.
func followDecodePlace(key, value []byte) (p follow.Pushed, size int64, err error) {
	if len(key) <= 1+2*timeLen {
		return p, 0, fmt.Errorf("%w: inbox key %x", ErrDamaged, key)
	}
	d := newDecoder(value, followVersion)
	size = int64(d.uintMax(math.MaxInt64))
	p = follow.Pushed{ID: string(key[1+2*timeLen:]), From: timeOf(key[1:]), Until: timeOf(key[1+timeLen:])}
	return p, size, d.done()
}

// followError puts the engine's trouble in the words of following.
func followError(err error) error {
	if errors.Is(err, subscription.ErrUnavailable) {
		return fmt.Errorf("%w: %w", follow.ErrUnavailable, err)
	}
	return err
}

package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/destination/mirror"
)

// Mirrored keeps what the copies of a mirror are. A copy that cannot be read back is
// logged once and counts as none: it is fetched again.
type Mirrored struct {
	engine *engine
	mu     sync.Mutex // guards the changes: the indexes follow from what was there
	outbox outboxState
}

var (
	_ mirror.Catalog = (*Mirrored)(nil)
	_ mirror.Homes   = (*Mirrored)(nil)
)

// Copy implements mirror.Catalog.
func (m *Mirrored) Copy(ctx context.Context, loc string) (mirror.Copy, error) {
	if err := m.engine.enter(ctx); err != nil {
		return mirror.Copy{}, fmt.Errorf("read a copy: %w", mirrorError(err))
	}
	defer m.engine.leave()
	c, err := m.readCopy(loc)
	if err != nil {
		return mirror.Copy{}, fmt.Errorf("read a copy: %w", mirrorError(err))
	}
	return c, nil
}

func (m *Mirrored) readCopy(loc string) (mirror.Copy, error) {
	key := mirrorKey(kindMirrorCopy, loc)
	record, err := m.engine.get(key)
	if err != nil {
		return mirror.Copy{}, err
	}
	if record == nil {
		return mirror.Copy{}, mirror.ErrNone
	}
	c, err := mirrorDecodeCopy(key, record)
	if err != nil {
		m.engine.damaged(key, err)
		return mirror.Copy{}, mirror.ErrNone
	}
	return c, nil
}

// Save implements mirror.Catalog. Changes that an Outbox is to hand over wait in the same step.
func (m *Mirrored) Save(ctx context.Context, copies []mirror.Copy, forget []string) error {
	n := notes{m: m}
	err := m.engine.change(ctx, grows, &m.mu, func(b *pebble.Batch) error {
		for _, loc := range forget {
			old, err := m.drop(b, loc)
			if err == nil {
				err = n.copyGone(old)
			}
			if err != nil {
				return err
			}
			if err := b.Delete(mirrorKey(kindMirrorCopy, loc), nil); err != nil {
				return unavailable(err)
			}
		}
		for i := range copies {
			old, err := m.put(b, &copies[i])
			if err == nil {
				err = n.copySaved(old, &copies[i])
			}
			if err != nil {
				return err
			}
		}
		return n.write(b)
	})
	n.wake()
	if err != nil {
		return fmt.Errorf("save %d copies: %w", len(copies), mirrorError(err))
	}
	return nil
}

// put returns what was known before, nil if nothing was.
func (m *Mirrored) put(b *pebble.Batch, c *mirror.Copy) (old *mirror.Copy, err error) {
	if old, err = m.drop(b, c.Loc); err != nil {
		return nil, err
	}
	err = b.Set(mirrorKey(kindMirrorCopy, c.Loc), mirrorEncodeCopy(c), nil)
	if c.Path != "" {
		err = errors.Join(err, b.Set(mirrorKey(kindMirrorClaim, c.Claim()), []byte(c.Loc), nil))
	}
	if !c.Next.IsZero() {
		err = errors.Join(err, b.Set(mirrorDueKey(c.Next, c.Loc), nil, nil))
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return old, nil
}

// drop takes a copy's entries out of the indexes, and returns it; nil without one. The batch of
// the caller puts each loc once.
func (m *Mirrored) drop(b *pebble.Batch, loc string) (*mirror.Copy, error) {
	old, err := m.readCopy(loc)
	if errors.Is(err, mirror.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if old.Path != "" {
		err = b.Delete(mirrorKey(kindMirrorClaim, old.Claim()), nil)
	}
	if !old.Next.IsZero() {
		err = errors.Join(err, b.Delete(mirrorDueKey(old.Next, loc), nil))
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return &old, nil
}

// Owner implements mirror.Catalog.
func (m *Mirrored) Owner(ctx context.Context, claim string) (loc string, below bool, err error) {
	if err := m.engine.enter(ctx); err != nil {
		return "", false, fmt.Errorf("read whose a path is: %w", mirrorError(err))
	}
	defer m.engine.leave()
	record, err := m.engine.get(mirrorKey(kindMirrorClaim, claim))
	if err == nil {
		err = m.engine.scan(ctx, mirrorKey(kindMirrorClaim, claim+"/"), func(_, _ []byte) bool {
			below = true
			return false
		})
	}
	if err != nil {
		return "", false, fmt.Errorf("read whose a path is: %w", mirrorError(err))
	}
	return string(record), below, nil
}

// All implements mirror.Catalog.
func (m *Mirrored) All(ctx context.Context) iter.Seq2[mirror.Copy, error] {
	return mirrorErrors(records(ctx, m.engine, []byte{kindMirrorCopy}, mirrorDecodeCopy))
}

// Due implements mirror.Catalog.
func (m *Mirrored) Due(ctx context.Context, now time.Time, limit int) (due []mirror.Copy, next time.Time, err error) {
	if err := m.engine.enter(ctx); err != nil {
		return nil, time.Time{}, fmt.Errorf("read what is due: %w", mirrorError(err))
	}
	defer m.engine.leave()
	var locs []string
	err = m.engine.scan(ctx, []byte{kindMirrorDue}, func(key, _ []byte) bool {
		if len(key) < 1+timeLen {
			return true
		}
		at := timeOf(key[1:])
		if at.After(now) || len(locs) == limit {
			next = at
			return false
		}
		locs = append(locs, string(key[1+timeLen:]))
		return true
	})
	for _, loc := range locs {
		if err != nil {
			break
		}
		var c mirror.Copy
		if c, err = m.readCopy(loc); err == nil {
			due = append(due, c)
		} else if errors.Is(err, mirror.ErrNone) {
			err = nil // it was saved meanwhile, or is damaged
		}
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read what is due: %w", mirrorError(err))
	}
	return due, next, nil
}

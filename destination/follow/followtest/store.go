// Package followtest holds what every follow.Store must do, and a Store in memory for
// tests of followers.
package followtest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"carillon/destination/follow"
)

// Store is a follow.Store in memory. Its zero value is an empty one.
type Store struct {
	// Fail, where it is set, is asked before each call by its name: an error is
	// returned and nothing done. It is called with no lock held.
	Fail func(call string) error
	// Damaged, where it is set, is the ID of a notification that cannot be read back.
	Damaged string

	mu    sync.Mutex
	at    follow.Position
	inbox []follow.Pushed // guarded by mu, in order
}

var _ follow.Store = (*Store)(nil)

func (s *Store) enter(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.Fail != nil {
		if err := s.Fail(call); err != nil {
			return err
		}
	}
	s.mu.Lock()
	return nil
}

// Position implements follow.Store.
func (s *Store) Position(ctx context.Context) (follow.Position, error) {
	if err := s.enter(ctx, "Position"); err != nil {
		return follow.Position{}, err
	}
	defer s.mu.Unlock()
	return clone(s.at), nil
}

// Keep implements follow.Store.
func (s *Store) Keep(ctx context.Context, p follow.Pushed) error {
	if err := s.enter(ctx, "Keep"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.inbox, func(kept follow.Pushed) bool { return kept.ID == p.ID }) {
		p.Body = slices.Clone(p.Body)
		s.inbox = append(s.inbox, p)
		slices.SortFunc(s.inbox, func(a, b follow.Pushed) int {
			return cmp.Or(a.From.Compare(b.From), a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID))
		})
	}
	return nil
}

// First implements follow.Store.
func (s *Store) First(ctx context.Context) (follow.Pushed, error) {
	if err := s.enter(ctx, "First"); err != nil {
		return follow.Pushed{}, err
	}
	defer s.mu.Unlock()
	if len(s.inbox) == 0 {
		return follow.Pushed{}, follow.ErrNothing
	}
	if s.Damaged != "" && s.inbox[0].ID == s.Damaged {
		return follow.Pushed{}, &follow.DamagedError{ID: s.Damaged, Err: errDamaged}
	}
	return s.inbox[0], nil
}

var errDamaged = errors.New("a stored record is damaged")

func clone(p follow.Position) follow.Position {
	p.Keys = slices.Clone(p.Keys)
	return p
}

// Kept implements follow.Store.
func (s *Store) Kept(ctx context.Context) (n int, bytes int64, err error) {
	if err := s.enter(ctx, "Kept"); err != nil {
		return 0, 0, err
	}
	defer s.mu.Unlock()
	for _, p := range s.inbox {
		bytes += int64(len(p.Body))
	}
	return len(s.inbox), bytes, nil
}

// Advance implements follow.Store.
func (s *Store) Advance(ctx context.Context, to follow.Position, drop ...string) error {
	if err := s.enter(ctx, "Advance"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.at = clone(to)
	s.inbox = slices.DeleteFunc(s.inbox, func(p follow.Pushed) bool { return slices.Contains(drop, p.ID) })
	return nil
}

package mirror

import (
	"context"
	"errors"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/internal/legible"
)

// Baseline brings the copies to what a Source's Resource List says, and its Change List since. It
// fetches new and changed resources, and deletes or records missing ones. It changes
// nothing unless all of the Resource List was read. It records what could not be fetched; Settle
// retries it. With ErrNotWhole and ErrTooMany all else was done; with ErrKept and ErrOlder nothing.
func (m *Mirror) Baseline(ctx context.Context, from Lists, set lists.Set) (Seen, error) {
	if err := m.free(); err != nil {
		return Seen{}, err
	}
	seen, err := m.expect(ctx, from, set)
	if err != nil {
		return Seen{}, err
	}
	m.counts.total.Add(int64(seen.Entries))
	dump, err := m.fromDump(ctx, from, set, &seen)
	if err == nil && set.ResourceList == "" && set.ChangeList != "" && m.cfg.Dump != DumpOnly {
		err = m.expectChanges(ctx, from, set.ChangeList, &seen)
	}
	if err != nil {
		return Seen{}, err
	}
	if seen.Entries+seen.Changes == 0 {
		for c, err := range m.cfg.Catalog.All(ctx) {
			if err != nil || c.State != Gone {
				return Seen{}, errors.Join(err, ErrEmpty)
			}
		}
	}
	held, err := m.holdBack(ctx, &seen, false)
	if err != nil {
		return Seen{}, err
	}
	err = m.bring(ctx, &seen, held, func(r *Resource, c *Copy) bool {
		if c != nil && r.Change == "" && !seen.At.IsZero() && c.Described.Datetime.After(seen.At) {
			return true // what it was changed to since is known already
		}
		return dump.has(r, c)
	})
	if err == nil {
		if err := m.EndDumps(); err != nil {
			m.cfg.Logger.Warn("what is left of packages is not removed", "error", err)
		}
		err = held
	}
	return seen, err
}

// Baselines takes baselines for a follower.
type Baselines struct {
	*Mirror
	From Lists
	// Set is what the Source offers.
	Set func(ctx context.Context) (lists.Set, error)
}

var _ follow.Baseliner = Baselines{}

// Baseline implements follow.Baseliner. Deletions that are held back do not hold up the changes that
// follow: they are recorded, and logged.
func (b Baselines) Baseline(ctx context.Context) (time.Time, error) {
	set, err := b.Set(ctx)
	if err != nil {
		return time.Time{}, err
	}
	seen, err := b.Mirror.Baseline(ctx, b.From, set)
	if errors.Is(err, ErrTooMany) || errors.Is(err, ErrNotWhole) {
		b.cfg.Logger.Error("the baseline is taken without its deletions", "error", legible.Cut(err.Error()))
		err = nil
	}
	return seen.Position, err
}

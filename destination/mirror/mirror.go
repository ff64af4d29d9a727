package mirror

import (
	"context"
	"errors"
	"fmt"

	"carillon/destination/follow"
	"carillon/payload"
)

// Mirror keeps the copies. Take, Baseline, Audit and Settle are called by one goroutine; Run runs
// beside them.
type Mirror struct{ *source }

var _ follow.Handler = (*Mirror)(nil)

// New takes the directory. The error names the setting that is wrong.
func New(cfg Config) (*Mirror, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Catalog == nil {
		return nil, errors.New("there is no catalog")
	}
	cfg = cfg.withDefaults()
	w := newWorker(cfg)
	for _, raw := range cfg.Bases {
		b, err := parseBase(raw)
		if err != nil {
			return nil, err
		}
		w.bases = append(w.bases, b)
	}
	home, moved, err := atHome(context.Background(), &cfg)
	if err != nil {
		return nil, err
	}
	if w.tree, err = openTree(cfg.Dir, cfg.ReadOnly, cfg.Sync, cfg.MinFree); err != nil {
		return nil, err
	}
	if moved {
		if err := settleIn(context.Background(), &cfg, w.tree, home); err != nil {
			return nil, errors.Join(err, w.tree.close())
		}
	}
	if !home.Moment.IsZero() {
		w.moment.Store(&home.Moment)
	}
	w.fetch = newFetcher(&w.cfg, w.tree, w.below)
	return &Mirror{&source{worker: w, packages: newPackages(w)}}, nil
}

// Close gives the directory back. Nothing else may be running.
func (m *Mirror) Close() error {
	m.fetch.client.CloseIdleConnections()
	if err := errors.Join(m.packages.Close(), m.tree.close()); err != nil {
		return fmt.Errorf("mirror directory: %w", err)
	}
	return nil
}

// Take implements follow.Taker. Of several changes of a resource the last counts. A failed fetch is
// recorded, and done with here. An error is trouble of the mirror itself: its disk has no room, its
// Catalog is away; ErrKept.
func (m *Mirror) Handle(ctx context.Context, changes []follow.Change) (done int, err error) {
	return m.store(ctx, changes, func(*payload.Entry) *packed { return nil })
}

// Progress is what was done since the Mirror was made. A resource that was tried several
// times counts each time.
type Progress struct {
	// Total is how many resources there are to look at, where that is known: of a Baseline.
	Total int64
	Fetched, Unchanged, Deleted, Kept,
	Missing, Failed, Refused, Invalid int64
	// Bytes were fetched.
	Bytes int64
	// Unpacked are those of Fetched that came from packages of dumps. Spoiled are those whose content in a
	// package did not match the Source's description.
	Unpacked, Spoiled int64
	// Packages is how many packages were used, Unusable how many could not be.
	Packages, Unusable int64
	// PackageBytes were downloaded of packages, of PackageTotal, as far as dumps tell their lengths.
	PackageBytes, PackageTotal int64
}

// Done is how many were looked at.
func (p Progress) Done() int64 {
	return p.Fetched + p.Unchanged + p.Deleted + p.Kept + p.Missing + p.Failed + p.Refused + p.Invalid
}

// Progress may be asked at any time.
func (m *Mirror) Progress() Progress {
	c := &m.counts
	return Progress{
		c.total.Load(), c.fetched.Load(), c.unchanged.Load(), c.deleted.Load(), c.kept.Load(),
		c.missing.Load(), c.failed.Load(), c.refused.Load(), c.invalid.Load(), c.bytes.Load(),
		c.unpacked.Load(), c.spoiled.Load(), c.packages.Load(), c.unusable.Load(), c.packageBytes.Load(), c.packageTotal.Load(),
	}
}

// Standing is how many resources there are of each state.
type Counts map[State]int

// Standing counts what the Catalog has, and shows some of what Failed: at most limit.
func (m *Mirror) Counts(ctx context.Context, limit int) (all Counts, bad []Copy, err error) {
	all = Counts{}
	for c, err := range m.cfg.Catalog.All(ctx) {
		if err != nil {
			return nil, nil, err
		}
		all[c.State]++
		if c.State == Failed && len(bad) < limit {
			bad = append(bad, c)
		}
	}
	return all, bad, nil
}

// EachFailed calls each with every copy that Failed, by the bytes of their locs.
func (m *Mirror) EachFailed(ctx context.Context, each func(*Copy) error) error {
	for c, err := range m.cfg.Catalog.All(ctx) {
		if err == nil && c.State == Failed {
			err = each(&c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

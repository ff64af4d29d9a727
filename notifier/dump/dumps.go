package dump

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/internal/durable"
	"carillon/notifier"
)

// Dumps makes and serves the dumps of sets. Run it once; it is a notifier.Companion of each set.
type Dumps struct {
	cfg  Config
	log  *slog.Logger
	room *room
	sets map[string]*site
	// making has a slot for one Resource Dump, packaging one for a part of a Change Dump: the slots bound
	// memory and disk space.
	making, packaging chan struct{}
	pause             time.Duration // firstPause; tests set it
	// finished is called with each generation that was made. It is for tests.
	finished func(*generation)
}

// workersFetching is how many resources of a set are fetched at a time.
const workersFetching = 8

// New finds what an earlier run has left, and attaches the dumps to the sets of the notifier. The
// error is notifier.ErrNotWhole for a set whose resources are not known.
func New(ctx context.Context, cfg Config) (*Dumps, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := durable.MkdirAll(filepath.Dir(cfg.Dir), cfg.Dir); err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	d := &Dumps{
		cfg: cfg, log: cfg.Logger, sets: map[string]*site{}, pause: firstPause,
		room:     &room{limit: cfg.Bytes, dir: cfg.Dir, minFree: cfg.MinFree},
		finished: func(*generation) {}, making: make(chan struct{}, 1), packaging: make(chan struct{}, 1),
	}
	used, err := sizeOf(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	d.room.used.Store(used)
	all := newFamilies(cfg.Registry, func() float64 { return float64(d.room.used.Load()) })
	fetch := newFetcher(&cfg)
	for _, one := range cfg.Sets {
		if err := knows(ctx, cfg.Store, one.Name); err != nil {
			return nil, err
		}
		s := newShelf(d, one, all.of(one.Name))
		if one.Source == nil {
			s.source, s.workers = fetch, workersFetching
		}
		if err := s.load(ctx); err != nil {
			return nil, fmt.Errorf("dump %s: %w", one.Name, err)
		}
		served := &site{
			shelf: s, resources: newResourceDump(s),
			changes: &changeDump{shelf: s, wake: make(chan struct{}, 1)},
		}
		if err := cfg.Notifier.Attach(one.Name, served); err != nil {
			return nil, fmt.Errorf("dump: %w", err)
		}
		if s.most, err = served.mostPackages(); err != nil {
			return nil, fmt.Errorf("dump %s: %w", one.Name, err)
		}
		d.sets[one.Name] = served
	}
	return d, d.tellUnused()
}

// tellUnused reports the dumps of sets that are not dumped any more, or have another name now.
func (d *Dumps) tellUnused() error {
	entries, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	for _, entry := range entries {
		dir := filepath.Join(d.cfg.Dir, entry.Name())
		if d.sets[entry.Name()] != nil {
			continue
		}
		if size, err := sizeOf(dir); err != nil {
			return fmt.Errorf("dump: %w", err)
		} else if size > 0 {
			d.log.Warn("there are dumps of a set that is not dumped any more; they stay, and count for --dump-bytes: remove them",
				"directory", dir, "bytes", size)
		}
	}
	return nil
}

// knows reports whether the resources of a set are known, as an error.
func knows(ctx context.Context, store notifier.Store, name string) error {
	_, all, err := store.Resources(ctx, name)
	if errors.Is(err, notifier.ErrNotWhole) {
		return fmt.Errorf("dump: the set %s has no Resource List: %w; name it in --resource-list before its first event, "+
			"watch a directory (--watch), or import a snapshot (notifier import %s < resources.ndjson)", name, err, name)
	}
	if err != nil {
		return fmt.Errorf("dump %s: %w", name, err)
	}
	for range all {
		break // unfinished work is dropped
	}
	return nil
}

// Run makes dumps until ctx ends. The next start goes on with an unfinished one.
func (d *Dumps) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, s := range d.sets {
		g.Go(func() error { s.resources.run(ctx); return nil })
		g.Go(func() error { s.changes.run(ctx); return nil })
	}
	return g.Wait()
}

// completed is what time it is, and never before the generation begins.
func (d *Dumps) completed(g *generation) time.Time {
	now := d.cfg.Notifier.Now().UTC().Truncate(time.Microsecond)
	if now.Before(g.begins()) {
		return g.begins()
	}
	return now
}

// within runs f when there is a slot.
func within(ctx context.Context, slots chan struct{}, f func() error) error {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

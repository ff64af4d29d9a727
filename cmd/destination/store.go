package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/payload"
	"carillon/store/pebblestore"
)

// storeName is the directory of the store below --data: what follows, mirrors and audits
// shares it.
const storeName = "store"

// storeDir is where the store is.
func storeDir(data string) string { return filepath.Join(data, storeName) }

// openStore opens the store of a Destination's data directory.
func openStore(data string, minFree uint64, logger *slog.Logger) (*pebblestore.Destination, error) {
	store, err := pebblestore.OpenDestination(pebblestore.Config{Dir: storeDir(data), MinFree: minFree, Logger: logger})
	if errors.Is(err, pebblestore.ErrInUse) {
		return nil, fmt.Errorf("--data %s: data directory in use by another process; "+
			"stop that one first: one command at a time uses it", data)
	}
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", data, err)
	}
	warnExposed(data, logger)
	return store, nil
}

// claim returns an error if a store has the copies or the position of another Source. A Source may
// offer more than it did, or less: any address that it offered identifies it. also returns further
// addresses of a Source that the first ones do not identify; it may be nil.
func claim(
	ctx context.Context, store *pebblestore.Destination, data string,
	b pebblestore.Belonging, also func() []string,
) (pebblestore.Owner, error) {
	o, err := store.Following().Belong(ctx, b)
	if err == nil && !o.Ours && also != nil {
		b.Names = append(slices.Clone(b.Names), also()...)
		o, err = store.Following().Belong(ctx, b)
	}
	if err != nil {
		return o, fmt.Errorf("--data %s: %w", data, err)
	}
	if !o.Ours {
		return o, fmt.Errorf("--data %s: it belongs to %q; give each Source a directory of its own", data, o.Is)
	}
	return o, nil
}

// settling binds the store to the Source for good, and ends the use of --start, before anything is
// handed on, or when a list of the Source was read. Until then a mistyped --topic or --start does no
// harm.
type settling struct {
	store *pebblestore.Following
	done  atomic.Bool
}

func (s *settling) settle(ctx context.Context) error {
	if s.done.Load() {
		return nil
	}
	if err := s.store.Settle(ctx); err != nil {
		return err
	}
	s.done.Store(true)
	return nil
}

// settlingHandler settles before the first change.
type settlingHandler struct {
	follow.Handler
	*settling
}

func (t settlingHandler) Handle(ctx context.Context, changes []follow.Change) (int, error) {
	if err := t.settle(ctx); err != nil {
		return 0, err
	}
	return t.Handler.Handle(ctx, changes)
}

// settlingLists settles when something was read.
type settlingLists struct {
	*lists.Client
	*settling
}

func (l settlingLists) Changes(
	ctx context.Context, uri string, since time.Time, visit func(payload.Entry) error,
) (lists.Covered, error) {
	covered, err := l.Client.Changes(ctx, uri, since, visit)
	if err == nil {
		err = l.settle(ctx)
	}
	return covered, err
}

func (l settlingLists) Resources(
	ctx context.Context, uri string, visit func(payload.Entry) error,
) (lists.Snapshot, error) {
	snapshot, err := l.Client.Resources(ctx, uri, visit)
	if err == nil {
		err = l.settle(ctx)
	}
	return snapshot, err
}

// anew is a store of which the position does not count: it was handed on to another receiver.
type anew struct{ *pebblestore.Following }

// Position implements follow.Store.
func (anew) Position(context.Context) (follow.Position, error) { return follow.Position{}, nil }

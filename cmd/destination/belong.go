package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/payload"
	"carillon/store/pebblestore"
)

// addresses are those by which a set is known.
func addresses(set *lists.Set) []string {
	return slices.DeleteFunc([]string{
		set.CapabilityList, set.Topic, set.ChangeList, set.ResourceList, set.ChangeDump, set.ResourceDump,
		set.ChangeListArchive, set.ResourceListArchive, set.ChangeDumpArchive, set.ResourceDumpArchive,
	}, func(s string) bool { return s == "" })
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

// settlingTaker settles before the first change.
type settlingTaker struct {
	follow.Taker
	*settling
}

func (t settlingTaker) Take(ctx context.Context, changes []follow.Change) (int, error) {
	if err := t.settle(ctx); err != nil {
		return 0, err
	}
	return t.Taker.Take(ctx, changes)
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

// anew is a store of which the position does not count: it was handed on to somebody else.
type anew struct{ *pebblestore.Following }

// Position implements follow.Store.
func (anew) Position(context.Context) (follow.Position, error) { return follow.Position{}, nil }

// beginning notes that the copies of a mirror were begun, when a baseline was taken.
type beginning struct {
	follow.Baseliner
	mirror *mirror.Mirror
}

// Baseline implements follow.Baseliner.
func (b beginning) Baseline(ctx context.Context) (time.Time, error) {
	at, err := b.Baseliner.Baseline(ctx)
	if err == nil {
		err = b.mirror.Begin(ctx)
	}
	return at, err
}

// claim sees to it that the store is this Source's.
func (h *following) claim(ctx context.Context) error {
	h.settled = &settling{store: h.store.Following()}
	start, at, _ := h.begin() // Validate has read it
	b := pebblestore.Belonging{Begin: string(start)}
	if start == follow.StartAt {
		b.Begin = payload.FormatDatetime(at)
	}
	if h.topic != "" {
		b.Names = []string{h.topic}
	}
	if h.places.found != nil {
		b.Names = append(b.Names, addresses(h.places.found)...)
	}
	o, err := claim(ctx, h.store, h.Data, b, func() []string {
		set, err := h.places.set(ctx)
		if err != nil {
			return nil
		}
		return addresses(&set)
	})
	if err != nil {
		return err
	}
	h.settled.done.Store(o.Settled)
	from, err := h.store.Following().Position(ctx)
	if err != nil {
		return err
	}
	if o.Settled && h.Start != auto && !from.At.IsZero() {
		h.logger.Info("--start counts the first time only; going on from where the last run has ended", "start", h.Start)
	}
	h.places.learn = func(ctx context.Context, set *lists.Set) {
		b := pebblestore.Belonging{Names: append(slices.Clone(b.Names), addresses(set)...), Begin: b.Begin}
		if _, err := h.store.Following().Belong(ctx, b); err != nil {
			h.logger.Warn("what the Source offers cannot be noted", "error", err)
		}
	}
	return nil
}

// startAnew tells whether a mirror is to begin with a baseline though there is a position: changes were
// handed on to somebody else up to there. Who has chosen another --start does without.
func (h *following) startAnew(ctx context.Context, m *mirror.Mirror) (bool, error) {
	begun, err := m.Begun(ctx)
	if err != nil || begun {
		return false, err
	}
	if start, _, _ := h.begin(); start != follow.StartBaseline {
		return false, m.Begin(ctx)
	}
	return true, nil
}

// advised says what helps where nobody has what is missing.
func (h *following) advised(err error) error {
	if !errors.Is(err, follow.ErrGap) || h.settled.done.Load() {
		return err
	}
	return fmt.Errorf("%w; nothing was handed on yet: begin elsewhere, by --start", err)
}

package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/packages"
	"carillon/payload"
)

// Bundle is a package of a Change Dump. It takes changes as the Mirror does, with the content that
// the package has.
type Bundle struct {
	// Entries are the changes, in the order of their datetimes, with what the manifest tells.
	Entries []payload.Entry
	m       *Mirror
	from    *packages.Package
	packed  map[string]bool // paths that the package has
}

var _ follow.Taker = (*Bundle)(nil)

// OpenChanges downloads and opens a package of a Change Dump, and reads all of its manifest. The
// caller closes it. The error is ErrUnusable where the package is at fault.
func (m *Mirror) OpenChanges(ctx context.Context, p lists.Package) (*Bundle, error) {
	m.counts.packageTotal.Add(max(p.Length, 0))
	from, err := m.packages.Open(ctx, p)
	if err != nil {
		return nil, m.unusable(ctx, err)
	}
	b := &Bundle{m: m, from: from, packed: map[string]bool{}}
	head := payload.Header{}
	err = from.Manifest(payload.CapChangeDumpManifest, func(h payload.Header, e packages.Entry) error {
		head = h
		if e.Packed {
			b.packed[e.Path] = true
		}
		if e.Loc != "" {
			b.Entries = append(b.Entries, e.Entry)
		}
		return nil
	})
	if err == nil && len(b.Entries) > 0 {
		err = covers(&head, &p)
	}
	if err != nil {
		return nil, m.unusable(ctx, errors.Join(err, from.Close()))
	}
	inOrder(b.Entries)
	m.counts.packages.Add(1)
	return b, nil
}

// covers compares the interval of a manifest with the one that the dump tells of its package: a
// manifest with less lacks changes.
func covers(h *payload.Header, p *lists.Package) error {
	late := !h.FromTime.IsZero() && !p.From.IsZero() && h.FromTime.After(p.From)
	early := !h.UntilTime.IsZero() && !p.Until.IsZero() && h.UntilTime.Before(p.Until)
	if late || early {
		return fmt.Errorf("%w: it is of %s to %s, and the dump tells of %s to %s", packages.ErrManifest,
			cmp.Or(lists.Cut(h.From), "?"), cmp.Or(lists.Cut(h.Until), "?"), payload.FormatDatetime(p.From), payload.FormatDatetime(p.Until))
	}
	return nil
}

// inOrder sorts changes by their datetimes; those without one stay behind the one before them.
func inOrder(all []payload.Entry) {
	type placed struct {
		at time.Time
		e  payload.Entry
	}
	last, sorted := time.Time{}, true
	order := make([]placed, len(all))
	for i, e := range all {
		if !e.Datetime.IsZero() {
			sorted = sorted && !e.Datetime.Before(last)
			last = e.Datetime
		}
		order[i] = placed{last, e}
	}
	if sorted {
		return
	}
	slices.SortStableFunc(order, func(a, b placed) int { return a.at.Compare(b.at) })
	for i := range order {
		all[i] = order[i].e
	}
}

// ErrUnusable marks a package that cannot be used, whatever the reason is.
var ErrUnusable = errors.New("a package of the dump cannot be used")

// unusable marks an error as the package's, unless it is trouble of the mirror itself.
func (m *Mirror) unusable(ctx context.Context, err error) error {
	if err = roomError(err); ctx.Err() != nil || errors.Is(err, ErrRoom) {
		return err
	}
	m.counts.unusable.Add(1)
	return fmt.Errorf("%w: %w", ErrUnusable, err)
}

// Take implements follow.Taker as Mirror.Take does. A change whose content the package has is not
// fetched, if that content is what the manifest tells.
func (b *Bundle) Take(ctx context.Context, changes []follow.Change) (done int, err error) {
	return b.m.take(ctx, changes, func(e *payload.Entry) *packed {
		if e.Change == payload.Deleted || !b.packed[e.Path] {
			return nil
		}
		return &packed{from: b.from, path: e.Path, told: toldBy(e)}
	})
}

// Close ends the use of the package. Its file stays until EndDumps.
func (b *Bundle) Close() error { return b.from.Close() }

// Discard ends the use of the package, and removes its file.
func (b *Bundle) Discard() error { return b.from.Discard() }

// EndDumps removes what is left of packages, as all that they have was taken.
func (m *Mirror) EndDumps() error { return m.packages.Sweep() }

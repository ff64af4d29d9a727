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
	"carillon/internal/legible"
	"carillon/payload"
)

// Bundle is an open package of a Change Dump. It takes changes with the content of the package.
type Bundle struct {
	// Entries are the changes of the manifest, sorted by datetime.
	Entries []payload.Entry
	m       *worker
	from    *packages.Package
	packed  map[string]bool // the paths of files in the package
}

var _ follow.Handler = (*Bundle)(nil)

// OpenChanges downloads and opens a package of a Change Dump, and reads its whole manifest. The
// caller ends it with Close or Discard. The error is ErrUnusable if the package is at fault.
func (src *source) OpenChanges(ctx context.Context, p lists.Package) (*Bundle, error) {
	src.counts.packageTotal.Add(max(p.Length, 0))
	from, err := src.packages.Open(ctx, p)
	if err != nil {
		return nil, src.unusable(ctx, err)
	}
	b := &Bundle{m: src.worker, from: from, packed: map[string]bool{}}
	head := payload.Header{}
	visit := func(h payload.Header, e packages.Entry) error {
		head = h
		if e.Packed {
			b.packed[e.Path] = true
		}
		if e.Loc != "" {
			b.Entries = append(b.Entries, e.Entry)
		}
		return nil
	}
	err = from.Manifest(payload.CapChangeDumpManifest, visit)
	if err == nil && len(b.Entries) > 0 {
		err = covers(&head, &p)
	}
	if err != nil {
		return nil, src.unusable(ctx, errors.Join(err, from.Close()))
	}
	inOrder(b.Entries)
	src.counts.packages.Add(1)
	return b, nil
}

// covers returns an error if the interval of a manifest is shorter than the one that the dump gives
// for the package: such a package lacks changes.
func covers(h *payload.Header, p *lists.Package) error {
	late := !h.FromTime.IsZero() && !p.From.IsZero() && h.FromTime.After(p.From)
	early := !h.UntilTime.IsZero() && !p.Until.IsZero() && h.UntilTime.Before(p.Until)
	if late || early {
		return fmt.Errorf("%w: it is of %s to %s, and the dump has of %s to %s",
			packages.ErrManifest, cmp.Or(legible.Cut(h.From), "?"), cmp.Or(legible.Cut(h.Until), "?"),
			payload.FormatDatetime(p.From), payload.FormatDatetime(p.Until))
	}
	return nil
}

// inOrder sorts changes by datetime. A change without one stays behind the change before it.
func inOrder(all []payload.Entry) {
	type indexed struct {
		at time.Time
		e  payload.Entry
	}
	last, sorted := time.Time{}, true
	order := make([]indexed, len(all))
	for i, e := range all {
		if !e.Datetime.IsZero() {
			sorted = sorted && !e.Datetime.Before(last)
			last = e.Datetime
		}
		order[i] = indexed{last, e}
	}
	if sorted {
		return
	}
	slices.SortStableFunc(order, func(a, b indexed) int { return a.at.Compare(b.at) })
	for i := range order {
		all[i] = order[i].e
	}
}

// ErrUnusable reports a package that cannot be used, for any reason.
var ErrUnusable = errors.New("a package of the dump cannot be used")

// unusable wraps an error of a package in ErrUnusable, and counts it. The end of ctx and a full
// disk are not the package's fault, and are returned as they are.
func (src *source) unusable(ctx context.Context, err error) error {
	if err = spaceError(err); ctx.Err() != nil || errors.Is(err, ErrRoom) {
		return err
	}
	src.counts.unusable.Add(1)
	return fmt.Errorf("%w: %w", ErrUnusable, err)
}

// Take implements follow.Taker as Mirror.Take does. It fetches a change only if the package lacks
// the content, or has other content than the manifest says.
func (b *Bundle) Handle(ctx context.Context, changes []follow.Change) (done int, err error) {
	return b.m.store(ctx, changes, func(e *payload.Entry) *packed {
		if e.Change == payload.Deleted || !b.packed[e.Path] {
			return nil
		}
		return &packed{from: b.from, path: e.Path, described: describedBy(e)}
	})
}

// Close closes the package. Its file stays until EndDumps.
func (b *Bundle) Close() error { return b.from.Close() }

// Discard closes the package and removes its file.
func (b *Bundle) Discard() error { return b.from.Discard() }

// EndDumps removes the files that are left of packages. No package may be open.
func (src *source) EndDumps() error { return src.packages.Sweep() }

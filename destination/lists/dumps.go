package lists

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"carillon/internal/legible"
	"carillon/payload"
)

// Package is one package of a dump, as the dump describes it. Nothing of the description is proven.
type Package struct {
	URI     string
	Type    string // media type; "" if absent, as for the other fields
	Hash    string
	LastMod string
	Length  int64 // bytes, -1 without a valid number
	// Manifest is where a copy of its manifest is (rel=contents, core §11.1).
	Manifest string
	// At and Completed are those of a package of resources, From and Until those of one of changes. A time
	// that the dump lacks for a package is the one for the whole dump, or follows from the packages beside
	// it; zero without either.
	At, Completed, From, Until time.Time
	Dump                       string // the document that lists it
}

// ResourceDump visits every package that the Resource Dump at uri lists, or the dumps of the
// index there (core §11), as they stand. A dump is read like a Resource List is by Resources.
// At of the Snapshot is the earliest moment of any package. A package at a host that is not
// trusted ends the reading with ErrOtherHost, before one of its dump is visited.
func (c *Client) ResourceDump(ctx context.Context, uri string, visit func(Package) error) (Snapshot,
	error,
) {
	r, at, err := c.begin(uri)
	if err != nil {
		return Snapshot{}, err
	}
	s := &snapshot{reading: r, want: payload.CapResourceDump}
	s.visit = func(ctx context.Context, d *document, at time.Time) (int, error) {
		var all []Package
		for _, p := range d.parts {
			p.at, p.completed = cmp.Or(p.at, at), cmp.Or(p.completed, d.head.CompletedTime)
			p.from, p.until = time.Time{}, time.Time{}
			if all, err = r.appendPackage(all, d, p); err != nil {
				return 0, err
			}
		}
		return visitPackages(ctx, all, visit)
	}
	err = s.read(ctx, at)
	s.Documents = s.documents
	return s.Snapshot, err
}

// ChangeDump visits the packages that end after since, of the Change Dump at uri or of an index of
// them (core §13), in the order of their beginnings. A zero since asks for every package. A package
// without an until is visited, as it may end later.
//
// Dumps follow on one another as Change Lists do in Changes, holes and the archive among them: its
// rules for lists, entries and errors hold here for dumps and packages. Up to Covered.Until the
// packages have every change, as far as the Source keeps its promise.
func (c *Client) ChangeDump(ctx context.Context, uri string, since time.Time,
	visit func(Package) error,
) (Covered, error) {
	w, at, err := c.walk(uri, payload.CapChangeDump, since)
	if err != nil {
		return Covered{}, err
	}
	w.visitAll = func(ctx context.Context, l *list) error {
		var all []Package
		for _, p := range l.packages() {
			if !p.until.IsZero() && !p.until.After(w.end) && !w.end.IsZero() {
				continue
			}
			if all, err = w.appendPackage(all, l.document, p); err != nil {
				return err
			}
		}
		n, err := visitPackages(ctx, all, visit)
		w.entries += n
		return err
	}
	err = w.begin(ctx, at)
	return w.covered(), err
}

// packages returns the packages of a Change Dump, in the order of their beginnings if the dump has
// those (core §13.1), with all known times.
func (l *list) packages() []part {
	parts := chronological(l.parts)
	from := l.from
	for i := range parts {
		p := &parts[i]
		p.from, p.at, p.completed = cmp.Or(p.from, from), time.Time{}, time.Time{}
		if p.until.IsZero() && i+1 < len(parts) {
			p.until = parts[i+1].from
		} else if p.until.IsZero() {
			p.until = l.until
		}
		from = cmp.Or(p.until, p.from)
	}
	return parts
}

// extremes returns the earliest and the latest moment that the entries of a list tell of.
func (d *document) extremes() (oldest, newest time.Time) {
	if d.index || !d.table {
		return d.oldest, d.newest
	}
	for _, p := range d.parts {
		if !p.from.IsZero() && (oldest.IsZero() || p.from.Before(oldest)) {
			oldest = p.from
		}
		newest = later(newest, p.until)
	}
	return oldest, newest
}

// appendPackage appends what a dump says of a package, if it says where it is.
func (r *reading) appendPackage(to []Package, d *document, p part) ([]Package, error) {
	if p.loc == "" {
		return to, nil
	}
	at, err := r.lead(d.uri, p.loc)
	if err != nil {
		return to, err
	}
	one := Package{
		URI: at.String(), Type: p.mediaType, Hash: p.hash, LastMod: p.lastMod, Length: -1,
		At: p.at, Completed: p.completed, From: p.from, Until: p.until, Dump: d.uri.String(),
	}
	if n, err := strconv.ParseInt(p.length, 10, 64); err == nil && n >= 0 {
		one.Length = n
	}
	if p.contents != "" {
		manifest, err := r.lead(d.uri, p.contents)
		if err == nil {
			one.Manifest = manifest.String()
		} else {
			r.c.cfg.Logger.Warn("the copy of a package's manifest is not read", "uri",
				legible.Cut(p.contents), "reason", legible.Cut(err.Error()))
		}
	}
	return append(to, one), nil
}

// visitPackages returns how many it visited.
func visitPackages(ctx context.Context, all []Package, visit func(Package) error) (n int,
	err error,
) {
	for i := range all {
		if err := ctx.Err(); err != nil {
			return i, err
		}
		if err := visit(all[i]); err != nil {
			return i, err
		}
	}
	return len(all), nil
}

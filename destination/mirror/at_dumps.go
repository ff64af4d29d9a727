package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/destination/lists"
	"carillon/destination/packages"
	"carillon/internal/digests"
	"carillon/internal/legible"
	"carillon/payload"
)

// wanted is how one BaselineAt takes content from dumps.
type wanted struct {
	m      *source
	from   Past
	set    lists.Set
	moment time.Time
	// missing is how many resources the mirror does not have as they were.
	missing int64
	// begun is the moment of the newest Resource Dump before the wanted one. Resources that it lacks
	// changed since. Without such a dump it is the beginning of time.
	begun time.Time
	// done are the resources that packages had.
	done seenLocs
	// row is how many packages in a row could not be used.
	row int
}

// errEnough ends the reading of dumps: nothing is missing any more, or what comes is of later.
var errEnough = errors.New("enough was read")

// storeDumped takes from dumps what the Ledger has: from the newest Resource Dump before the moment,
// from the Change Dumps up to it, and from the first Resource Dump after it. It reports a dump that
// cannot be read, and skips it: its resources are fetched one by one. It returns the resources that
// packages had.
func (src *source) storeDumped(
	ctx context.Context, from Past, set lists.Set, seen *Seen,
) (done *seenLocs, err error) {
	w := &wanted{m: src, from: from, set: set, moment: seen.Position, begun: time.Unix(0, 0)}
	if err := w.count(ctx); err != nil {
		return nil, err
	}
	before, after, err := w.resourceDumps(ctx)
	if err == nil && before.uri != "" {
		w.begun = before.at
		err = w.resources(ctx, before.uri)
	}
	if err == nil {
		err = w.changes(ctx)
	}
	if err == nil && after.uri != "" {
		err = w.resources(ctx, after.uri)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return &w.done, errors.Join(err, src.EndDumps())
}

// count counts what is missing.
func (w *wanted) count(ctx context.Context) error {
	return w.m.pairs(ctx, func(r *Resource, c *Copy) error {
		here := c != nil && c.State == Whole && c.File != nil
		if r != nil && r.Change != undecided && (!here || !w.m.same(c, &r.Described)) {
			w.missing++
		}
		return nil
	})
}

// passOver logs an error that makes a document useless, and returns any other.
func (w *wanted) passOver(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil || !passesOver(err) {
		return err
	}
	w.m.cfg.Logger.Warn("dumps of the past are not used: what they have is asked for by itself",
		"document", legible.Cut(what), "reason", legible.Cut(err.Error()))
	return nil
}

// resourceDumps returns the newest Resource Dump before the moment and the first one after it.
func (w *wanted) resourceDumps(ctx context.Context) (before, after state, err error) {
	nearest := func(uri string, at, _ time.Time) {
		switch {
		case at.IsZero():
		case !at.After(w.moment) && at.After(before.at):
			before = state{uri: uri, at: at}
		case at.After(w.moment) && (after.at.IsZero() || at.Before(after.at)):
			after = state{uri: uri, at: at}
		}
	}
	err = eachState(ctx, w.from, w.set.ResourceDump, w.set.ResourceDumpArchive,
		payload.CapResourceDumpArchive, nearest)
	return before, after, w.passOver(ctx, w.set.ResourceDumpArchive, err)
}

// resources takes what a Resource Dump has.
func (w *wanted) resources(ctx context.Context, uri string) error {
	_, err := w.from.ResourceDump(ctx, uri, func(p lists.Package) error {
		return w.store(ctx, p, payload.CapResourceDumpManifest)
	})
	return w.passOver(ctx, uri, err)
}

// changes takes what Change Dumps have from begun up to the moment.
func (w *wanted) changes(ctx context.Context) error {
	visit := func(p lists.Package) error {
		if p.From.After(w.moment) {
			return errEnough
		}
		return w.store(ctx, p, payload.CapChangeDumpManifest)
	}
	err := w.archivedChanges(ctx, visit)
	if errors.Is(err, errEnough) && w.missing > 0 {
		return nil // the rest is of later
	}
	return err
}

func (w *wanted) archivedChanges(ctx context.Context, visit func(lists.Package) error) error {
	if w.set.ChangeDump != "" {
		since := w.begun
		_, err := w.from.ChangeDump(ctx, w.set.ChangeDump, since, visit)
		if gone := (*lists.GoneError)(nil); errors.As(err, &gone) && gone.Earliest.After(since) {
			_, err = w.from.ChangeDump(ctx, w.set.ChangeDump, gone.Earliest, visit)
		}
		return w.passOver(ctx, w.set.ChangeDump, err)
	}
	if w.set.ChangeDumpArchive == "" {
		return nil
	}
	archive := w.set.ChangeDumpArchive
	err := w.from.Archive(ctx, archive, payload.CapChangeDumpArchive, func(a lists.Archived) error {
		if a.From.After(w.moment) || !a.Until.IsZero() && a.Until.Before(w.begun) {
			return nil
		}
		_, err := w.from.ChangeDump(ctx, a.URI, time.Time{}, visit)
		return w.passOver(ctx, a.URI, err)
	})
	return w.passOver(ctx, archive, err)
}

// store takes what a package has of what is missing.
func (w *wanted) store(ctx context.Context, described lists.Package, capability string) error {
	if w.missing <= 0 || w.row == maxUnusable {
		return errEnough
	}
	m := w.m
	m.counts.packageTotal.Add(max(described.Length, 0))
	from, err := m.packages.Open(ctx, described)
	if err == nil {
		before := m.counts.unpacked.Load()
		p := m.newPool(ctx)
		var fault error // of the mirror
		err = from.Manifest(capability, func(_ payload.Header, e packages.Entry) error {
			fault = w.entry(ctx, p, from, e)
			return fault
		})
		waited := p.wait()
		w.missing -= m.counts.unpacked.Load() - before
		if err := errors.Join(fault, waited); err != nil {
			return errors.Join(err, from.Close())
		}
		if err == nil {
			w.row = 0
			m.counts.packages.Add(1)
			return from.Discard()
		}
		err = errors.Join(err, from.Discard())
	}
	if err = m.unusable(ctx, err); !errors.Is(err, ErrUnusable) {
		return err
	}
	w.row++
	m.cfg.Logger.Warn("a package of the past is not used: what it has is asked for by itself",
		"package", legible.Cut(described.URI), "reason", legible.Cut(err.Error()))
	return nil
}

// entry submits the content of an entry, if it may be what the resource was at the moment.
func (w *wanted) entry(
	ctx context.Context, p *pool, from *packages.Package, e packages.Entry,
) error {
	if !e.Packed || e.Loc == "" || len(e.Loc) > maxLoc {
		return nil
	}
	r, err := w.m.cfg.Ledger.Resource(ctx, e.Loc)
	if errors.Is(err, ErrNone) {
		return nil // it was not there
	}
	manifest := describedBy(&e.Entry)
	if err != nil || !asItWas(&r.Described, &manifest) {
		return err
	}
	if w.done.has(e.Loc) { // an earlier package may have had it as it was
		c, err := w.m.cfg.Catalog.Copy(ctx, e.Loc)
		if w.done.settled(&r, &c) || err != nil && !errors.Is(err, ErrNone) {
			return err
		}
	}
	w.done.add(e.Loc)
	content := &packed{from: from, path: e.Path, described: manifest}
	return p.submit(&job{loc: r.Loc, described: r.Described, packed: content, packedOnly: true})
}

// asItWas reports whether the content of a manifest's entry may be what a resource was. The content
// is compared with the Source's hash in any case. The manifest's datetime proves nothing: a Change
// Dump may hold what the resource was when the dump was made (core §13.2 does not say otherwise).
func asItWas(described, manifest *Described) bool {
	a, b := described.size(), manifest.size()
	if described.Change == undecided || a >= 0 && b >= 0 && a != b {
		return false
	}
	known, _ := digests.Parse(described.Hash)
	_, contradicted := compareHashes(described.Hash, manifest.Hash)
	return len(known) > 0 && !contradicted
}

// bitstream is note for an entry of a Resource Dump Manifest.
func (n *recorder) bitstream(_ payload.Header, e packages.Entry) error {
	if e.Loc == "" {
		return fmt.Errorf("%w: a bitstream has no loc", packages.ErrManifest)
	}
	return n.resource(e.Entry)
}

package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon/destination/lists"
	"carillon/destination/packages"
	"carillon/internal/digests"
	"carillon/internal/legible"
	"carillon/payload"
)

// dumped is how one Baseline takes content from a Resource Dump.
type dumped struct {
	m    *source
	seen *Seen
	// listed: a Resource List says what the set is. Otherwise the manifests do.
	listed   bool
	recorder recorder
	// row is how many packages in a row could not be used.
	row int
	// done are the resources that packages had, and deleted those that the Source deleted after the
	// dump was made, as far as notOlder looked.
	done, deleted seenLocs
}

// fromDump takes what a Resource Dump has of the set, where it is to be used; nil where it is not.
func (src *source) fromDump(ctx context.Context, from Lists, set lists.Set, seen *Seen) (*dumped, error) {
	d := &dumped{m: src, seen: seen, listed: set.ResourceList != "", recorder: recorder{ctx: ctx, m: src}}
	dumps, able := from.(Dumps)
	switch {
	case set.ResourceDump == "" || !able:
		if src.cfg.Dump == DumpOnly {
			return nil, fmt.Errorf("%w: a Resource Dump", lists.ErrNone)
		}
		return nil, nil
	case src.cfg.Dump == DumpNever || src.cfg.Dump == "":
		return nil, nil
	}
	worth := src.cfg.Dump == DumpOnly || !d.listed
	if !worth {
		var begun bool
		var err error
		if worth, err = src.worthDump(ctx); err == nil && !worth {
			begun, err = src.packages.Begun()
		}
		if err != nil || !worth && !begun {
			return nil, err
		}
	}
	all, snapshot, err := src.packagesOf(ctx, dumps, set.ResourceDump)
	switch {
	case err != nil && (ctx.Err() != nil || src.cfg.Dump == DumpOnly || !d.listed):
		return nil, err
	case err != nil:
		src.cfg.Logger.Warn(
			"the Resource Dump cannot be read: resources are fetched one by one", "error", legible.Cut(err.Error()),
		)
		return nil, nil
	case !worth && !slices.ContainsFunc(all, src.packages.Has):
		return nil, nil // the begun download is of another dump
	}
	if !d.listed {
		if seen.At = snapshot.At; ahead(seen.At) {
			seen.At = time.Time{}
		}
		seen.Position, seen.Unopened = seen.At, snapshot.Unnamed
	}
	if err = d.notOlder(ctx, from, set); err != nil {
		return nil, err
	}
	return d, d.storeAll(ctx, all)
}

// packagesOf returns the packages that a Resource Dump lists, each once.
func (src *source) packagesOf(
	ctx context.Context, from Dumps, uri string,
) (all []lists.Package, snapshot lists.Snapshot, err error) {
	known := map[string]bool{}
	snapshot, err = from.ResourceDump(ctx, uri, func(p lists.Package) error {
		switch {
		case known[p.URI]:
			return nil
		case len(all) == maxPackages:
			return fmt.Errorf("%w: %s lists more than %d packages", lists.ErrLoop, legible.Cut(uri), maxPackages)
		}
		known[p.URI] = true
		all = append(all, p)
		return nil
	})
	return all, snapshot, err
}

// worthDump reports whether more than half of the set is missing here.
func (src *source) worthDump(ctx context.Context) (bool, error) {
	all, missing := 0, 0
	err := src.pairs(ctx, func(r *Resource, c *Copy) error {
		if r == nil {
			return nil
		}
		all++
		if c == nil || c.File == nil || !same(c, &r.Described) {
			missing++
		}
		return nil
	})
	return 2*missing > all, err
}

// opened is a package, or the error that kept it closed.
type opened struct {
	described lists.Package
	*packages.Package
	err error
}

// storeAll takes package after package, and downloads the next one meanwhile.
func (d *dumped) storeAll(ctx context.Context, all []lists.Package) error {
	ctx, cancel := context.WithCancel(ctx)
	next := make(chan opened)
	go func() {
		defer close(next)
		for _, p := range all {
			if d.listed && d.m.packages.Used(p) {
				continue // a run that was interrupted has taken it
			}
			o := opened{described: p}
			o.Package, o.err = d.m.packages.Open(ctx, p)
			select {
			case next <- o:
			case <-ctx.Done():
				if o.err == nil {
					_ = o.Close()
				}
				return
			}
		}
	}()
	defer func() {
		cancel()
		for o := range next {
			if o.err == nil {
				_ = o.Close()
			}
		}
	}()
	for _, p := range all {
		d.m.counts.packageTotal.Add(max(p.Length, 0))
	}
	for o := range next {
		if err := d.storeOne(ctx, &o); err != nil {
			return err
		}
		if d.row == maxUnusable && d.listed && d.m.cfg.Dump == DumpAuto {
			d.m.cfg.Logger.Warn(
				"the Resource Dump is not used any further: what it has is fetched by GET",
				"unusable_packages_in_a_row", d.row,
			)
			break
		}
	}
	return errors.Join(ctx.Err(), d.recorder.flush())
}

// storeOne takes what a package has. An error is trouble of the mirror itself; a package that cannot
// be used is reported, and passed over.
func (d *dumped) storeOne(ctx context.Context, o *opened) error {
	if o.err == nil {
		p := d.m.newPool(ctx)
		var fault error // of the mirror
		o.err = o.Manifest(payload.CapResourceDumpManifest, func(h payload.Header, e packages.Entry) error {
			fault = d.entry(ctx, p, o.Package, &h, e)
			return fault
		})
		waited := p.wait()
		if err := errors.Join(fault, waited); err != nil {
			return errors.Join(err, o.Close())
		}
		if o.err == nil {
			d.row = 0
			d.m.counts.packages.Add(1)
			return d.used(o.Package)
		}
		_ = o.Close()
	}
	if err := d.m.unusable(ctx, o.err); !errors.Is(err, ErrUnusable) {
		return err
	}
	d.row++
	next := "its resources are fetched by GET"
	switch {
	case !d.listed:
		d.seen.Unopened++
		next = "its resources are not known, so that nothing is deleted"
	case d.m.cfg.Dump == DumpOnly:
		next = "its resources are not mirrored"
	}
	d.m.cfg.Logger.Warn(
		"a package of the Resource Dump is not used", "package", legible.Cut(o.described.URI),
		"error", legible.Cut(o.err.Error()), "next", next,
	)
	return nil
}

// used ends the use of a package. Where its manifest says what the set is, a run that is interrupted
// will need it again.
func (d *dumped) used(p *packages.Package) error {
	if d.listed {
		return p.Discard()
	}
	return p.Close()
}

// entry submits what a manifest says of a resource, if that is of use.
func (d *dumped) entry(
	ctx context.Context, p *pool, from *packages.Package, h *payload.Header, e packages.Entry,
) error {
	at := h.AtTime
	if at.IsZero() {
		at = from.At
	}
	if ahead(at) {
		at = time.Time{}
	}
	if !d.listed {
		return d.whole(p, from, e)
	}
	if !e.Packed || e.Loc == "" || len(e.Loc) > maxLoc {
		return nil
	}
	r, err := d.m.cfg.Ledger.Resource(ctx, e.Loc)
	if errors.Is(err, ErrNone) {
		return nil // it is not listed any more
	}
	if err != nil {
		return err
	}
	described := describedBy(&e.Entry)
	if !current(&r.Described, &described, d.seen.At, at) {
		return nil // it is fetched
	}
	return d.submit(p, r.Loc, r.Described, &packed{from, e.Path, described, d.seen.At})
}

// whole records a resource of a Source without a Resource List, and submits it.
func (d *dumped) whole(p *pool, from *packages.Package, e packages.Entry) error {
	if e.Loc == "" {
		d.seen.Unopened++
		return nil
	}
	e.Change, e.Datetime = "", time.Time{}
	d.m.counts.total.Add(1)
	d.seen.Entries++
	err := d.recorder.resource(e.Entry)
	if err != nil || len(e.Loc) > maxLoc || !e.Packed || d.deleted.has(e.Loc) {
		return err
	}
	described := describedBy(&e.Entry)
	return d.submit(p, e.Loc, described, &packed{from, e.Path, described, d.seen.At})
}

func (d *dumped) submit(p *pool, loc string, described Described, content *packed) error {
	d.done.add(loc)
	return p.submit(&job{loc: loc, described: described, packed: content})
}

// has reports whether a package had the resource as described, so that nothing is left to be done for
// it.
func (d *dumped) has(r *Resource, c *Copy) bool { return d != nil && d.done.settled(r, c) }

// current reports whether content that a manifest lists, packed at some moment or later, may match the
// Source's description: by hashes, else by the time of the last modification, or of the change. It is
// compared in any case when it is unpacked.
func current(described, manifest *Described, listed, packedAt time.Time) bool {
	if a, b := described.size(), manifest.size(); a >= 0 && b >= 0 && a != b {
		return false
	}
	if proven, contradicted := compareHashes(described.Hash, manifest.Hash); contradicted {
		return false
	} else if proven {
		return true
	}
	modified, packedModified := described.modified(), manifest.modified()
	switch {
	case modified.IsZero() || packedModified.IsZero():
	case packedModified.Before(modified):
		return false // whenever it was packed
	case described.Change == "" && modified.Equal(packedModified):
		return true
	}
	// Between its last modification and the moment of the list nothing happened to it (core §10.1).
	known := described.Datetime
	switch {
	case described.Change != "":
	case !modified.IsZero():
		known = modified
	default:
		known = listed
	}
	return !known.IsZero() && known.Before(packedAt)
}

// compareHashes reports whether two texts of hashes have one in common, and whether an algorithm of
// both has different ones.
func compareHashes(a, b string) (proven, contradicted bool) {
	first, _ := digests.Parse(a)
	second, _ := digests.Parse(b)
	for _, one := range first {
		for _, other := range second {
			if one.Algorithm == other.Algorithm {
				proven = proven || one.Hex == other.Hex
				contradicted = contradicted || one.Hex != other.Hex
			}
		}
	}
	return proven, contradicted
}

// ErrOlder reports that a Resource Dump is of an earlier moment than the copies, and that no Change
// List leads from the dump to that moment. Such a dump would bring back what was deleted since.
var ErrOlder = errors.New("the Source's Resource Dump is older than the mirror")

// position returns up to when the copies have every change; zero if that is unknown.
func (src *source) position(ctx context.Context) (time.Time, error) {
	if src.cfg.Positions == nil {
		return time.Time{}, nil
	}
	if src.cfg.Homes != nil {
		// Unless it is begun, other programs took the changes up to the position. A mirror of a
		// moment is brought to any other, as BaselineAt does.
		if h, err := src.cfg.Homes.Home(ctx); err != nil || !h.Begun || !h.Moment.IsZero() {
			return time.Time{}, err
		}
	}
	at, err := src.cfg.Positions.Position(ctx)
	return at.At, err
}

// notOlder returns ErrOlder unless the state that a dump leads to is at least as new as the copies.
// It changes no copy, and remembers in d what the Source deleted after the dump was made.
func (d *dumped) notOlder(ctx context.Context, from Lists, set lists.Set) error {
	m, at := d.m, d.seen.At
	position, err := m.position(ctx)
	if err != nil || at.IsZero() || !position.After(at) {
		return err
	}
	switch {
	case m.cfg.Dump == DumpOnly:
		return older(at, position, "--dump auto also reads the Source's lists")
	case set.ChangeList == "":
		return older(at, position, "the Source has no Change List")
	}
	covered, err := from.Changes(ctx, set.ChangeList, at, func(e payload.Entry) error {
		if e.Change == payload.Deleted {
			d.deleted.add(e.Loc)
		}
		return nil
	})
	forget(from) // the changes are read again when the dump was taken
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return older(at, position, "the Change List does not help: "+legible.Cut(err.Error()))
	case !covered.Open && covered.Until.Before(position):
		return older(at, position, "the Change Lists end at "+payload.FormatDatetime(covered.Until))
	}
	return nil
}

// older is ErrOlder with both moments, and with a remark.
func older(at, position time.Time, remark string) error {
	return fmt.Errorf("%w: it is of %s, and the mirror has all changes up to %s. What was deleted since would come "+
		"back, so nothing was changed. Take what has changed since with destination incremental, or wait for a newer "+
		"dump (%s)", ErrOlder, payload.FormatDatetime(at), payload.FormatDatetime(position), remark)
}

package mirror

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"carillon/destination/lists"
	"carillon/destination/packages"
	"carillon/internal/digests"
	"carillon/internal/legible"
	"carillon/internal/unpack"
	"carillon/payload"
)

// DumpMode says when content is taken from the packages of a dump.
type DumpMode string

// The modes.
const (
	// DumpNever fetches each resource by itself.
	DumpNever DumpMode = "never"
	// DumpAuto uses a Resource Dump where more than half of the set is missing here, and fetches
	// what the dump lacks, has too old, or has wrong.
	DumpAuto DumpMode = "auto"
	// DumpOnly uses packages, and fetches no resource by itself.
	DumpOnly DumpMode = "only"
)

const (
	// packagesName is the directory below ownName for packages.
	packagesName = "packages"
	// maxPackageBytes bounds what a package may have unpacked: 1 TiB. What is unpacked is bounded by
	// Config.MaxBytes and Config.MinFree too.
	maxPackageBytes = 1 << 40
	// maxPackages bounds how many packages a Resource Dump may list: they are in memory.
	maxPackages = 100_000
	// maxUnusable is after how many packages in a row that cannot be used a dump is given up, where
	// all that it has can be fetched otherwise.
	maxUnusable = 8
)

// Dumps reads what dumps list. A Lists that is one has its Resource Dump used.
type Dumps interface {
	ResourceDump(ctx context.Context, uri string, visit func(lists.Package) error) (lists.Snapshot, error)
}

func newPackages(w *worker) *packages.Client {
	dir, room := filepath.Join(w.cfg.Dir, ownName, packagesName), w.tree.room
	if w.cfg.Packages != "" {
		dir, room = w.cfg.Packages, newRoom(filepath.Dir(w.cfg.Packages), w.cfg.MinFree)
	}
	return packages.New(packages.Config{
		Dir: dir, Transport: w.cfg.Transport, UserAgent: w.cfg.UserAgent, Trusts: w.cfg.Trusts,
		Logger: w.cfg.Logger, Room: room.take,
		Came:   func(n int64) { w.counts.packageBytes.Add(n) },
		Limits: unpack.Limits{Bytes: maxPackageBytes, EntryBytes: maxPackageBytes},
	})
}

// listedByDump reports whether a Source without a Resource List has its Resource Dump say what it has.
func (src *source) listedByDump(set lists.Set) bool {
	return set.ResourceDump != "" && src.dumps()
}

// packed is a content in a package.
type packed struct {
	from *packages.Package
	path string
	told Told // by the manifest
	// listed is the moment of the list that the job's told is from; zero for a change.
	listed time.Time
}

// takePacked has the copy be what the package has, if that is what the Source told. done is false
// where the content must come from elsewhere.
func (w *worker) takePacked(ctx context.Context, j *job) (done bool, err error) {
	got, err := w.unpack(ctx, j)
	if err == nil {
		if err = w.put(j, got); err == nil {
			w.counts.unpacked.Add(1)
		}
		return true, err
	}
	if ctx.Err() != nil || errors.Is(err, ErrRoom) {
		return false, err
	}
	w.counts.spoiled.Add(1)
	if w.lines.may(w.cfg.Logger) {
		next := "it is fetched by GET"
		if w.cfg.Dump == DumpOnly {
			next = "it is not mirrored"
		}
		w.cfg.Logger.Warn("the content in a package is not used", "loc", legible.Cut(j.loc), "package", legible.Cut(j.packed.from.URI),
			"reason", legible.Cut(err.Error()), "next", next)
	}
	return false, nil
}

// unpack writes the content of a package into a file, and compares it with what the Source told and
// with what the manifest tells.
func (w *worker) unpack(ctx context.Context, j *job) (*fetched, error) {
	p := j.packed
	want := j.told
	size, manifest := want.size(), p.told.size()
	switch {
	case size >= 0 && manifest >= 0 && size != manifest:
		return nil, failed("the manifest tells %d bytes, and the Source told %d", manifest, size)
	case size < 0:
		want.Length = p.told.Length
	}
	if size = want.size(); size > w.cfg.MaxBytes {
		return nil, failed("it has %d bytes, more than the limit of %d", size, w.cfg.MaxBytes)
	}
	if want.Hash != p.told.Hash {
		want.Hash += " " + p.told.Hash
	}
	content, err := p.from.Content(p.path)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	got := &fetched{modified: p.told.modified(), encoding: p.told.Encoding}
	if err = w.fetch.write(got, onlyReader{ctx, content}, -1, &want); err != nil {
		if got.file != nil {
			got.file.discard()
		}
		return nil, err
	}
	return got, nil
}

// dumped is how one Baseline takes content from a Resource Dump.
type dumped struct {
	m    *source
	seen *Seen
	// listed: a Resource List says what the set is. Otherwise the manifests do.
	listed bool
	noting noting
	// row is how many packages in a row could not be used.
	row int
	// done are the resources that packages had, and deleted those that the Source deleted after the
	// dump was made, as far as notOlder looked.
	done, deleted memory
}

// fromDump takes what a Resource Dump has of the set, where it is to be used; nil where it is not.
func (src *source) fromDump(ctx context.Context, from Lists, set lists.Set, seen *Seen) (*dumped, error) {
	d := &dumped{m: src, seen: seen, listed: set.ResourceList != "", noting: noting{ctx: ctx, m: src}}
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
		src.cfg.Logger.Warn("the Resource Dump cannot be read: resources are fetched one by one", "error", legible.Cut(err.Error()))
		return nil, nil
	case !worth && !slices.ContainsFunc(all, src.packages.Has):
		return nil, nil // what was begun is of another dump
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
	return d, d.takeAll(ctx, all)
}

// packagesOf returns the packages that a Resource Dump lists, each once.
func (src *source) packagesOf(ctx context.Context, from Dumps, uri string) (all []lists.Package, snapshot lists.Snapshot, err error) {
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
		if c == nil || c.File == nil || !same(c, &r.Told) {
			missing++
		}
		return nil
	})
	return 2*missing > all, err
}

// opened is a package, or why there is none.
type opened struct {
	told lists.Package
	*packages.Package
	err error
}

// takeAll takes package after package, and downloads the next one meanwhile.
func (d *dumped) takeAll(ctx context.Context, all []lists.Package) error {
	ctx, cancel := context.WithCancel(ctx)
	next := make(chan opened)
	go func() {
		defer close(next)
		for _, p := range all {
			if d.listed && d.m.packages.Used(p) {
				continue // a run that was interrupted has taken it
			}
			o := opened{told: p}
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
		if err := d.takeOne(ctx, &o); err != nil {
			return err
		}
		if d.row == maxUnusable && d.listed && d.m.cfg.Dump == DumpAuto {
			d.m.cfg.Logger.Warn("the Resource Dump is not used any further: what it has is fetched by GET", "unusable_packages_in_a_row", d.row)
			break
		}
	}
	return errors.Join(ctx.Err(), d.noting.flush())
}

// takeOne takes what a package has. An error is trouble of the mirror itself; a package that cannot
// be used is reported, and passed over.
func (d *dumped) takeOne(ctx context.Context, o *opened) error {
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
	d.m.cfg.Logger.Warn("a package of the Resource Dump is not used", "package", legible.Cut(o.told.URI), "error", legible.Cut(o.err.Error()), "next", next)
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
func (d *dumped) entry(ctx context.Context, p *pool, from *packages.Package, h *payload.Header, e packages.Entry) error {
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
	told := toldBy(&e.Entry)
	if !current(&r.Told, &told, d.seen.At, at) {
		return nil // it is fetched
	}
	return d.submit(p, r.Loc, r.Told, &packed{from, e.Path, told, d.seen.At})
}

// whole notes a resource of a Source without a Resource List, and submits it.
func (d *dumped) whole(p *pool, from *packages.Package, e packages.Entry) error {
	if e.Loc == "" {
		d.seen.Unopened++
		return nil
	}
	e.Change, e.Datetime = "", time.Time{}
	d.m.counts.total.Add(1)
	d.seen.Entries++
	err := d.noting.note(e.Entry)
	if err != nil || len(e.Loc) > maxLoc || !e.Packed || d.deleted.has(e.Loc) {
		return err
	}
	told := toldBy(&e.Entry)
	return d.submit(p, e.Loc, told, &packed{from, e.Path, told, d.seen.At})
}

func (d *dumped) submit(p *pool, loc string, told Told, content *packed) error {
	d.done.add(loc)
	return p.submit(&job{loc: loc, told: told, packed: content})
}

// has reports whether a package had the resource as it is told, so that nothing is left to be done
// for it.
func (d *dumped) has(r *Resource, c *Copy) bool { return d != nil && d.done.settled(r, c) }

// current reports whether a content that a manifest tells of, packed at some moment or later, may be
// what the Source told: by hashes, else by the time of the last modification, or of the change. It is
// compared in any case when it is unpacked.
func current(told, manifest *Told, listed, packedAt time.Time) bool {
	if a, b := told.size(), manifest.size(); a >= 0 && b >= 0 && a != b {
		return false
	}
	if proven, contradicted := compareHashes(told.Hash, manifest.Hash); contradicted {
		return false
	} else if proven {
		return true
	}
	modified, packedModified := told.modified(), manifest.modified()
	switch {
	case modified.IsZero() || packedModified.IsZero():
	case packedModified.Before(modified):
		return false // whenever it was packed
	case told.Change == "" && modified.Equal(packedModified):
		return true
	}
	// Between its last modification and the moment of the list nothing happened to it (core §10.1).
	known := told.Datetime
	switch {
	case told.Change != "":
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

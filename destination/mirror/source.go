package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"carillon/destination/lists"
	"carillon/destination/packages"
	"carillon/internal/legible"
	"carillon/internal/unpack"
	"carillon/payload"
)

// Lists reads what a Source lists: *lists.Client does.
type Lists interface {
	Resources(
		ctx context.Context, uri string, visit func(payload.Entry) error,
	) (lists.Snapshot, error)
	Changes(
		ctx context.Context, uri string, since time.Time, visit func(payload.Entry) error,
	) (lists.Covered, error)
}

// Seen is what the lists of a Source have shown.
type Seen struct {
	// At is the moment of the Resource List; zero where the Source does not tell. Position
	// is from when on changes are not in it: At, or later where the Change List was read too.
	At, Position time.Time
	// Entries is how many resources the Resource List has, Changes how many changes since. Overlong
	// are those of both whose loc is too long to be asked for.
	Entries, Changes, Overlong int
	// Unnamed is how many of the Resource List have no loc.
	Unnamed int
	// Unopened is how many packages of the Resource Dump could not be used, plus how many entries of
	// manifests have no loc, where only the dump says what the set is.
	Unopened int
	// Unread is why the changes since are not known, though the Source has a Change List.
	Unread error
}

// partial is how much of what the Source lists is not known.
func (s *Seen) partial() int { return s.Unnamed + s.Unopened }

// source reads what a Source has: into the Ledger, and from there into the copies.
type source struct {
	*worker
	packages *packages.Client // of dumps that are being read
}

// expect puts what the Source has into the Ledger.
func (src *source) expect(ctx context.Context, from Lists, set lists.Set) (Seen, error) {
	switch {
	case src.cfg.Ledger == nil:
		return Seen{}, errors.New("there is no ledger")
	case set.ResourceList == "" && !src.listedByDump(set):
		return Seen{}, fmt.Errorf("%w: a Resource List", lists.ErrNone)
	}
	if err := src.cfg.Ledger.Clear(ctx); err != nil {
		return Seen{}, err
	}
	forget(from) // the earlier entries are not in the Ledger
	if set.ResourceList == "" {
		return Seen{}, nil // the manifests of the dump say what the set is
	}
	n := recorder{ctx: ctx, m: src}
	snapshot, err := from.Resources(ctx, set.ResourceList, n.resource)
	if err = errors.Join(err, n.flush()); err != nil {
		return Seen{}, err
	}
	if ahead(snapshot.At) {
		src.cfg.Logger.Warn(
			"the Resource List is of a moment in the future, which is not believed (core §10.1: at)",
			"at", snapshot.At)
		snapshot.At = time.Time{}
	}
	seen := Seen{
		At: snapshot.At, Position: snapshot.At,
		Entries: n.count, Unnamed: snapshot.Unnamed, Overlong: n.overlong,
	}
	if set.ChangeList != "" && src.cfg.Dump != DumpOnly {
		err = src.expectChanges(ctx, from, set.ChangeList, &seen)
	}
	return seen, err
}

// expectChanges puts what changed since the Resource List into the Ledger: everything in the Change
// List, if the moment of the Resource List is unknown.
func (src *source) expectChanges(ctx context.Context, from Lists, uri string, seen *Seen) error {
	n := recorder{ctx: ctx, m: src}
	covered, err := from.Changes(ctx, uri, seen.At, n.change)
	if flushed := n.flush(); flushed != nil {
		return flushed
	}
	seen.Changes, seen.Overlong = n.count, seen.Overlong+n.overlong
	until := covered.Until
	if n.odd || ahead(until) {
		until = n.newest // up to there the list certainly is
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		seen.Unread = err
		src.cfg.Logger.Warn("the changes since the Resource List are not known", "error", legible.Cut(err.Error()))
	case until.After(seen.Position):
		seen.Position = until
	}
	return nil
}

// pairs calls each with every resource of the Ledger and its copy, by the bytes of their locs; nil
// where there is only one of the two.
func (src *source) pairs(ctx context.Context, each func(*Resource, *Copy) error) error {
	nextResource, stopResources := iter.Pull2(src.cfg.Ledger.Resources(ctx))
	defer stopResources()
	nextCopy, stopCopies := iter.Pull2(src.cfg.Catalog.All(ctx))
	defer stopCopies()
	r, errR, moreR := nextResource()
	c, errC, moreC := nextCopy()
	for moreR || moreC {
		if err := errors.Join(errR, errC); err != nil {
			return err
		}
		onlyR := moreR && (!moreC || r.Loc < c.Loc)
		onlyC := moreC && (!moreR || c.Loc < r.Loc)
		var err error
		switch {
		case onlyR:
			err = each(&r, nil)
		case onlyC:
			err = each(nil, &c)
		default:
			err = each(&r, &c)
		}
		if err != nil {
			return err
		}
		if !onlyC {
			r, errR, moreR = nextResource()
		}
		if !onlyR {
			c, errC, moreC = nextCopy()
		}
	}
	return nil
}

// holdBack gives the reason why nothing is to be deleted of what is not listed; nil where it may be.
// past: the copies are to be those of a moment, at which what was changed later was not there.
func (src *source) holdBack(ctx context.Context, seen *Seen, past bool) (held, err error) {
	if !src.cfg.Delete && seen.partial() == 0 {
		return nil, nil
	}
	var d deletions
	err = src.pairs(ctx, func(r *Resource, c *Copy) error {
		if c != nil {
			d.count(c, r == nil && (past || !earlier(seen.Position, c.Described.Datetime)))
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case seen.Unopened > 0 || seen.Unnamed > 0 && d.of > d.kept:
		return fmt.Errorf("%w: %d entries; of the %d copies that are not listed none was deleted",
			ErrNotWhole, seen.partial(), d.of-d.kept), nil
	case !src.cfg.Delete:
		return nil, nil
	}
	return d.tooMany(src.cfg.MaxDelete), nil
}

// bring brings the copies to what the Ledger has. It leaves out what is done.
func (src *source) bring(
	ctx context.Context, seen *Seen, held error, done func(*Resource, *Copy) bool,
) error {
	p := src.newPool(ctx)
	err := src.pairs(ctx, func(r *Resource, c *Copy) error {
		switch {
		case r != nil && done(r, c):
			return nil
		case r != nil:
			return p.submit(&job{loc: r.Loc, described: r.Described})
		case seen.partial() > 0, c.State == Gone && (!src.cfg.Delete || held != nil):
			return nil
		}
		// Resources changed after the position stay: their state is not known here.
		gone := deletion(seen.Position)
		return p.submit(&job{loc: c.Loc, described: gone, unlisted: true, keep: held != nil})
	})
	if waited := p.wait(); waited != nil {
		err = waited
	}
	return err
}

// deletions are those that would be carried out in one step.
type deletions struct{ copies, of, kept int }

// count counts a copy, and whether it is to be deleted.
func (d *deletions) count(c *Copy, is bool) {
	if c.File == nil {
		return
	}
	d.copies++
	if is {
		d.of++
	}
	if is && c.State == Gone {
		d.kept++
	}
}

// tooMany is ErrTooMany where there are more than may be.
func (d *deletions) tooMany(most Share) error {
	if limit := most.Of(d.copies); d.of > limit {
		return fmt.Errorf("%w: %d of %d copies, and --max-delete %s is %d: no file was removed, they are "+
			"recorded. If the Source has deleted them, give a larger --max-delete with --delete",
			ErrTooMany, d.of, d.copies, most, limit)
	}
	return nil
}

// forget has the next reading of lists give all that they list, also what was read before.
func forget(from any) {
	if c, ok := from.(interface{ Forget() }); ok {
		c.Forget()
	}
}

// recorder puts entries into the Ledger, several at a time.
type recorder struct {
	ctx   context.Context // of one call
	m     *source
	batch []payload.Entry
	// How many entries came, and how many of them were left out for the length of their loc.
	count, overlong int
	// newest is the latest of their datetimes, but of those in the future: odd.
	newest time.Time
	odd    bool
}

// resource takes an entry of a Resource List, where a change means nothing.
func (n *recorder) resource(e payload.Entry) error {
	e.Change, e.Datetime = "", time.Time{}
	return n.change(e)
}

func (n *recorder) change(e payload.Entry) error {
	n.count++
	if ahead(e.Datetime) {
		n.odd = true
	} else if e.Datetime.After(n.newest) {
		n.newest = e.Datetime
	}
	if n.m.overlong(e.Loc) {
		n.overlong++
		return nil
	}
	t := n.m.described(&e)
	if n.batch = append(n.batch, entryOf(e.Loc, &t)); len(n.batch) < recordBatch {
		return nil
	}
	return n.flush()
}

// entryOf returns an entry with what a mirror uses, in memory of its own: the texts of an entry that
// was read are parts of the whole document.
func entryOf(loc string, t *Described) payload.Entry {
	return payload.Entry{
		Loc: strings.Clone(loc), Change: payload.Change(strings.Clone(string(t.Change))),
		Datetime: t.Datetime, LastMod: strings.Clone(t.LastMod),
		Hash: strings.Clone(t.Hash), Length: strings.Clone(t.Length),
		Type: strings.Clone(t.Type), Encoding: strings.Clone(t.Encoding), Links: readLinks(t.Links),
	}
}

func (n *recorder) flush() error {
	if len(n.batch) == 0 {
		return nil
	}
	err := n.m.cfg.Ledger.Record(n.ctx, n.batch)
	n.batch = n.batch[:0]
	return err
}

// ErrEmpty: the Source lists nothing, while there are copies.
var ErrEmpty = errors.New("the Source lists no resources, while the mirror has copies: " +
	"nothing was deleted")

// Errors of a Baseline that did everything except the deletions: the new content was taken.
var (
	// ErrNotWhole: something in the Resource List has no loc. Copies missing from the list were left as
	// they are.
	ErrNotWhole = errors.New("the Source's Resource List or Resource Dump is not whole: " +
		"some of what it lists has no loc, or cannot be read")
	// ErrTooMany: more was to be deleted than Config.MaxDelete. It was recorded (Gone), and no file
	// was removed.
	ErrTooMany = errors.New("too much is to be deleted at once")
)

// recordBatch is how many entries are put into the Ledger in one step.
const recordBatch = 1000

// undecided marks, in the Ledger only, a resource with a change that may have been before the wanted
// moment or after it.
const undecided payload.Change = "undecided"

// listedByDump reports whether a Source without a Resource List has its Resource Dump say what it has.
func (src *source) listedByDump(set lists.Set) bool {
	return set.ResourceDump != "" && src.dumps()
}

// dumps reports whether packages are used.
func (src *source) dumps() bool {
	if src.cfg.ReadOnly && src.cfg.Packages == "" {
		return false // they have no directory
	}
	return src.cfg.Dump == DumpAuto || src.cfg.Dump == DumpOnly
}

func newPackages(w *worker) *packages.Client {
	dir, space := filepath.Join(w.cfg.Dir, ownName, packagesName), w.tree.space
	if w.cfg.Packages != "" {
		dir, space = w.cfg.Packages, newDiskSpace(filepath.Dir(w.cfg.Packages), w.cfg.MinFree)
	}
	return packages.New(packages.Config{
		Dir: dir, Transport: w.cfg.Transport, UserAgent: w.cfg.UserAgent, Trusts: w.cfg.Trusts,
		Logger: w.cfg.Logger, Room: space.reserve,
		Came:   func(n int64) { w.counts.packageBytes.Add(n) },
		Limits: unpack.Limits{Bytes: maxPackageBytes, EntryBytes: maxPackageBytes},
	})
}

const (
	// packagesName is the directory below ownName for packages.
	packagesName = "packages"
	// maxPackageBytes bounds the unpacked size of a package: 1 TiB. Config.MaxBytes and Config.MinFree
	// bound unpacking too.
	maxPackageBytes = 1 << 40
	// maxPackages bounds how many packages a Resource Dump may list: they are in memory.
	maxPackages = 100_000
	// maxUnusable is after how many packages in a row that cannot be used a dump is given up, where
	// all that it has can be fetched otherwise.
	maxUnusable = 8
)

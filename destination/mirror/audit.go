package mirror

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/destination/lists"
	"carillon/internal/digests"
	"carillon/payload"
)

const (
	// auditBatch is how many resources are compared before what was found is reported.
	auditBatch = 256
	// clockGrain is how exactly any file system keeps times.
	clockGrain = 2 * time.Second
)

// Kind is what an audit finds.
type Kind string

// The kinds.
const (
	// NoCopy: the Source has the resource, and the mirror has not.
	NoCopy Kind = "missing"
	// Extra: the mirror has something that the Source lacks: a copy, or a file without a copy's record.
	Extra Kind = "extra"
	// Differs: by lastmod, length or hash.
	Differs Kind = "differs"
	// Kept: the Source has deleted it, and it was kept, by choice.
	Kept Kind = "kept"
	// Outside: the Source has the resource outside of what is mirrored.
	Outside Kind = "outside"
	// Unaskable: the Source has the resource at a loc that is not a URI that can be asked for.
	Unaskable Kind = "invalid"
)

// Finding is one thing that is not as the Source has it.
type Finding struct {
	Kind Kind   `json:"finding"`
	Loc  string `json:"loc,omitempty"`
	Path string `json:"path,omitempty"` // below the directory
	// By says in what it differs: lastmod, length, hash.
	By []string `json:"by,omitempty"`
	// Described is the Source's description, Have the file's facts, as far as they differ.
	Described *Facts `json:"described,omitempty"`
	Have      *Facts `json:"have,omitempty"`
	// Reason is why, where that is known.
	Reason string `json:"reason,omitempty"`
}

// Facts are what is compared.
type Facts struct {
	LastMod string `json:"lastmod,omitempty"`
	Length  string `json:"length,omitempty"`
	Hash    string `json:"hash,omitempty"`
}

// Audited is what an audit has found in all.
type Audited struct {
	Seen
	Missing, Extra, Differing, Kept, Outside, Invalid int
}

// AuditOptions say what counts.
type AuditOptions struct {
	// Quick compares lengths and times only: no file is read.
	Quick bool
}

// Audit compares the copies with a Source's Resource List, and its Change List since: coverage, and
// accuracy by lastmod, length and hash (core §5.2). Copies that are kept at a moment are compared
// with what the Source had then. Without a Resource List the manifests of dumps say what the Source
// has, where Config.Dump and Config.Packages allow it.
//
// It changes nothing. Findings come by the bytes of their locs; files of no resource come last.
func (m *Mirror) Audit(
	ctx context.Context, from Lists, set lists.Set, o AuditOptions, report func(Finding) error,
) (Audited, error) {
	seen, err := m.expectNow(ctx, from, set)
	if m.cfg.Packages != "" {
		err = errors.Join(err, m.EndDumps())
	}
	if err != nil {
		return Audited{}, err
	}
	m.counts.total.Add(int64(seen.Entries))
	a := audit{m: m, quick: o.Quick, report: report}
	a.all = Audited{Seen: seen, Invalid: seen.Overlong}
	err = m.pairs(ctx, func(r *Resource, c *Copy) error {
		var p pair
		if r != nil {
			p.resource = *r
		}
		if c != nil {
			p.copy = *c
		}
		if a.batch = append(a.batch, p); len(a.batch) < auditBatch {
			return nil
		}
		return a.flush(ctx)
	})
	if err == nil {
		err = a.flush(ctx)
	}
	if err == nil {
		err = a.strays(ctx)
	}
	return a.all, err
}

// expectNow puts what the copies should be into the Ledger.
func (src *source) expectNow(ctx context.Context, from Lists, set lists.Set) (Seen, error) {
	at := src.moment.Load()
	if at == nil {
		seen, err := src.expect(ctx, from, set)
		if err == nil && set.ResourceList == "" {
			seen, err = src.expectDumped(ctx, from, set)
		}
		return seen, err
	}
	past, is := from.(Past)
	if !is {
		return Seen{}, src.free()
	}
	return src.expectAt(ctx, past, set, *at)
}

type audit struct {
	m      *Mirror
	quick  bool
	report func(Finding) error
	all    Audited
	batch  []pair
}

// pair is a resource and its copy; one of them may have no Loc.
type pair struct {
	resource Resource
	copy     Copy
	found    *Finding
}

// flush compares the batch, several at a time, and reports in order.
func (a *audit) flush(ctx context.Context) error {
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(a.m.cfg.Parallel)
	for i := range a.batch {
		g.Go(func() (err error) {
			a.batch[i].found, err = a.compare(within, &a.batch[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	a.m.counts.unchanged.Add(int64(len(a.batch)))
	for i := range a.batch {
		if f := a.batch[i].found; f != nil {
			if err := a.add(*f); err != nil {
				return err
			}
		}
	}
	a.batch = a.batch[:0]
	return nil
}

func (a *audit) add(f Finding) error {
	switch f.Kind {
	case NoCopy:
		a.all.Missing++
	case Extra:
		a.all.Extra++
	case Differs:
		a.all.Differing++
	case Kept:
		a.all.Kept++
	case Outside:
		a.all.Outside++
	case Unaskable:
		a.all.Invalid++
	}
	return a.report(f)
}

// compare returns what is not as it should be; nil if nothing is.
func (a *audit) compare(ctx context.Context, p *pair) (*Finding, error) {
	r, c := &p.resource, &p.copy
	if r.Loc == "" {
		return a.unlisted(c), nil
	}
	f := &Finding{Loc: r.Loc, Path: c.Path, Reason: c.Reason}
	if _, err := a.m.allowed(r.Loc); err != nil {
		f.Kind, f.Reason = Outside, err.Error()
		if t := (*failure)(nil); errors.As(err, &t) && t.state == Invalid {
			f.Kind = Unaskable
		}
		return f, nil
	}
	info := fs.FileInfo(nil)
	if c.Path != "" {
		info = a.m.tree.regular(c.Path)
	}
	if info == nil || r.Change == undecided {
		f.Kind = NoCopy
		return f, nil
	}
	f.Described, f.Have = &Facts{}, &Facts{}
	a.byFacts(f, r, c, info)
	if err := a.byHash(ctx, f, r, c); err != nil {
		return nil, err
	}
	if len(f.By) == 0 {
		return nil, nil
	}
	f.Kind = Differs
	return f, nil
}

// unlisted is a copy of what the Source does not list.
func (a *audit) unlisted(c *Copy) *Finding {
	f := &Finding{Kind: Extra, Loc: c.Loc, Path: c.Path}
	switch {
	case c.State == Gone:
		f.Kind = Kept
	case c.Path == "" || a.m.tree.regular(c.Path) == nil:
		return nil // nor is there a file
	}
	return f
}

// byFacts compares length and lastmod.
func (a *audit) byFacts(f *Finding, r *Resource, c *Copy, info fs.FileInfo) {
	if size := r.size(); size >= 0 && size != info.Size() {
		f.By = append(f.By, "length")
		f.Described.Length, f.Have.Length = r.Length, strconv.FormatInt(info.Size(), 10)
	}
	described, have := r.modified(), info.ModTime()
	if described.IsZero() {
		return
	}
	known := c.Described.modified()
	if have.Sub(described).Abs() < clockGrain && (known.IsZero() || known.Equal(described)) {
		return
	}
	f.By = append(f.By, "lastmod")
	f.Described.LastMod, f.Have.LastMod = r.LastMod, payload.FormatDatetime(have)
}

// byHash reads the file. Without a hash from the Source it is compared with the fetched content.
func (a *audit) byHash(ctx context.Context, f *Finding, r *Resource, c *Copy) error {
	if a.quick {
		return nil
	}
	known, _ := digests.Parse(r.Hash)
	h, _, err := a.m.hash(ctx, c.Path, known)
	var t *failure
	if errors.As(err, &t) {
		f.By, f.Reason = append(f.By, "hash"), t.reason
		f.Described.Hash = r.Hash
		return nil
	}
	if err != nil {
		return err
	}
	if d, have, differs := h.Differs(known); differs {
		f.By = append(f.By, "hash")
		f.Described.Hash, f.Have.Hash = d.Algorithm+":"+d.Hex, d.Algorithm+":"+have
		return nil
	}
	sum := h.SHA256()
	if len(known) == 0 && c.File != nil && sum != c.File.SHA256 {
		f.By, f.Reason = append(f.By, "hash"), "the file is not what was fetched"
		f.Have.Hash = "sha-256:" + hex.EncodeToString(sum[:])
	}
	return nil
}

// strays finds the files that are no resource's.
func (a *audit) strays(ctx context.Context) error {
	return fs.WalkDir(a.m.tree.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("look for files that are no resource's: %w", err)
		case name == ownName:
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		owner, _, err := a.m.cfg.Catalog.Owner(ctx, claimOf(name))
		if err != nil {
			return err
		}
		if owner != "" {
			if c, err := a.m.cfg.Catalog.Copy(ctx, owner); err == nil && c.Path == name {
				return nil
			}
		}
		return a.add(Finding{Kind: Extra, Path: name, Reason: "it is no resource's"})
	})
}

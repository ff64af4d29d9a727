package lists

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"carillon/internal/legible"
	"carillon/payload"
)

// Archived is a document that an archive lists, and what the archive says of it. Times that it
// does not say are zero.
type Archived struct {
	URI        string
	Capability string // of the document, such as payload.CapChangeList
	LastMod    string
	// At and Completed are those of resources, From and Until those of changes.
	At, Completed, From, Until time.Time
}

// Archive visits every document that the archive at uri lists, or the archives of the index there, as
// they stand. capability is that of the archive, such as payload.CapResourceListArchive. Documents at
// hosts that are not trusted are left out, and logged. An error of visit ends the reading, and is
// returned.
func (c *Client) Archive(ctx context.Context, uri, capability string,
	visit func(Archived) error,
) error {
	archived, is := payload.Archived(capability)
	if !is || !listsDocuments(capability) {
		return fmt.Errorf("%q is not the capability of an archive, such as %s", capability,
			payload.CapChangeListArchive)
	}
	r, at, err := c.begin(uri)
	if err != nil {
		return err
	}
	return r.archive(ctx, at, capability, func(d *document) error {
		for _, p := range d.parts {
			to := r.archived(d, p)
			if to == nil {
				continue
			}
			if err := visit(Archived{
				to.String(), archived, p.lastMod, p.at, p.completed, p.from,
				p.until,
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// archive calls each with every document of an archive.
func (r *reading) archive(ctx context.Context, at *url.URL, want string,
	each func(*document) error,
) error {
	d, err := r.open(ctx, at, want, time.Time{}, nil)
	if err != nil {
		return err
	}
	if !d.index {
		return each(d)
	}
	for _, p := range chronological(d.parts) {
		next, err := r.partAt(d, at, p)
		if err != nil {
			return err
		}
		if r.seen[next.String()] {
			continue
		}
		part, err := r.open(ctx, next, want, time.Time{}, nil)
		if err != nil {
			return err
		}
		if part.index {
			return fmt.Errorf("%w: %s is an index within an index", ErrLoop, part.uri)
		}
		if err := each(part); err != nil {
			return err
		}
	}
	return nil
}

// archived returns where a document is that an archive lists; nil if it cannot be read.
func (r *reading) archived(d *document, p part) *url.URL {
	if p.loc == "" {
		return nil
	}
	to, err := r.lead(d.uri, p.loc)
	if err != nil {
		r.c.cfg.Logger.Warn("left out of what an archive lists", "uri", legible.Cut(p.loc), "reason",
			legible.Cut(err.Error()))
		return nil
	}
	return to
}

// WithArchives returns the set with the archives to which its live documents link
// (rel=archives, archives §2), where its Capability List names none. It reads no more than the
// heads of those documents.
func (c *Client) WithArchives(ctx context.Context, set Set) (Set, error) {
	for _, of := range [...]string{
		payload.CapResourceList, payload.CapResourceDump, payload.CapChangeList,
		payload.CapChangeDump,
	} {
		live, to := *set.offered(of), set.offered(payload.ArchiveOf(of))
		if live == "" || *to != "" {
			continue
		}
		found, err := c.archiveOf(ctx, live)
		if err != nil {
			return set, err
		}
		*to = found
	}
	return set, nil
}

// archiveOf returns where a live document says that its archive is; empty if it does not, or
// cannot be read.
func (c *Client) archiveOf(ctx context.Context, live string) (string, error) {
	r, at, err := c.begin(live)
	if err != nil {
		return "", err
	}
	uri, head, err := r.head(ctx, at)
	if ref := linkOf(head.Links, payload.RelArchives); err == nil && ref != "" {
		if at, err = r.lead(uri, ref); err == nil {
			return at.String(), nil
		}
	}
	if err != nil && !final(err) {
		return "", err
	}
	if err != nil {
		c.cfg.Logger.Warn("the archive of a document is not known", "uri", legible.Cut(live), "reason",
			legible.Cut(err.Error()))
	}
	return "", nil
}

// archives is what a walk has learned of the archive of its lists.
type archives struct {
	// archiveRef and upRef are where the lists say that the archive, and their Capability List,
	// are; each stands in the document beside it.
	archiveRef, upRef   string
	archiveBase, upBase *url.URL
	// bridged: the archive was read; begins is when the first of its lists begins that could have
	// been of use.
	bridged bool
	begins  time.Time
}

// learn notes where a list leads.
func (a *archives) learn(l *list) {
	if a.archiveRef == "" && l.archives != "" {
		a.archiveRef, a.archiveBase = l.archives, l.uri
	}
	if a.upRef == "" && l.up != "" {
		a.upRef, a.upBase = l.up, l.uri
	}
}

// bridge reports whether a list joins on to what was read. If it does not, the archive is read
// first for what lies between, once.
func (w *walk) bridge(ctx context.Context, l *list) (joined bool, err error) {
	if w.joins(l) {
		return true, nil
	}
	if w.bridged {
		return false, nil
	}
	w.bridged = true
	at, err := w.findArchive(ctx)
	if at == nil {
		return false, w.passing(err)
	}
	var taking error // what the visit returned is the caller's, whatever it is
	err = w.archive(ctx, at, payload.ArchiveOf(w.want), func(d *document) error {
		var more bool
		if more, taking = w.archivedLists(ctx, d, l); taking == nil && !more {
			return errEnough
		}
		return taking
	})
	switch {
	case taking != nil:
		return false, taking
	case err != nil && !errors.Is(err, errEnough):
		return w.joins(l), w.passing(err)
	}
	return w.joins(l), nil
}

// errEnough ends the reading of an archive.
var errEnough = errors.New("enough was read")

// findArchive returns the address of the lists' archive: as one of them links to it, else as the
// Capability List does; nil without a link.
func (w *walk) findArchive(ctx context.Context) (*url.URL, error) {
	if w.archiveRef != "" {
		return w.lead(w.archiveBase, w.archiveRef)
	}
	if w.upRef == "" {
		return nil, nil
	}
	up, err := w.lead(w.upBase, w.upRef)
	if err != nil {
		return nil, err
	}
	set, err := w.capabilityList(ctx, up)
	ref := *set.offered(payload.ArchiveOf(w.want))
	if err != nil || ref == "" {
		return nil, err
	}
	return w.lead(up, ref)
}

// passing logs an error that will not pass, and returns nil for it.
func (w *walk) passing(err error) error { return orElse(w.logFinal(err), nil) }

// archivedLists reads the lists of an archive that lie between the part that was read and l. more: the
// rest may be in the next document of the archive. An error is not one of the archive's.
func (w *walk) archivedLists(ctx context.Context, d *document, l *list) (more bool, err error) {
	parts := chronological(d.parts)
	for i, p := range parts {
		if w.joins(l) {
			return false, nil
		}
		at := w.archived(d, p)
		if at == nil || w.past(parts, i) {
			continue
		}
		if end, closed := w.ends[at.String()]; closed && !end.After(w.end) {
			continue
		}
		if joined, err := w.archivedList(ctx, at, p); err != nil || !joined {
			return false, err
		}
	}
	return !w.joins(l), nil
}

// archivedList reads one archived list, or index, and reports whether it joins on to what was read.
func (w *walk) archivedList(ctx context.Context, at *url.URL, listed part) (joined bool, err error) {
	a, err := w.fetch(ctx, at, listed)
	if err != nil {
		return false, w.passing(err)
	}
	defer a.close()
	if !w.joins(a) {
		w.begins = cmp.Or(w.begins, a.from)
		return false, nil
	}
	if !a.index {
		return true, w.read(ctx, a)
	}
	if _, err = w.parts(ctx, a); errors.Is(err, ErrGone) {
		return false, nil
	}
	return true, err
}

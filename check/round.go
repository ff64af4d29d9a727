package check

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"carillon/payload"
)

// round is what one walk from the places has shown.
type round struct {
	seen        map[string]*document // by address, before and after redirects
	documents   []*document          // in the order in which they were read
	arrivals    []arrival
	broken      map[string]bool // see breaks
	undescribed []*url.URL      // sites without a Source Description

	sets  map[string]*set // see setAt
	pages []page          // that link to a Capability List
}

func newRound() round {
	return round{
		seen: map[string]*document{}, broken: map[string]bool{}, sets: map[string]*set{},
	}
}

// arrival is a lead and its target.
type arrival struct {
	lead
	d *document
}

// around returns a document and those that it is compared with.
func (r *round) around(d *document) []*document {
	all := []*document{d}
	for i := range d.head.Links {
		if to := d.resolve(d.head.Links[i].Href); to != nil {
			all = append(all, r.seen[to.String()])
		}
	}
	for at := range d.addresses() {
		all = append(all, r.seen[at])
	}
	return all
}

// mayList reports whether an entry of d is an address of other, as far as that is known.
func (r *round) mayList(d, other *document) bool {
	for at := range d.addresses() {
		if to := r.seen[at]; to == nil || to.err != nil || to.same(other) {
			return true
		}
	}
	return false
}

// isUnlisted reports whether no entry of d is an address of other. A document may have several
// addresses: where the target of one was not read, isUnlisted reports false.
func (r *round) isUnlisted(d, other *document) bool {
	return d.whole && !d.cut && !other.local && !r.mayList(d, other)
}

// isSame reports whether two addresses lead to the same document, as far as that is known.
func (r *round) isSame(a, b *url.URL) bool {
	if a.String() == b.String() {
		return true
	}
	first, second := r.seen[a.String()], r.seen[b.String()]
	return first == nil || second == nil || first.err != nil || second.err != nil ||
		first.same(second)
}

// isListedElsewhere reports whether a Capability List has the same document at another address:
// an index may have one of its own beside that of the capability.
func (r *round) isListedElsewhere(list, d *document) bool {
	for at := range list.addresses() {
		other := r.seen[at]
		if other == nil || !other.known || other.head.Capability != d.head.Capability {
			continue
		}
		if other.sum == d.sum || d.isIndex() && other.isIndex() && sharePart(other, d) {
			return true
		}
	}
	return false
}

// sharePart reports whether two indexes list the same part.
func sharePart(a, b *document) bool {
	for at := range a.addresses() {
		if _, is := b.addresses()[at]; is {
			return true
		}
	}
	return false
}

// isRead reports whether the document is one of this round.
func (r *round) isRead(d *document) bool { return slices.Contains(r.documents, d) }

// partOf is one part of an index, one package of a dump or one document of an archive, with its known
// times: by the entry, or else by the part or the manifest itself.
type partOf struct {
	*listed
	d *document // nil if it was not read
	span
	// The times stand in the index, and so the document rules judge them.
	told bool
}

// parts are what a document lists, in its order.
func (r *round) parts(index *document) []partOf {
	all := make([]partOf, 0, len(index.entries))
	for i := range index.entries {
		p := partOf{listed: &index.entries[i]}
		if to := index.resolve(p.Loc); to != nil {
			d := r.seen[to.String()]
			if d != nil && d.pack != nil {
				d = d.pack.manifest
			}
			if d != nil && d.known {
				p.d = d
			}
		}
		p.span = p.listed.span()
		p.told = !p.from.IsZero() || !p.at.IsZero()
		if !p.told && p.d != nil {
			p.span = p.d.span()
		}
		all = append(all, p)
	}
	return all
}

// archivedIn are the documents of an archive, or of all parts of its index.
func (r *round) archivedIn(archive *document) (all []partOf) {
	if !archive.isIndex() {
		return r.parts(archive)
	}
	for _, part := range r.parts(archive) {
		if part.d != nil && !part.d.isIndex() {
			all = append(all, r.parts(part.d)...)
		}
	}
	return all
}

// page is a resource that links to a Capability List.
type page struct{ d, list *document }

// evidence is what a round has shown, and the reporter of what is wrong with it.
type evidence struct {
	*reporter
	*round
}

// set is a set of resources: all that one Capability List offers.
type set struct {
	list *document // the Capability List, if it was read
	// resources, dumped, changes, dumpedChanges and notified are the URIs that the
	// documents of each capability have.
	resources, dumped, changes, dumpedChanges, notified covered
	// broken: not all of its documents were read, so absence from one proves nothing.
	broken bool
	// documents are those that were read of it.
	documents []*document
	// The intervals of its Change Lists, by their beginnings. An open one ends with its last visible
	// change.
	told []payload.Interval
}

// knows reports whether the Change Lists have all changes from one moment to another.
func (s *set) knows(first, last time.Time) bool {
	end := first
	for _, iv := range s.told {
		if iv.From.After(end) {
			break // a gap: all others begin later still
		}
		end = later(end, iv.Until)
	}
	return !last.After(end)
}

// covered are the URIs that the live documents of a capability have.
type covered struct {
	// read is how many documents were.
	read int
	// where has for each URI the place where it was first seen.
	where map[string]sight
	// at is of what moment a snapshot is, the earliest of all parts.
	at time.Time
	// from and until are the interval of the announced changes.
	from, until time.Time
	// knows is up to when an open document has all changes, as far as that can be seen: it has
	// a change of that time, or was written then.
	knows time.Time
}

// sight is where a URI was first seen.
type sight struct {
	d *document
	*listing
}

func (s sight) place() place {
	return s.d.of(&listed{payload.Entry{Line: s.line}, s.n}, "/loc")
}

func (c *covered) add(d *document, e *listing) {
	if c.where == nil {
		c.where = map[string]sight{}
	}
	c.knows = later(c.knows, e.when)
	if _, known := c.where[e.uri]; !known {
		c.where[e.uri] = sight{d, e}
	}
}

// reach widens what is covered by a document's head, and by when it was written.
func (c *covered) reach(d *document) {
	h := &d.head
	c.read++
	c.knows = later(c.knows, later(h.UntilTime, d.modified()))
	if !h.AtTime.IsZero() && (c.at.IsZero() || h.AtTime.Before(c.at)) {
		c.at = h.AtTime
	}
	if !h.FromTime.IsZero() && (c.from.IsZero() || h.FromTime.Before(c.from)) {
		c.from = h.FromTime
	}
	c.until = later(c.until, h.UntilTime)
}

// without returns the URIs that none of the others has, sorted.
func (c *covered) without(others ...*covered) (only []string) {
	for uri := range c.where {
		if !slices.ContainsFunc(others,
			func(o *covered) bool { _, is := o.where[uri]; return is }) {
			only = append(only, uri)
		}
	}
	slices.Sort(only)
	return only
}

// setAt returns the set of the Capability List at an address, nil for none. A Capability List
// with several addresses, and a copy of it, have one set.
func (r *round) setAt(at string) *set {
	if at == "" {
		return nil
	}
	key := at
	switch list := r.seen[at]; {
	case list == nil || !list.is(payload.CapCapabilityList):
	case list.whole:
		key = list.sum
	default:
		key = list.base.String()
	}
	s := r.sets[key]
	if s == nil {
		s = &set{}
		r.sets[key] = s
	}
	return s
}

// of is where a document's entries are remembered, nil for nowhere.
func (s *set) of(capability string) *covered {
	switch capability {
	case payload.CapResourceList:
		return &s.resources
	case payload.CapResourceDumpManifest:
		return &s.dumped
	case payload.CapChangeList:
		return &s.changes
	case payload.CapChangeDumpManifest:
		return &s.dumpedChanges
	case payload.ChangeNotification:
		return &s.notified
	}
	return nil
}

// breaks records that a document of a set was not read, or is not what a link says.
func (r *round) breaks(set string) {
	if set != "" {
		r.broken[set] = true
	}
}

// gather makes the sets of what was read in this round.
func (r *round) gather() {
	r.sets = map[string]*set{}
	for _, d := range r.documents {
		s := r.setAt(d.set)
		if s == nil {
			continue
		}
		s.documents = append(s.documents, d)
		s.broken = s.broken || d.broken || !d.whole
		if d.is(payload.CapCapabilityList) && d.whole {
			s.list = d
		}
		if !d.live || d.led(roleArchived) {
			continue
		}
		to := s.of(d.head.Capability)
		to.reach(d)
		told := payload.Interval{
			From:  d.head.FromTime,
			Until: cmp.Or(d.head.UntilTime, d.modified()),
		}
		for i := range d.listings {
			e := &d.listings[i]
			to.add(d, e)
			told.Until = later(told.Until, e.when)
		}
		if to == &s.changes && !d.isIndex() && !told.From.IsZero() {
			s.told = append(s.told, told)
		}
	}
	for _, s := range r.sets {
		slices.SortFunc(s.told, func(a, b payload.Interval) int { return a.From.Compare(b.From) })
	}
	for at := range r.broken {
		r.setAt(at).broken = true
	}
}

package check

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/payload"
)

// set is a set of resources: all that one Capability List offers.
type set struct {
	list *document // the Capability List, if it was read
	// resources, dumped, changes, dumpedChanges and notified are the URIs that the
	// documents of each capability have.
	resources, dumped, changes, dumpedChanges, notified covered
	// broken: not all of its documents were read, so that nothing can be said of what is in one and not in another.
	broken bool
}

// covered are the URIs that the live documents of a capability have.
type covered struct {
	// read is how many documents were.
	read int
	// where has for each URI the place where it was first seen.
	where map[string]sight
	// at is of what moment a snapshot is, the earliest of all parts.
	at time.Time
	// from and until are what changes are told of.
	from, until time.Time
	// knows is up to when an open document has all changes, as far as that can be seen: it has a change of
	// that time, or was written then.
	knows time.Time
}

// sight is where a URI was first seen, and for a change its time.
type sight struct {
	place
	when time.Time
}

func (c *covered) add(uri string, at place, when time.Time) int {
	if c.where == nil {
		c.where = map[string]sight{}
	}
	if when.After(c.knows) {
		c.knows = when
	}
	if _, known := c.where[uri]; known {
		return 0
	}
	const each = 150 // of the map itself
	uri = strings.Clone(uri)
	c.where[uri] = sight{at, when}
	return each + len(uri)
}

// reach widens what is covered by a document's head, and by when it was written.
func (c *covered) reach(d *document) {
	h := &d.head
	c.read++
	for _, at := range []time.Time{h.UntilTime, d.modified()} {
		if at.After(c.knows) {
			c.knows = at
		}
	}
	if !h.AtTime.IsZero() && (c.at.IsZero() || h.AtTime.Before(c.at)) {
		c.at = h.AtTime
	}
	if !h.FromTime.IsZero() && (c.from.IsZero() || h.FromTime.Before(c.from)) {
		c.from = h.FromTime
	}
	if h.UntilTime.After(c.until) {
		c.until = h.UntilTime
	}
}

// setOf is the set that a document belongs to: that of the Capability List that led here, or else that of its link with
// rel=up. It is nil for a document that has neither.
func (w *walk) setOf(d *document, l *lead) *set {
	switch {
	case d.is(payload.CapCapabilityList):
		return w.setAt(d.base)
	case l.set != nil:
		return l.set
	}
	if up := d.link("up"); up != nil {
		return w.setAt(d.resolve(up.Href))
	}
	return nil
}

func (w *walk) setAt(at *url.URL) *set {
	if at == nil {
		return nil
	}
	s := w.sets[at.String()]
	if s == nil {
		s = &set{}
		w.sets[at.String()] = s
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

// breaks notes that not all of a set was read, or not as what it is.
func (l *lead) breaks() {
	if l.set != nil {
		l.set.broken = true
	}
}

// gatherer returns what takes the entries of a document that lists resources or changes. Archived documents tell of other
// times, and are left out.
func (w *walk) gatherer(d *document, l *lead) func(*payload.Entry) {
	s := d.set
	if s == nil || l.archived {
		return func(*payload.Entry) {}
	}
	to := s.of(d.head.Capability)
	if to == nil {
		return func(*payload.Entry) {}
	}
	to.reach(d)
	return func(e *payload.Entry) {
		w.offer(d, e)
		if s.broken {
			return
		}
		if w.compared += to.add(e.Loc, d.of(&listed{*e, d.count}, "/loc"), e.Datetime); w.compared > w.cfg.Limits.Memory {
			s.broken = true
			w.leftOut("compared", d.place(""), "whether all capabilities cover the same resources was not looked at: there are too many resources", "")
		}
	}
}

// judgeSets: the capabilities of a Capability List cover the same resources (core 9).
func (w *walk) judgeSets() {
	for _, at := range slices.Sorted(maps.Keys(w.sets)) {
		s := w.sets[at]
		if s.broken || s.list == nil {
			continue
		}
		w.judgeDumped(s)
		w.judgeTold(s, &s.notified, "notification")
		w.judgeTold(s, &s.dumpedChanges, "Change Dump")
	}
}

// judgeDumped compares Resource Lists with Resource Dumps. What has changed between the two may be in one alone.
func (w *walk) judgeDumped(s *set) {
	if s.resources.read == 0 || s.dumped.read == 0 || s.resources.at.IsZero() || s.dumped.at.IsZero() {
		return
	}
	first, last := s.resources.at, s.dumped.at
	if last.Before(first) {
		first, last = last, first
	}
	if !first.Equal(last) && !s.changes.reaches(first, last) {
		return // no document lists the changes between the two moments
	}
	w.judgeMissing(s, &s.resources, &s.dumped, "the Resource List", "the Resource Dump")
	w.judgeMissing(s, &s.dumped, &s.resources, "the Resource Dump", "the Resource List")
}

// reaches reports whether all changes from one moment to another are known. An open document may be
// written now and then, and says nothing of what came since.
func (c *covered) reaches(first, last time.Time) bool {
	return !c.from.IsZero() && !c.from.After(first) && !last.After(c.knows)
}

func (w *walk) judgeMissing(s *set, in, other *covered, here, there string) {
	for _, uri := range in.without(other, &s.changes) {
		w.report(ruleSameSet, in.where[uri].place, nil, "have all capabilities of the Capability List cover the same resources",
			"%s is in %s and not in %s, and no Change List has a change of it", quote(uri), here, there)
	}
}

// judgeTold: changes that are told elsewhere are in the Change List.
func (w *walk) judgeTold(s *set, in *covered, here string) {
	if len(in.where) == 0 || s.changes.from.IsZero() || in.from.Before(s.changes.from) {
		return
	}
	for _, uri := range in.without(&s.changes) {
		seen := in.where[uri]
		if orDefault(&seen.when, in.until); seen.when.IsZero() || seen.when.After(s.changes.knows) {
			continue // the Change List may not have come so far
		}
		w.report(ruleChangesTold, seen.place, nil, "add the change to the Change List",
			"%s has changed by the %s, and is not in the Change List", quote(uri), here)
	}
}

// without returns the URIs that none of the others has, sorted.
func (c *covered) without(others ...*covered) (only []string) {
	for uri := range c.where {
		if !slices.ContainsFunc(others, func(o *covered) bool { _, is := o.where[uri]; return is }) {
			only = append(only, uri)
		}
	}
	slices.Sort(only)
	return only
}

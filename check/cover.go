package check

import (
	"cmp"
	"maps"
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
	// broken: not all of its documents were read, so absence from one proves nothing.
	broken bool
	// documents are those that were read of it.
	documents []*document
	// told are the intervals of its Change Lists, by their beginnings. An open one ends with
	// the last that can be seen of it.
	told []payload.Interval
}

// knows reports whether the Change Lists have all changes from one moment to another.
func (s *set) knows(first, last time.Time) bool {
	end := first
	for _, iv := range s.told {
		if !iv.From.After(end) {
			end = later(end, iv.Until)
		}
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
	// from and until are what changes are told of.
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

// listing is a URI that a live document lists, and for a change its datetime.
type listing struct {
	uri     string
	n, line int
	when    time.Time
	change  payload.Change
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

// setOf returns the address of the Capability List of a document's set: the one that led here,
// else the target of its link with rel=up. It is empty for a document that has neither.
func setOf(d *document, l *lead) string {
	at := d.base
	if !d.is(payload.CapCapabilityList) {
		if l.set != "" {
			return l.set
		}
		up := d.link(payload.RelUp)
		if up == nil {
			return ""
		}
		at = d.resolve(up.Href)
	}
	if at == nil {
		return ""
	}
	return at.String()
}

// setAt returns the set of the Capability List at an address, nil for none. A Capability List
// with several addresses, and a copy of it, have one set.
func (w *walk) setAt(at string) *set {
	if at == "" {
		return nil
	}
	key := at
	switch list := w.seen[at]; {
	case list == nil || !list.is(payload.CapCapabilityList):
	case list.whole:
		key = list.sum
	default:
		key = list.base.String()
	}
	s := w.sets[key]
	if s == nil {
		s = &set{}
		w.sets[key] = s
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
func (w *walk) breaks(set string) {
	if set != "" {
		w.broken[set] = true
	}
}

// gatherer returns what remembers the entries of a document that lists resources or changes.
// Archived documents describe other times, and are left out.
func (w *walk) gatherer(d *document, l *lead) func(*payload.Entry) {
	if d.set == "" || l.archived || new(set).of(d.head.Capability) == nil {
		return func(*payload.Entry) {}
	}
	d.live = true
	return func(e *payload.Entry) {
		w.offer(d, e)
		if d.broken {
			return
		}
		const each = 220 // of the structures themselves
		d.listings = append(d.listings,
			listing{strings.Clone(e.Loc), d.count, e.Line, e.Datetime, e.Change})
		cost := each + len(e.Loc)
		w.compared, d.compared = w.compared+cost, d.compared+cost
		if w.compared > w.cfg.Limits.Memory {
			d.broken, d.listings, w.cut = true, nil, true
			w.leftOut("compared", d.place(""),
				"whether all capabilities cover the same resources was not looked at: there are too many resources", "")
		}
	}
}

// gather makes the sets of what was read in this round.
func (w *walk) gather() {
	w.sets = map[string]*set{}
	for _, d := range w.documents {
		s := w.setAt(d.set)
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
	for _, s := range w.sets {
		slices.SortFunc(s.told, func(a, b payload.Interval) int { return a.From.Compare(b.From) })
	}
	for at := range w.broken {
		w.setAt(at).broken = true
	}
}

// judgeOneEntry: a resource has one entry in all parts of a Resource List Index (core 10.1, 10.2).
func (w *walk) judgeOneEntry(index *document) {
	s := w.setAt(index.set)
	if s == nil || !index.isIndex() || !index.is(payload.CapResourceList) {
		return
	}
	parts := map[*document]bool{}
	for _, p := range w.parts(index) {
		if p.d == nil || parts[p.d] {
			continue
		}
		for i := range p.d.listings {
			here := sight{p.d, &p.d.listings[i]}
			if first := s.resources.where[here.uri]; parts[first.d] {
				w.report(ruleResourceOnce, here.place(), p.d,
					"keep one entry for each resource, with its latest state",
					"%s is listed in two parts of the index: in %s too", quote(here.uri),
					quote(first.d.uri))
			}
		}
		parts[p.d] = true
	}
}

// judgeSets: the capabilities of a Capability List cover the same resources (core 9).
func (w *walk) judgeSets() {
	for _, at := range slices.Sorted(maps.Keys(w.sets)) {
		s := w.sets[at]
		if s.broken || s.list == nil {
			continue
		}
		w.about = func() []*document { return s.documents }
		w.judgeDumped(s)
		w.judgeTold(s, &s.notified, "notification")
		w.judgeTold(s, &s.dumpedChanges, "Change Dump")
		w.judgePacked(s)
		w.judgeUpTo(s, &s.resources, "Resource List")
		w.judgeUpTo(s, &s.dumped, "Resource Dump")
	}
}

// judgeDumped compares Resource Lists with Resource Dumps. What has changed between the two may
// be in one alone.
func (w *walk) judgeDumped(s *set) {
	if s.resources.read == 0 || s.dumped.read == 0 || s.resources.at.IsZero() ||
		s.dumped.at.IsZero() {
		return
	}
	first, last := s.resources.at, s.dumped.at
	if last.Before(first) {
		first, last = last, first
	}
	if !first.Equal(last) && !s.knows(first, last) {
		return // no document lists the changes between the two moments
	}
	w.judgeMissing(s, &s.resources, &s.dumped, "the Resource List", "the Resource Dump")
	w.judgeMissing(s, &s.dumped, &s.resources, "the Resource Dump", "the Resource List")
}

func (w *walk) judgeMissing(s *set, in, other *covered, here, there string) {
	for _, uri := range in.without(other, &s.changes) {
		w.report(ruleSameSet, in.where[uri].place(), nil,
			"have all capabilities of the Capability List cover the same resources",
			"%s is in %s and not in %s, and no Change List has a change of it", quote(uri), here,
			there)
	}
}

// judgeTold: changes that are told elsewhere are in the Change List.
func (w *walk) judgeTold(s *set, in *covered, here string) {
	if len(in.where) == 0 || s.changes.from.IsZero() || in.from.Before(s.changes.from) {
		return
	}
	for _, uri := range in.without(&s.changes) {
		seen := in.where[uri]
		when := cmp.Or(seen.when, in.until)
		if when.IsZero() || when.After(s.changes.knows) {
			continue // the Change List may not have come so far
		}
		w.report(ruleChangesTold, seen.place(), nil, "add the change to the Change List",
			"%s has changed by the %s, and is not in the Change List", quote(uri), here)
	}
}

// judgePacked: a Change Dump has all changes of its interval (core 13.2).
func (w *walk) judgePacked(s *set) {
	for _, uri := range s.changes.without(&s.dumpedChanges) {
		seen := s.changes.where[uri]
		if seen.when.After(s.dumpedChanges.from) && seen.when.Before(s.dumpedChanges.until) {
			w.report(ruleChangesPacked, seen.place(), nil, "add the change to the Change Dump",
				"%s has changed in the interval of the Change Dump, and is not in it", quote(uri))
		}
	}
}

// judgeUpTo: a snapshot includes all changes up to its at (core 7). What changes while it is made
// may be in it or not.
func (w *walk) judgeUpTo(s *set, in *covered, here string) {
	if in.at.IsZero() || in.read == 0 {
		return
	}
	last := map[string]sight{}
	for _, d := range s.documents {
		if !d.live || d.led(roleArchived) || !d.is(payload.CapChangeList) {
			continue
		}
		for i := range d.listings {
			e := &d.listings[i]
			if known, is := last[e.uri]; !is || e.when.IsZero() ||
				e.when.After(known.when) && !known.when.IsZero() {
				last[e.uri] = sight{d, e}
			}
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(last)) {
		change := last[uri]
		if change.when.IsZero() || !change.when.Before(in.at) || !s.knows(change.when, in.at) {
			continue
		}
		listed, is := in.where[uri]
		switch deleted := change.change == payload.Deleted; {
		case is && deleted:
			w.report(ruleSnapshot, listed.place(), nil,
				"leave out what was deleted before at, or correct at",
				"%s is in the %s, and was deleted at %s, before its at", quote(uri), here,
				written(change.when))
		case !is && !deleted:
			w.report(ruleSnapshot, change.place(), nil, "add the resource, or correct at",
				"%s was %s before the at of the %s (%s), and is not in it", quote(uri),
				change.change, here, written(in.at))
		}
	}
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

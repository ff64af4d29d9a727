package check

import (
	"cmp"
	"maps"
	"slices"

	"carillon/payload"
)

// setJudge judges whether the documents of a set have the same resources.
type setJudge struct{ evidence }

// judgeOneEntry: a resource has one entry in all parts of a Resource List Index (core 10.1, 10.2).
func (j *setJudge) judgeOneEntry(index *document) {
	s := j.setAt(index.set)
	if s == nil || !index.isIndex() || !index.is(payload.CapResourceList) {
		return
	}
	parts := map[*document]bool{}
	for _, p := range j.parts(index) {
		if p.d == nil || parts[p.d] {
			continue
		}
		for i := range p.d.listings {
			here := sight{p.d, &p.d.listings[i]}
			if first := s.resources.where[here.uri]; parts[first.d] {
				j.report(ruleResourceOnce, here.place(), p.d,
					"keep one entry for each resource, with its latest state",
					"%s is listed in two parts of the index: in %s too", quote(here.uri),
					quote(first.d.uri))
			}
		}
		parts[p.d] = true
	}
}

// judgeSets: the capabilities of a Capability List cover the same resources (core 9).
func (j *setJudge) judgeSets() {
	for _, at := range slices.Sorted(maps.Keys(j.sets)) {
		s := j.sets[at]
		if s.broken || s.list == nil {
			continue
		}
		j.about = func() []*document { return s.documents }
		j.judgeDumped(s)
		j.judgeTold(s, &s.notified, "notification")
		j.judgeTold(s, &s.dumpedChanges, "Change Dump")
		j.judgePacked(s)
		j.judgeUpTo(s, &s.resources, "Resource List")
		j.judgeUpTo(s, &s.dumped, "Resource Dump")
	}
}

// judgeDumped compares Resource Lists with Resource Dumps. A resource that has changed between the two
// may be in one alone.
func (j *setJudge) judgeDumped(s *set) {
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
	j.judgeMissing(s, &s.resources, &s.dumped, "the Resource List", "the Resource Dump")
	j.judgeMissing(s, &s.dumped, &s.resources, "the Resource Dump", "the Resource List")
}

func (j *setJudge) judgeMissing(s *set, in, other *covered, here, there string) {
	for _, uri := range in.without(other, &s.changes) {
		j.report(ruleSameSet, in.where[uri].place(), nil,
			"have all capabilities of the Capability List cover the same resources",
			"%s is in %s and not in %s, and no Change List has a change of it", quote(uri), here,
			there)
	}
}

// judgeTold: changes that other documents announce are in the Change List.
func (j *setJudge) judgeTold(s *set, in *covered, here string) {
	if len(in.where) == 0 || s.changes.from.IsZero() || in.from.Before(s.changes.from) {
		return
	}
	for _, uri := range in.without(&s.changes) {
		seen := in.where[uri]
		when := cmp.Or(seen.when, in.until)
		if when.IsZero() || when.After(s.changes.knows) {
			continue // the Change List may not have come so far
		}
		j.report(ruleChangesTold, seen.place(), nil, "add the change to the Change List",
			"%s has changed by the %s, and is not in the Change List", quote(uri), here)
	}
}

// judgePacked: a Change Dump has all changes of its interval (core 13.2).
func (j *setJudge) judgePacked(s *set) {
	for _, uri := range s.changes.without(&s.dumpedChanges) {
		seen := s.changes.where[uri]
		if seen.when.After(s.dumpedChanges.from) && seen.when.Before(s.dumpedChanges.until) {
			j.report(ruleChangesPacked, seen.place(), nil, "add the change to the Change Dump",
				"%s has changed in the interval of the Change Dump, and is not in it", quote(uri))
		}
	}
}

// judgeUpTo: a snapshot includes all changes up to its at (core 7). A change while it is made may be
// in it or not.
func (j *setJudge) judgeUpTo(s *set, in *covered, here string) {
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
			j.report(ruleSnapshot, listed.place(), nil,
				"leave out what was deleted before at, or correct at",
				"%s is in the %s, and was deleted at %s, before its at", quote(uri), here,
				written(change.when))
		case !is && !deleted:
			j.report(ruleSnapshot, change.place(), nil, "add the resource, or correct at",
				"%s was %s before the at of the %s (%s), and is not in it", quote(uri),
				change.change, here, written(in.at))
		}
	}
}

// judgePages: the Capability List that a resource links to covers it (core 6.3.3).
func (j *setJudge) judgePages() {
	for _, p := range j.pages {
		s := j.setAt(p.list.set)
		if s == nil || s.broken || s.resources.read == 0 {
			continue
		}
		_, asked := s.resources.where[p.d.uri]
		_, redirected := s.resources.where[p.d.base.String()]
		if !asked && !redirected {
			j.about = func() []*document { return s.documents }
			j.report(ruleLinkedCovers, p.d.place("link[rel=resourcesync]"), nil,
				"link to the Capability List of the set that the resource is in",
				"the Resource List of %s does not have this resource", quote(p.list.uri))
		}
	}
}

package check

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"carillon/payload"
)

// The judges in this file say what is wrong between a lead and its target. The target was
// answered with 200; where it is no document at all, that was reported of it.

// judgeUp: up links lead from a document to the Capability List, and from there to the Source
// Description (core 6.2).
func (w *walk) judgeUp(l *lead, d *document) {
	if !d.known {
		return
	}
	from := l.from
	want := payload.CapCapabilityList
	if from.is(payload.CapCapabilityList) {
		want = payload.CapDescription
	}
	switch {
	case from.is(payload.CapDescription):
		w.report(ruleNoUp, l.at, from, "take the link away",
			"a Source Description is the top, and has no link with rel=up")
	case !d.is(want):
		w.report(ruleUp, l.at, from, "link to the "+kindOf(want, false), "%s is a %s", w.says(l),
			kindOf(d.head.Capability, d.isIndex()))
	case want == payload.CapDescription:
		if !d.isIndex() {
			if w.isUnlisted(d, from) {
				w.report(ruleSetListed, d.place(""), d, "add a url for it",
					"the Capability List %s, which links to it with rel=up, is not listed",
					quote(from.uri))
			}
		}
	}
}

// isUnlisted reports whether no entry of d is an address of other. A document may have several
// addresses: where the target of one was not read, isUnlisted reports false.
func (w *walk) isUnlisted(d, other *document) bool {
	return d.whole && !d.cut && !other.local && !w.mayList(d, other)
}

// mayList reports whether an entry of d is an address of other, as far as that is known.
func (w *walk) mayList(d, other *document) bool {
	for at := range d.addresses() {
		if to := w.seen[at]; to == nil || to.err != nil || to.same(other) {
			return true
		}
	}
	return false
}

// isSame reports whether two addresses lead to the same document, as far as that is known.
func (w *walk) isSame(a, b *url.URL) bool {
	if a.String() == b.String() {
		return true
	}
	first, second := w.seen[a.String()], w.seen[b.String()]
	return first == nil || second == nil || first.err != nil || second.err != nil ||
		first.same(second)
}

// same reports whether two documents are one, or copies at several addresses.
func (d *document) same(other *document) bool {
	return d == other || d.whole && other.whole && d.sum == other.sum
}

// judgeIndex: rel=index leads from a part to the index that lists it (core 6.2).
func (w *walk) judgeIndex(l *lead, d *document) {
	switch from := l.from; {
	case !d.known:
	case !d.isIndex():
		w.report(ruleIndex, l.at, from, "link to the index, or take the link away",
			"%s has the root element urlset", w.says(l))
	case d.head.Capability != from.head.Capability:
		w.report(ruleIndexSame, l.at, from, "link to the index of documents of the same capability",
			"%s is a %s, and this a %s", w.says(l), kindOf(d.head.Capability, true),
			kindOf(from.head.Capability, false))
	default:
		if w.isUnlisted(d, from) {
			w.report(ruleIndexListed, d.place(""), d, "add a sitemap for it",
				"%s, which links to it with rel=index, is not listed", quote(from.uri))
		}
	}
}

// judgePart: a part of an index is a list of the same capability, and links back (core 6.1, 6.2).
func (w *walk) judgePart(l *lead, d *document) {
	if !d.known {
		return
	}
	index := l.from
	switch {
	case d.isIndex():
		w.breaks(l.set)
		w.report(rulePartList, l.at, index, "list urlset documents in the index",
			"%s is an index too", w.says(l))
		return
	case d.head.Capability != index.head.Capability:
		w.breaks(l.set)
		w.report(rulePartSame, l.at, index, "give both the same capability",
			"%s is a %s, and the index a %s",
			w.says(l), kindOf(d.head.Capability, false), kindOf(index.head.Capability, true))
		return
	}
	if back := d.link(payload.RelIndex); back == nil && !index.is(payload.CapDescription) {
		w.report(rulePartBack, d.place(""), d, "add a link with rel=index",
			"it is a part of the index %s, and has no link with rel=index", quote(index.uri))
	}
	w.judgeLastMod(l, d, ruleLastMod)
	w.judgeTimes(l, d, ruleEntryTimes)
}

// judgeSet: a Source Description lists Capability Lists (core 8).
func (w *walk) judgeSet(l *lead, d *document) {
	switch {
	case !d.known:
	case d.head.Capability != payload.CapCapabilityList:
		w.report(ruleSet, l.at, l.from, "list Capability Lists only", "%s is a %s", w.says(l),
			kindOf(d.head.Capability, d.isIndex()))
	default:
		w.judgeLastMod(l, d, ruleSetLastMod)
	}
}

// judgeCapability: an entry of a Capability List has the capability of its document (core 9).
func (w *walk) judgeCapability(l *lead, d *document) {
	if !d.known {
		return
	}
	if l.entry.Capability != "" && d.head.Capability != l.entry.Capability {
		w.breaks(l.set)
		w.report(ruleCapability, l.at, l.from, "give both the same capability",
			"it says %s, and the document is a %s",
			quote(l.entry.Capability), kindOf(d.head.Capability, d.isIndex()))
		return
	}
	w.judgeLastMod(l, d, ruleCapabilityLastMod)
	w.judgeListedBy(d, l.from)
}

// judgeListedBy: a document links up to the Capability List that lists it, or to the same one at
// another address (core 6.2).
func (w *walk) judgeListedBy(d, list *document) {
	up := d.link(payload.RelUp)
	if up == nil || list.local {
		return
	}
	to := d.resolve(up.Href)
	if to == nil || w.isSame(to, list.base) {
		return
	}
	w.report(ruleCapabilityUp, d.place("rs:ln[@rel='up']"), d,
		"link to the Capability List that lists it",
		"its link with rel=up is %s, and the Capability List that lists it is %s", quote(up.Href),
		quote(list.uri))
}

// judgeArchives: rel=archives leads to the archive of the same capability (archives 2.2).
func (w *walk) judgeArchives(l *lead, d *document) {
	if !d.known {
		return
	}
	of, is := payload.Archived(d.head.Capability)
	from, _ := payload.Archived(l.from.head.Capability)
	if !is || of != from {
		w.report(ruleArchives, l.at, l.from, "link to the archive of documents of this capability",
			"%s is a %s, and this a %s",
			w.says(l), kindOf(d.head.Capability, d.isIndex()),
			kindOf(l.from.head.Capability, l.from.isIndex()))
	}
}

// judgeArchived: an archive lists documents of its capability, with their times (archives 3 to 6).
func (w *walk) judgeArchived(l *lead, d *document) {
	if !d.known {
		return
	}
	of, _ := payload.Archived(l.from.head.Capability)
	if d.head.Capability != of {
		w.report(ruleArchived, l.at, l.from, "list documents of one capability",
			"%s is a %s, and the archive is one of a %s",
			w.says(l), kindOf(d.head.Capability, d.isIndex()), kindOf(of, false))
		return
	}
	w.judgeLastMod(l, d, ruleLastMod)
	w.judgeTimes(l, d, ruleArchivedTimes)
}

// judgeLastMod: lastmod is what the server says as Last-Modified (core 7).
func (w *walk) judgeLastMod(l *lead, d *document, rule ruleID) {
	told := finite(l.entry.LastMod)
	served, err := http.ParseTime(d.header.Get("Last-Modified"))
	if told.IsZero() || err != nil || !isComplete(l.entry.LastMod) ||
		told.Truncate(time.Second).Equal(served) {
		return
	}
	w.report(rule, l.from.of(l.entry, "/lastmod"), l.from,
		"write it anew whenever the document changes, or leave it out",
		"lastmod is %s, and the document's Last-Modified is %s", quote(l.entry.LastMod),
		quote(d.header.Get("Last-Modified")))
}

// isComplete reports whether a datetime has a time of day.
func isComplete(told string) bool { return strings.Contains(told, "T") }

package check

import (
	"net/http"
	"slices"
	"time"

	"carillon/payload"
)

// linkJudge reports the fault between a lead and its target. The target was answered with 200;
// where it is no document at all, that was reported of it.
type linkJudge struct{ evidence }

// judgeUp: up links lead from a document to the Capability List, and from there to the Source
// Description (core 6.2).
func (j *linkJudge) judgeUp(l *lead, d *document) {
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
		j.report(ruleNoUp, l.at, from, "take the link away",
			"a Source Description is the top, and has no link with rel=up")
	case !d.is(want):
		j.report(ruleUp, l.at, from, "link to the "+kindOf(want, false), "%s is a %s", l.says(),
			kindOf(d.head.Capability, d.isIndex()))
	case want == payload.CapDescription:
		if !d.isIndex() {
			if j.isUnlisted(d, from) {
				j.report(ruleSetListed, d.place(""), d, "add a url for it",
					"the Capability List %s, which links to it with rel=up, is not listed",
					quote(from.uri))
			}
		}
	}
}

// judgeIndex: rel=index leads from a part to the index that lists it (core 6.2).
func (j *linkJudge) judgeIndex(l *lead, d *document) {
	switch from := l.from; {
	case !d.known:
	case !d.isIndex():
		j.report(ruleIndex, l.at, from, "link to the index, or take the link away",
			"%s has the root element urlset", l.says())
	case d.head.Capability != from.head.Capability:
		j.report(ruleIndexSame, l.at, from, "link to the index of documents of the same capability",
			"%s is a %s, and this a %s", l.says(), kindOf(d.head.Capability, true),
			kindOf(from.head.Capability, false))
	default:
		if j.isUnlisted(d, from) {
			j.report(ruleIndexListed, d.place(""), d, "add a sitemap for it",
				"%s, which links to it with rel=index, is not listed", quote(from.uri))
		}
	}
}

// judgePart: a part of an index is a list of the same capability, and links back (core 6.1, 6.2).
func (j *linkJudge) judgePart(l *lead, d *document) {
	if !d.known {
		return
	}
	index := l.from
	switch {
	case d.isIndex():
		j.breaks(l.set)
		j.report(rulePartList, l.at, index, "list urlset documents in the index",
			"%s is an index too", l.says())
		return
	case d.head.Capability != index.head.Capability:
		j.breaks(l.set)
		j.report(rulePartSame, l.at, index, "give both the same capability",
			"%s is a %s, and the index a %s",
			l.says(), kindOf(d.head.Capability, false), kindOf(index.head.Capability, true))
		return
	}
	if back := d.link(payload.RelIndex); back == nil && !index.is(payload.CapDescription) {
		j.report(rulePartBack, d.place(""), d, "add a link with rel=index",
			"it is a part of the index %s, and has no link with rel=index", quote(index.uri))
	}
	j.judgeLastMod(l, d, ruleLastMod)
	j.judgeTimes(l, d, ruleEntryTimes)
}

// judgeSet: a Source Description lists Capability Lists (core 8).
func (j *linkJudge) judgeSet(l *lead, d *document) {
	switch {
	case !d.known:
	case d.head.Capability != payload.CapCapabilityList:
		j.report(ruleSet, l.at, l.from, "list Capability Lists only", "%s is a %s", l.says(),
			kindOf(d.head.Capability, d.isIndex()))
	default:
		j.judgeLastMod(l, d, ruleSetLastMod)
	}
}

// judgeCapability: an entry of a Capability List has the capability of its document (core 9).
func (j *linkJudge) judgeCapability(l *lead, d *document) {
	if !d.known {
		return
	}
	if l.entry.Capability != "" && d.head.Capability != l.entry.Capability {
		j.breaks(l.set)
		j.report(ruleCapability, l.at, l.from, "give both the same capability",
			"it says %s, and the document is a %s",
			quote(l.entry.Capability), kindOf(d.head.Capability, d.isIndex()))
		return
	}
	j.judgeLastMod(l, d, ruleCapabilityLastMod)
	j.judgeListedBy(d, l.from)
}

// judgeListedBy: a document links up to the Capability List that lists it, or to the same one at
// another address (core 6.2).
func (j *linkJudge) judgeListedBy(d, list *document) {
	up := d.link(payload.RelUp)
	if up == nil || list.local {
		return
	}
	to := d.resolve(up.Href)
	if to == nil || j.isSame(to, list.base) {
		return
	}
	j.report(ruleCapabilityUp, d.place("rs:ln[@rel='up']"), d,
		"link to the Capability List that lists it",
		"its link with rel=up is %s, and the Capability List that lists it is %s", quote(up.Href),
		quote(list.uri))
}

// judgeArchives: rel=archives leads to the archive of the same capability (archives 2.2).
func (j *linkJudge) judgeArchives(l *lead, d *document) {
	if !d.known {
		return
	}
	of, is := payload.Archived(d.head.Capability)
	from, _ := payload.Archived(l.from.head.Capability)
	if !is || of != from {
		j.report(ruleArchives, l.at, l.from, "link to the archive of documents of this capability",
			"%s is a %s, and this a %s",
			l.says(), kindOf(d.head.Capability, d.isIndex()),
			kindOf(l.from.head.Capability, l.from.isIndex()))
	}
}

// judgeArchived: an archive lists documents of its capability, with their times (archives 3 to 6).
func (j *linkJudge) judgeArchived(l *lead, d *document) {
	if !d.known {
		return
	}
	of, _ := payload.Archived(l.from.head.Capability)
	if d.head.Capability != of {
		j.report(ruleArchived, l.at, l.from, "list documents of one capability",
			"%s is a %s, and the archive is one of a %s",
			l.says(), kindOf(d.head.Capability, d.isIndex()), kindOf(of, false))
		return
	}
	j.judgeLastMod(l, d, ruleLastMod)
	j.judgeTimes(l, d, ruleArchivedTimes)
}

// judgeLastMod: lastmod is what the server says as Last-Modified (core 7).
func (j *linkJudge) judgeLastMod(l *lead, d *document, rule ruleID) {
	told := finite(l.entry.LastMod)
	served, err := http.ParseTime(d.header.Get("Last-Modified"))
	if told.IsZero() || err != nil || !isComplete(l.entry.LastMod) ||
		told.Truncate(time.Second).Equal(served) {
		return
	}
	j.report(rule, l.from.of(l.entry, "/lastmod"), l.from,
		"write it anew whenever the document changes, or leave it out",
		"lastmod is %s, and the document's Last-Modified is %s", quote(l.entry.LastMod),
		quote(d.header.Get("Last-Modified")))
}

// judgeTopic: a Capability List names the hub that the topic names (CN 5).
func (j *linkJudge) judgeTopic(l *lead, d *document) {
	if d.known && d.head.Capability != "" && !d.is(payload.ChangeNotification) {
		j.report(ruleOwnChannel, d.place("rs:md/@capability"), d,
			"have a channel of its own for change notifications",
			"the topic of a channel for change notifications has a %s",
			kindOf(d.head.Capability, d.isIndex()))
	}
	if d.channelOf == nil {
		d.channelOf = l.from
	} else if !d.channelOf.same(l.from) {
		j.report(ruleOwnSet, l.at, l.from, "have a channel of its own for each Capability List",
			"the topic %s is listed in the Capability List %s too", quote(d.uri),
			quote(d.channelOf.uri))
	}
	hubs, told := d.addressesOf(d.links, "hub"), ""
	for i := range l.entry.Links {
		link := &l.entry.Links[i]
		to := l.from.resolve(link.Href)
		switch {
		case link.Rel != payload.RelHub || to == nil:
		case slices.Contains(hubs, to.String()):
			return
		default:
			told = link.Href
		}
	}
	if told != "" && len(hubs) > 0 {
		j.report(ruleSameHub, l.at, l.from, "name the same hubs at both",
			"it names the hub %s, and the topic %s names %s",
			quote(told), quote(d.uri), quote(hubs[0]))
	}
}

// judgeWellKnown: the document at the well-known address is a Source Description (core 6.3.2).
func (j *linkJudge) judgeWellKnown(l *lead, d *document) {
	switch {
	case d.err != nil || d.status/100 == 5: // Run returns it
	case d.status != http.StatusOK:
		j.report(ruleWellKnown, l.at, nil, "serve the Source Description there, or redirect to it",
			"it is answered %d %s", d.status, http.StatusText(d.status))
	case d.known && !d.is(payload.CapDescription):
		j.report(ruleWellKnownIs, l.at, nil, "serve the Source Description there", "it is a %s",
			kindOf(d.head.Capability, d.isIndex()))
	}
}

// judgeSitemap: robots.txt names a Resource List, or a sitemap of a site that has others too.
func (j *linkJudge) judgeSitemap(l *lead, d *document) {
	if d.known && d.head.Capability != "" && !d.is(payload.CapResourceList) {
		j.report(ruleSitemap, l.at, nil, "name Resource Lists only", "%s is a %s", l.says(),
			kindOf(d.head.Capability, d.isIndex()))
	}
}

// judgeLinked: a resource links to the Capability List that covers it (core 6.3.3).
func (j *linkJudge) judgeLinked(l *lead, d *document) {
	switch {
	case !d.known:
	case !d.is(payload.CapCapabilityList):
		j.report(ruleLinkedIs, l.at, nil, "link to the Capability List", "%s is a %s", l.says(),
			kindOf(d.head.Capability, d.isIndex()))
	case l.from.isTopic():
		if j.isUnlisted(d, l.from) {
			j.report(
				ruleChannelListed, d.place(""), d,
				"add a url for it, with capability=change-notification and its hub",
				"the topic %s, which links to it with rel=resourcesync, is not listed",
				quote(l.from.uri),
			)
		}
	case l.from.known || l.from.led(rolePage):
		// A document leads to its own Capability List, the page of a site to one of the site.
	default:
		j.pages = append(j.pages, page{l.from, d})
	}
}

// isThere reports whether there is something at the target, and what is wrong if not.
func (j *linkJudge) isThere(l *lead, d *document) bool {
	const mend = "serve it there, or take the link away"
	switch {
	case d.err != nil:
		j.report(roles[l.role].missing, l.at, l.from, mend, "%s cannot be read: %s", l.says(),
			reason(d.err))
	case d.status != http.StatusOK && !(d.status/100 == 2 && l.role == roleTopic):
		j.report(roles[l.role].missing, l.at, l.from, mend, "%s is answered %d %s", l.says(),
			d.status, http.StatusText(d.status))
	default:
		return true
	}
	return false
}

// judgeTimes: the times in an entry are those in the document.
func (j *linkJudge) judgeTimes(l *lead, d *document, rule ruleID) {
	told, own := l.entry.span(), d.span()
	for _, t := range [...]struct {
		name      string
		told, own time.Time
	}{
		{"from", told.from, own.from},
		{"until", told.until, own.until},
		{"at", told.at, own.at},
		{"completed", told.completed, own.completed},
	} {
		if !t.told.IsZero() && !t.own.IsZero() && !t.told.Equal(t.own) {
			j.report(rule, l.from.of(l.entry, "/rs:md/@"+t.name), l.from,
				"write what the document says",
				"%s is %s, and in the document %s", t.name, written(t.told), written(t.own))
		}
	}
	switch {
	case d.ofResources() || told.from.IsZero():
	case told.until.IsZero() && !own.until.IsZero():
		j.report(ruleClosed, l.from.of(l.entry, "/rs:md"), l.from, "write until for it",
			"the document is closed (until %s), and its entry has no until", written(own.until))
	case !told.until.IsZero() && own.until.IsZero() && !own.from.IsZero():
		j.report(ruleOpen, l.from.of(l.entry, "/rs:md/@until"), l.from,
			"leave until out while the document is open",
			"until is %s, and the document is open (it has none)", written(told.until))
	}
}

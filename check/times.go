package check

import (
	"net/http"
	"time"

	"carillon/payload"
)

// span is what a document, or an entry of one, says of its times.
type span struct{ from, until, at, completed time.Time }

func (e *listed) span() span {
	return span{finite(e.From), finite(e.Until), finite(e.At), finite(e.Completed)}
}

func (d *document) span() span {
	h := &d.head
	return span{h.FromTime, h.UntilTime, h.AtTime, h.CompletedTime}
}

// judgeTimes: what an entry says of a document's times is what the document says.
func (w *walk) judgeTimes(l *lead, d *document, rule ruleID) {
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
			w.report(rule, l.from.of(l.entry, "/rs:md/@"+t.name), l.from,
				"write what the document says",
				"%s is %s, and in the document %s", t.name, written(t.told), written(t.own))
		}
	}
	switch {
	case d.ofResources() || told.from.IsZero():
	case told.until.IsZero() && !own.until.IsZero():
		w.report(ruleClosed, l.from.of(l.entry, "/rs:md"), l.from, "write until for it",
			"the document is closed (until %s), and its entry has no until", written(own.until))
	case !told.until.IsZero() && own.until.IsZero() && !own.from.IsZero():
		w.report(ruleOpen, l.from.of(l.entry, "/rs:md/@until"), l.from,
			"leave until out while the document is open",
			"until is %s, and the document is open (it has none)", written(told.until))
	}
}

// maxSkew is how far the clock that dates documents may be ahead of the server's.
const maxSkew = time.Minute

// judgeFuture: a document says nothing of times that have not been yet (core 7).
func (w *walk) judgeFuture(d *document, newest time.Time) {
	now := time.Now()
	if at, err := http.ParseTime(d.header.Get("Date")); err == nil {
		now = later(now, at)
	}
	own := d.span()
	for _, t := range [...]struct {
		element string
		time.Time
	}{
		{"rs:md/@at", own.at},
		{"rs:md/@completed", own.completed},
		{"rs:md/@from", own.from},
		{"rs:md/@until", own.until},
		{"url/rs:md/@datetime", newest},
	} {
		if t.After(now.Add(maxSkew)) {
			w.report(ruleFuture, d.place(t.element), d,
				"write a time that has passed, and correct the clock",
				"%s is in the future (it was served at %s)", written(t.Time), written(now))
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (d *document) ofResources() bool {
	of, _ := payload.Archived(d.head.Capability)
	return payload.IsSnapshot(of)
}

// written is a time in the form that core 7 recommends.
func written(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999999Z") }

// partOf is one part of an index, one package of a dump or one document of an archive, with
// what is known of its times: by the entry, or else by the part or the manifest itself.
type partOf struct {
	*listed
	d *document // nil if it was not read
	span
	// told: the index says the times, and so the document rules judge them.
	told bool
}

// parts are what a document lists, in its order.
func (w *walk) parts(index *document) []partOf {
	all := make([]partOf, 0, len(index.entries))
	for i := range index.entries {
		p := partOf{listed: &index.entries[i]}
		if to := index.resolve(p.Loc); to != nil {
			d := w.seen[to.String()]
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

// judgeOrder judges the times of what a document lists: parts, packages, archived documents.
func (w *walk) judgeOrder(d *document) {
	of, archive := payload.Archived(d.head.Capability)
	switch {
	case d.isIndex() && !archive:
		w.judgeIndexTimes(d)
	case d.isIndex():
	case d.is(payload.CapChangeDump):
		w.judgeChain(d, w.parts(d), rulePackageOrder)
	case archive && (of == payload.CapChangeList || of == payload.CapChangeDump):
		w.judgeChain(d, w.parts(d), ruleChainOrder)
	}
}

// judgeIndexTimes judges the interval of an index by those of its parts.
func (w *walk) judgeIndexTimes(index *document) {
	all := w.parts(index)
	if index.ofResources() {
		w.judgeSnapshot(index, all)
		return
	}
	w.judgeChain(index, all, ruleChainOrder)
	if len(all) == 0 {
		return
	}
	own, first, last := index.span(), &all[0], &all[len(all)-1]
	if !own.from.IsZero() && own.from.Before(first.from) {
		w.report(ruleIndexFrom, index.place("rs:md/@from"), index,
			"write the from of the first part",
			"from is %s, and the first part begins at %s: no part has the changes between",
			written(own.from), written(first.from))
	}
	closed := last.until
	if closed.IsZero() && last.d != nil {
		closed = last.d.head.UntilTime
	}
	if !own.until.IsZero() && !last.from.IsZero() && (closed.IsZero() || closed.Before(own.until)) {
		w.report(ruleIndexUntil, index.place("rs:md/@until"), index,
			"leave until out, or write that of the last part",
			"until is %s, and the last part ends %s", written(own.until), orOpen(closed))
	}
}

func orOpen(until time.Time) string {
	if until.IsZero() {
		return "nowhere: it is open"
	}
	return "at " + written(until)
}

// judgeSnapshot: the snapshot of an index begins no later, and ends no sooner, than those of
// its parts.
func (w *walk) judgeSnapshot(index *document, all []partOf) {
	own := index.span()
	for i := range all {
		switch p := &all[i]; {
		case !own.at.IsZero() && !p.at.IsZero() && p.at.Before(own.at):
			w.report(ruleSnapshotAt, index.of(p.listed, ""), index,
				"write the earliest at of the parts",
				"its at is %s, and that of the index is later: %s", written(p.at), written(own.at))
		case !own.completed.IsZero() && !p.completed.IsZero() && own.completed.Before(p.completed):
			w.report(ruleSnapshotCompleted, index.of(p.listed, ""), index,
				"write the latest completed of the parts",
				"its completed is %s, and that of the index is earlier: %s", written(p.completed),
				written(own.completed))
		}
	}
}

// judgeChain: one part begins where the one before ends (core 12.2). Where the entries say all
// times the document rules have judged that.
func (w *walk) judgeChain(index *document, all []partOf, order ruleID) {
	for i := 1; i < len(all); i++ {
		before, p := &all[i-1], &all[i]
		if before.told && p.told || before.from.IsZero() {
			continue
		}
		at := index.of(p.listed, "")
		switch (payload.Interval{From: before.from, Until: before.until}).Join(p.from,
			before.until.IsZero()) {
		case payload.Early:
			w.report(order, at, index, "list the oldest first",
				"it begins at %s, and the one before it at %s", written(p.from),
				written(before.from))
		case payload.NoEnd:
			w.report(ruleChainOpen, index.of(before.listed, ""), index, "close it, or list it last",
				"it is open (it has no until), and another follows it")
		case payload.Overlap:
			w.report(ruleChainOverlap, at, index, "begin it where the one before ends",
				"it begins at %s, before the one before it ends at %s: changes may be in both",
				written(p.from), written(before.until))
		case payload.Gap:
			w.report(ruleChainGap, at, index, "begin it where the one before ends",
				"it begins at %s, and the one before it ends at %s: no part has the changes between", written(p.from), written(before.until))
		}
	}
}

// judgeArchiveEnds: an archive of documents of changes reaches up to what the live document has
// (archives 5).
func (w *walk) judgeArchiveEnds(live *document) {
	link := live.link(payload.RelArchives)
	if link == nil || live.ofResources() {
		return
	}
	to := live.resolve(link.Href)
	if to == nil {
		return
	}
	archive := w.seen[to.String()]
	if archive == nil || !archive.whole {
		return
	}
	var last time.Time
	for _, p := range w.archivedIn(archive) {
		last = later(last, p.until)
	}
	if (payload.Interval{Until: last}).Join(live.head.FromTime, false) == payload.Gap {
		of := &document{head: payload.Header{Capability: archive.head.Capability}} // not of its index
		w.report(ruleArchiveEnd, archive.place(""), of, "archive each document as it closes",
			"it ends at %s, and the live document %s begins at %s: the changes between are in neither", written(last), quote(live.uri), written(live.head.FromTime))
	}
}

// archivedIn are the documents of an archive, or of all parts of its index.
func (w *walk) archivedIn(archive *document) (all []partOf) {
	if !archive.isIndex() {
		return w.parts(archive)
	}
	for _, part := range w.parts(archive) {
		if part.d != nil && !part.d.isIndex() {
			all = append(all, w.parts(part.d)...)
		}
	}
	return all
}

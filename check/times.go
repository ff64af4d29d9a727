package check

import (
	"time"

	"carillon/payload"
)

// timeJudge judges the times of what documents list.
type timeJudge struct{ evidence }

// judgeOrder judges the times of what a document lists: parts, packages, archived documents.
func (j *timeJudge) judgeOrder(d *document) {
	of, archive := payload.Archived(d.head.Capability)
	switch {
	case d.isIndex() && !archive:
		j.judgeIndexTimes(d)
	case d.isIndex():
	case d.is(payload.CapChangeDump):
		j.judgeChain(d, j.parts(d), rulePackageOrder)
	case archive && (of == payload.CapChangeList || of == payload.CapChangeDump):
		j.judgeChain(d, j.parts(d), ruleChainOrder)
	}
}

// judgeIndexTimes judges the interval of an index by those of its parts.
func (j *timeJudge) judgeIndexTimes(index *document) {
	all := j.parts(index)
	if index.ofResources() {
		j.judgeSnapshot(index, all)
		return
	}
	j.judgeChain(index, all, ruleChainOrder)
	if len(all) == 0 {
		return
	}
	own, first, last := index.span(), &all[0], &all[len(all)-1]
	if !own.from.IsZero() && own.from.Before(first.from) {
		j.report(ruleIndexFrom, index.place("rs:md/@from"), index,
			"write the from of the first part",
			"from is %s, and the first part begins at %s: no part has the changes between",
			written(own.from), written(first.from))
	}
	closed := last.until
	if closed.IsZero() && last.d != nil {
		closed = last.d.head.UntilTime
	}
	if !own.until.IsZero() && !last.from.IsZero() && (closed.IsZero() || closed.Before(own.until)) {
		j.report(ruleIndexUntil, index.place("rs:md/@until"), index,
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
func (j *timeJudge) judgeSnapshot(index *document, all []partOf) {
	own := index.span()
	for i := range all {
		switch p := &all[i]; {
		case !own.at.IsZero() && !p.at.IsZero() && p.at.Before(own.at):
			j.report(ruleSnapshotAt, index.of(p.listed, ""), index,
				"write the earliest at of the parts",
				"its at is %s, and that of the index is later: %s", written(p.at), written(own.at))
		case !own.completed.IsZero() && !p.completed.IsZero() && own.completed.Before(p.completed):
			j.report(ruleSnapshotCompleted, index.of(p.listed, ""), index,
				"write the latest completed of the parts",
				"its completed is %s, and that of the index is earlier: %s", written(p.completed),
				written(own.completed))
		}
	}
}

// judgeChain: one part begins where the one before ends (core 12.2). Where the entries say all
// times the document rules have judged that.
func (j *timeJudge) judgeChain(index *document, all []partOf, order ruleID) {
	for i := 1; i < len(all); i++ {
		before, p := &all[i-1], &all[i]
		if before.told && p.told || before.from.IsZero() {
			continue
		}
		at := index.of(p.listed, "")
		switch (payload.Interval{From: before.from, Until: before.until}).Join(p.from,
			before.until.IsZero()) {
		case payload.Early:
			j.report(order, at, index, "list the oldest first",
				"it begins at %s, and the one before it at %s", written(p.from),
				written(before.from))
		case payload.NoEnd:
			j.report(ruleChainOpen, index.of(before.listed, ""), index, "close it, or list it last",
				"it is open (it has no until), and another follows it")
		case payload.Overlap:
			j.report(ruleChainOverlap, at, index, "begin it where the one before ends",
				"it begins at %s, before the one before it ends at %s: changes may be in both",
				written(p.from), written(before.until))
		case payload.Gap:
			j.report(ruleChainGap, at, index, "begin it where the one before ends",
				"it begins at %s, and the one before it ends at %s: no part has the changes between", written(p.from), written(before.until))
		}
	}
}

// judgeArchiveEnds: an archive of documents of changes reaches up to what the live document has
// (archives 5).
func (j *timeJudge) judgeArchiveEnds(live *document) {
	link := live.link(payload.RelArchives)
	if link == nil || live.ofResources() {
		return
	}
	to := live.resolve(link.Href)
	if to == nil {
		return
	}
	archive := j.seen[to.String()]
	if archive == nil || !archive.whole {
		return
	}
	var last time.Time
	for _, p := range j.archivedIn(archive) {
		last = later(last, p.until)
	}
	if (payload.Interval{Until: last}).Join(live.head.FromTime, false) == payload.Gap {
		of := &document{head: payload.Header{Capability: archive.head.Capability}} // not of its index
		j.report(ruleArchiveEnd, archive.place(""), of, "archive each document as it closes",
			"it ends at %s, and the live document %s begins at %s: the changes between are in neither", written(last), quote(live.uri), written(live.head.FromTime))
	}
}

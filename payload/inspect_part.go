package payload

import (
	"strings"
	"time"
)

// maxListed is how many capabilities of a Capability List are remembered. The standards
// define thirteen.
const maxListed = 64

// judgePart judges an entry of an index, or a package of a dump.
func (i *Inspector) judgePart(e *Entry) {
	from, until := i.partTimes(e)
	switch {
	case i.kind.lists == documents || i.kind.lists == capabilities:
		// Of the parts of such an index the clauses say nothing about times.
	case i.times() == interval:
		if e.At != "" || e.Completed != "" {
			i.note(oddTimes, clauseCore, "rs:md/@at",
				"at and completed are not used for documents of changes")
		}
		if e.From == "" {
			i.note(oddPartFrom, i.clause(), "rs:md/@from",
				"it should have from and, unless it is open, until")
		}
		i.judgeChain(from, until, e.Until != "")
	case i.times() == snapshot:
		if e.From != "" || e.Until != "" {
			i.note(oddTimes, clauseCore, "rs:md/@from",
				"from and until are not used for documents of resources")
		}
	}
}

// partTimes judges the times of a part, each by itself, and returns those of changes.
func (i *Inspector) partTimes(e *Entry) (from, until time.Time) {
	from = i.datetime(oddPartDatetime, "from", e.From)
	until = i.datetime(oddPartDatetime, "until", e.Until)
	at := i.datetime(oddPartDatetime, "at", e.At)
	completed := i.datetime(oddPartDatetime, "completed", e.Completed)
	switch {
	case !until.IsZero() && until.Before(from):
		i.note(oddPartBackward, clauseCore, "rs:md/@until", "it ends before it begins")
	case !completed.IsZero() && completed.Before(at):
		i.note(oddPartBackward, clauseCore, "rs:md/@completed", "it ends before it begins")
	}
	return from, until
}

// judgeChain judges how a part of changes follows on the one before (core §12.2): it begins
// where that ended, and only the last is open. An end that cannot be read has no time.
func (i *Inspector) judgeChain(from, until time.Time, closed bool) {
	before, ended, now := i.last, i.ended, i.now
	i.last, i.ended = now, moment{}
	i.last.Time = from
	if closed {
		i.ended = now
		if !until.Before(from) {
			i.ended.Time = until
		}
	}
	if before.IsZero() {
		return
	}
	const at = "rs:md/@from"
	switch (Interval{before.Time, ended.Time}).Join(from, ended.entry == 0) {
	case Early:
		level := rulings[oddPartOrder].level
		if i.lists() == packages {
			level = Warning // core §13.1 only recommends the order
		}
		i.noteAs(level, oddPartOrder, i.clause(), at,
			"it begins before entry %d; the oldest comes first", before.entry)
	case NoEnd:
		i.now = before
		i.note(oddPartOpen, i.clause(), "rs:md/@until", "it has no until, and is not the last")
		i.now = now
	case Overlap:
		i.note(oddOverlap, i.clause(), at, "it begins before entry %d ends: changes may be in both",
			ended.entry)
	case Gap:
		i.note(oddGap, i.clause(), at,
			"it begins after entry %d ends: changes between them are in neither", ended.entry)
	}
}

// judgePackage judges an entry of a dump, beside its times.
func (i *Inspector) judgePackage(e *Entry) {
	if e.Type == "" || e.Length == "" {
		at := "rs:md/@type"
		if e.Type != "" {
			at = "rs:md/@length"
		}
		i.note(oddPackage, i.clause(), at,
			"the recommended type and length of the package are missing")
	}
	if e.Type == "" {
		return
	}
	format := strings.ToLower(e.Type)
	if i.format == "" && len(format) <= MaxFieldChars {
		i.format = strings.Clone(format)
	}
	if format != i.format {
		i.note(oddFormat, i.clause(), "rs:md/@type",
			"packages should be of one format; this one is %.60q, the first %.60q", e.Type,
			i.format)
	}
	if !isZIP(e.Type) {
		i.note(oddZIP, i.clause(), "rs:md/@type", "packages should be ZIP files, not %.60q", e.Type)
	}
}

// judgeDocument judges an entry of an archive.
func (i *Inspector) judgeDocument(e *Entry) {
	from, until := i.partTimes(e)
	switch i.capability {
	case CapResourceListArchive, CapResourceDumpArchive:
		if e.At == "" {
			i.note(oddPartAt, i.clause(), "rs:md/@at",
				"at is missing: it is unknown what moment the document shows")
		}
		if e.From != "" || e.Until != "" {
			i.note(oddTimes, clauseCore, "rs:md/@from",
				"from and until are not used for documents of resources")
		}
	default:
		if e.At != "" || e.Completed != "" {
			i.note(oddTimes, clauseCore, "rs:md/@at",
				"at and completed are not used for documents of changes")
		}
		i.judgeChain(from, until, e.Until != "")
	}
}

// judgeListed judges an entry of a Capability List or a Source Description.
func (i *Inspector) judgeListed(e *Entry) {
	const at = "rs:md/@capability"
	if i.capability == CapDescription {
		i.judgeDescribed(e)
		return
	}
	switch {
	case e.Capability == "":
		i.note(oddListed, i.clause(), at, "capability is missing")
		return
	case i.listed[e.Capability]:
		i.note(oddTwice, i.clause(), at,
			"%.60q is listed again; there is one entry for each capability", e.Capability)
	case len(i.listed) < maxListed && len(e.Capability) < 100:
		if i.listed == nil {
			i.listed = map[string]bool{}
		}
		i.listed[strings.Clone(e.Capability)] = true
	}
	k := kindOf(e.Capability)
	if k == nil && !strings.HasSuffix(e.Capability, notificationSuffix) ||
		k != nil && (k.lists == capabilities || k.lists == bitstreams) {
		i.note(oddListedUnknown, i.clause(), at,
			"a Capability List does not list documents of capability %.60q", e.Capability)
	}
	if e.Capability == ChangeNotification && countRel(e.Links, RelHub) == 0 {
		i.note(oddHub, "CN §5", "rs:ln[@rel='hub']", "a channel must have a link with rel=hub")
	}
}

// judgeDescribed judges an entry of a Source Description.
func (i *Inspector) judgeDescribed(e *Entry) {
	const at = "rs:md/@capability"
	switch want := CapCapabilityList; {
	case i.index && (e.Capability == "" || e.Capability == CapDescription): // it lists Source Descriptions
	case e.Capability == "":
		i.note(oddUnlisted, i.clause(), at, "capability is missing: it is %s", want) // core §8 and §7 differ
	case e.Capability != want:
		i.note(oddListed, i.clause(), at, "capability must be %s, not %.60q", want, e.Capability)
	}
	if !i.index && countRel(e.Links, RelDescribedBy) == 0 {
		i.note(oddListedDescribedBy, i.clause(), "rs:ln[@rel='describedby']",
			"the recommended link with rel=describedby is missing")
	}
}

package payload

import (
	"fmt"
	"strings"
	"time"
)

// Inspector notes what a document does otherwise than the clauses have it, while it
// is read: what a Reader takes all the same. Each kind is noted once, at its first
// place, so that it costs the same memory whatever the document is. It knows Change
// Lists, Resource Lists, indexes of both, Capability Lists, Source Descriptions and
// change notifications; of others it judges what holds for all.
//
// Also what is only recommended is noted, and says "should": these are warnings. Whether a
// change notification may be taken at all ValidateNotification tells.
//
// Head gets the Header before the first entry, Entry each entry in turn, and End the
// Header after the last, when it is complete. It is for one goroutine.
type Inspector struct {
	capability string // as the document says, or as it should
	index      bool   // the root is sitemapindex
	judged     bool   // the head's rs:md was
	entries    int
	// last is the datetime of the entry before, or the beginning of the part
	// before; oldest and newest are the extremes so far.
	last, oldest, newest moment
	// ended is where the part before ended; at entry 0 it did not.
	ended  moment
	listed map[string]bool // capabilities of a Capability List
	noted  uint64          // a bit for each kind that was noted
	found  []Violation
}

// NewInspector returns an Inspector of a document that should have the capability,
// such as CapChangeList; empty for any.
func NewInspector(capability string) *Inspector { return &Inspector{capability: capability} }

// Head takes what the document says of itself before its first entry.
func (i *Inspector) Head(h Header) {
	i.index = h.Root == RootSitemapIndex
	if h.told() {
		i.judgeHead(&h)
	}
}

// End takes the Header as it is when the document was read to its end.
func (i *Inspector) End(h Header) {
	i.index = h.Root == RootSitemapIndex
	if !i.judged {
		if h.told() && i.entries > 0 {
			i.note(oddLate, clauseCore, "the document's rs:md stands behind its first entry")
		}
		i.judgeHead(&h)
	}
	i.judgeLinks(h.Links)
	i.judgeShape(&h.shape)
	i.judgeExtremes(&h)
}

// Violations returns what was noted so far, in the order it was found.
func (i *Inspector) Violations() []Violation { return i.found }

// note notes an oddity, once.
func (i *Inspector) note(k oddity, clause, format string, args ...any) {
	if i.noted>>k&1 == 0 {
		i.noted |= 1 << k
		i.found = append(i.found, Violation{Clause: clause, Message: fmt.Sprintf(format, args...), Times: 1})
	}
}

// oddity is a kind of what is noted; there may be 64.
type oddity uint

const (
	oddLate oddity = iota
	oddMDs
	oddPrefix
	oddAttrs
	oddRepeated
	oddMDFirst
	oddMisnamed
	oddCapability
	oddRoot
	oddUp
	oddHeadLink
	oddFrom
	oddUntil
	oddAt
	oddHeadTimes
	oddHeadDatetime
	oddHeadOffset
	oddLoc
	oddLocURI
	oddLastMod
	oddLastModOffset
	oddChange
	oddNoDatetime
	oddDatetime
	oddDatetimeOffset
	oddOrder
	oddBefore
	oddAfter
	oddHash
	oddLength
	oddType
	oddEncoding
	oddLink
	oddTimes
	oddPartDatetime
	oddPartOffset
	oddPartFrom
	oddPartUntil
	oddPartOpen
	oddOverlap
	oddGap
	oddListed
	oddTwice
	oddHub
	oddCount
)

func (i *Inspector) judgeHead(h *Header) {
	i.judged = true
	want := i.capability
	switch {
	case !h.told():
		i.note(oddCapability, clauseCore, "%s has no rs:md with a capability (in the namespace %s)", h.Root, spaceRS)
		return
	case h.Capability == "":
		i.note(oddCapability, clauseCore, "capability is missing")
	case want != "" && h.Capability != want:
		i.note(oddCapability, clauseCore, "capability should be %s here, not %.60q", want, h.Capability)
	}
	if h.Capability != "" {
		i.capability = strings.Clone(h.Capability) // it must not hold on to the whole head
	}
	if i.index && (i.capability == CapCapabilityList || i.isNotification()) {
		i.note(oddRoot, i.clause(), "the root element should be urlset: there is no index of these documents")
	}
	i.judgeHeadTimes(h)
}

func (i *Inspector) judgeHeadTimes(h *Header) {
	for _, t := range [...]struct{ name, told string }{
		{"from", h.From}, {"until", h.Until}, {"at", h.At}, {"completed", h.Completed},
	} {
		i.datetime(oddHeadDatetime, 0, t.name, t.told)
	}
	switch {
	case i.ofChanges():
		if h.From == "" {
			i.note(oddFrom, i.clause(), "from is missing: it is unknown since when changes are told")
		}
		if h.At+h.Completed != "" {
			i.note(oddHeadTimes, clauseCore, "at and completed are not used for a document of changes")
		}
		if h.Until == "" && i.isNotification() {
			i.note(oddUntil, i.clause(), "until is missing")
		}
	case i.ofResources():
		if h.At == "" {
			i.note(oddAt, i.clause(), "at is missing: it is unknown up to when changes are in it")
		}
		if h.From+h.Until != "" {
			i.note(oddHeadTimes, clauseCore, "from and until are not used for a document of resources")
		}
	}
	if !h.UntilTime.IsZero() && h.UntilTime.Before(h.FromTime) {
		i.note(oddUntil, clauseCore, "until %.60q is before from %.60q", h.Until, h.From)
	}
	if !h.CompletedTime.IsZero() && h.CompletedTime.Before(h.AtTime) {
		i.note(oddUntil, clauseCore, "completed %.60q is before at %.60q", h.Completed, h.At)
	}
}

// told tells whether the document has an rs:md that says something.
func (h *Header) told() bool {
	return h.Capability != "" || h.From != "" || h.Until != "" || h.At != "" || h.Completed != ""
}

// judgeLinks judges the links of the document.
func (i *Inspector) judgeLinks(links []Link) {
	up := false
	for n := range links {
		up = up || links[n].Rel == "up"
		if err := links[n].validate(ofDocument); err != nil {
			i.note(oddHeadLink, clauseCore, "ln[%d].%v (of the document)", n, err)
		}
	}
	if !up && i.needsUp() {
		i.note(oddUp, i.clause(), "the link with rel=up is missing")
	}
}

// judgeShape judges how the elements stood.
func (i *Inspector) judgeShape(s *shape) {
	for _, odd := range [...]struct {
		kind    oddity
		entry   int
		message string
	}{
		{oddMDs, s.mds, "urlset and sitemapindex have exactly one rs:md; the first counts"},
		{oddPrefix, s.prefixed, "attributes of ResourceSync must not have a prefix"},
		{oddAttrs, s.attrs, "url and sitemap do not have attributes"},
		{oddRepeated, s.repeated, "rs:md must not be repeated; the first counts"},
		{oddMDFirst, s.mdFirst, "rs:md stands before loc (table 2: behind it)"},
		{oddMisnamed, s.misnamed, "urlset has url, sitemapindex has sitemap as entries"},
	} {
		switch {
		case odd.entry == inHead:
			i.note(odd.kind, clauseCore, "%s", odd.message)
		case odd.entry > 0:
			i.note(odd.kind, clauseCore, "entry %d: %s", odd.entry, odd.message)
		}
	}
}

// judgeExtremes judges the datetimes by the first and the last: the interval may be
// told after them.
func (i *Inspector) judgeExtremes(h *Header) {
	if from := h.FromTime; !from.IsZero() && i.oldest.entry > 0 && i.oldest.Before(from) {
		i.note(oddBefore, clauseCore, "entry %d: its datetime is before from", i.oldest.entry)
	}
	if until := h.UntilTime; !until.IsZero() && i.newest.entry > 0 && i.newest.After(until) {
		i.note(oddAfter, clauseCore, "entry %d: its datetime is after until", i.newest.entry)
	}
}

// datetime judges a time that is told, of the document if entry is 0: k is the kind
// for what is none, the one after k for what is otherwise than core §7 recommends.
func (i *Inspector) datetime(k oddity, entry int, name, told string) (at time.Time) {
	if told == "" {
		return at
	}
	w, ok := scanDatetime(told)
	switch {
	case !ok:
		i.note(k, clauseCore, "%s must be a W3C Datetime, not %.60q", placed(entry, name), told)
	case !w.complete():
		i.note(k+1, clauseCore, "%s should be complete and in UTC (YYYY-MM-DDThh:mm:ss[.s]Z), not %.60q", placed(entry, name), told)
	}
	return w.time
}

func placed(entry int, name string) string {
	if entry == 0 {
		return name + " of the document"
	}
	return fmt.Sprintf("entry %d: %s", entry, name)
}

// What kind of document it is.

func (i *Inspector) isNotification() bool { return strings.HasSuffix(i.capability, notificationSuffix) }

func (i *Inspector) ofChanges() bool {
	switch i.capability {
	case CapChangeList, CapChangeDump, CapChangeDumpManifest:
		return true
	}
	return i.isNotification()
}

func (i *Inspector) ofResources() bool {
	switch i.capability {
	case CapResourceList, CapResourceDump, CapResourceDumpManifest:
		return true
	}
	return false
}

// place is where the links of entries stand.
func (i *Inspector) place() place {
	k := kindOf(i.capability)
	switch {
	case k == nil:
		return ofChange
	case i.index || k.lists == packages || k.lists == documents || k.lists == capabilities:
		return ofDocument
	case k.lists == resources:
		return ofResource
	case k.lists == changes:
		return ofChange
	case k.times == interval:
		return ofPackagedChange
	}
	return ofPackagedResource
}

// isList tells that entries are resources, not documents or packages.
func (i *Inspector) isList() bool {
	return i.ofChanges() && i.capability != CapChangeDump || i.ofResources() && i.capability != CapResourceDump
}

// tellsChanges tells that entries are changes, in order.
func (i *Inspector) tellsChanges() bool { return !i.index && i.ofChanges() && i.isList() }

// needsUp: all but a Source Description must link upward; a notification may (CN §3).
func (i *Inspector) needsUp() bool {
	return i.ofChanges() && !i.isNotification() || i.ofResources() || i.capability == CapCapabilityList
}

// clause is where the document is described.
func (i *Inspector) clause() string {
	switch {
	case i.isNotification():
		return clauseCN
	case i.index && i.capability == CapChangeList:
		return "core §12.2"
	case i.index && i.capability == CapResourceList:
		return "core §10.2"
	}
	switch i.capability {
	case CapDescription:
		return "core §8"
	case CapCapabilityList:
		return "core §9"
	case CapResourceList:
		return "core §10.1"
	case CapResourceDump:
		return "core §11.1"
	case CapResourceDumpManifest:
		return "core §11.2"
	case CapChangeList:
		return "core §12.1"
	case CapChangeDump:
		return "core §13.1"
	case CapChangeDumpManifest:
		return "core §13.2"
	}
	return clauseCore
}

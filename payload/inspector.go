package payload

import (
	"fmt"
	"strings"
	"time"
)

// Inspector judges one document of any kind while it is read: broken rules, and oddities that a Reader
// accepts. Each kind is recorded once, at its first place, and counted. Its memory for a document is
// bounded: at most 2 MB, for the resources of a Resource List.
//
// It knows the rules that one document shows by itself. Whether lastmod matches a server's answer, or
// lists follow on each other, shows only in comparison. Of documents with an unknown capability it
// judges the common rules. ValidateNotification decides whether a hub may relay a change notification.
//
// Call Head with the Header before the first entry, Entry with each entry in turn, and End with the
// Header after the last, when it is complete. It is for one goroutine.
type Inspector struct {
	subject
	judged  bool // the head's rs:md was
	head    struct{ from, until time.Time }
	entries int
	now     moment // the entry that is judged; entry 0 for the document
	// last is the datetime of the entry before, or the beginning of the part
	// before; oldest and newest are the extremes so far.
	last, oldest, newest moment
	// ended is where the part before ended; at entry 0 it did not.
	ended     moment
	format    string          // media type of the first package
	resources seen            // of a Resource List
	listed    map[string]bool // capabilities of a Capability List
	noted     [oddCount]int   // where each kind is in found, from 1 on
	found     []Violation
}

// NewInspector returns an Inspector of a document that should have the capability,
// such as CapChangeList; empty for any.
func NewInspector(capability string) *Inspector {
	return &Inspector{subject: subject{capability: capability, kind: kindOf(capability)}}
}

// Head takes what the document says of itself before its first entry.
func (i *Inspector) Head(h Header) {
	i.index, i.now.line = h.Root == RootSitemapIndex, h.Line
	if h.hasContent() {
		i.judgeHead(&h)
	}
}

// End takes the Header as it is when the document was read to its end.
func (i *Inspector) End(h Header) {
	i.index, i.now = h.Root == RootSitemapIndex, moment{line: h.Line}
	if !i.judged {
		if h.hasContent() && i.entries > 0 {
			i.note(oddLate, clauseCore, "rs:md", "the document's rs:md is behind its first entry")
		}
		i.judgeHead(&h)
	}
	i.judgeLinks(h.Links)
	i.judgeExtremes()
	i.judgeShape(&h.shape)
}

// Violations returns what was noted so far, in the order it was found.
func (i *Inspector) Violations() []Violation { return i.found }

// note records an oddity of the entry that is judged, or of the document, once, and counts it.
// at is the element or attribute below the entry or the root element.
func (i *Inspector) note(k oddity, clause, at, format string, args ...any) {
	i.noteAs(rulings[k].level, k, clause, at, format, args...)
}

// noteAs is note, with the level that the clause has for this document.
func (i *Inspector) noteAs(level Level, k oddity, clause, at, format string, args ...any) {
	if n := i.noted[k]; n > 0 {
		i.found[n-1].Times++
		return
	}
	v := Violation{
		Clause: clause, Message: fmt.Sprintf(format, args...), Level: level,
		Absent: rulings[k].absent,
		Line:   i.now.line, Element: at, Mend: rulings[k].mend, Times: 1,
	}
	if n := i.now.entry; n > 0 {
		v.Message = fmt.Sprintf("entry %d: %s", n, v.Message)
		v.Element = strings.TrimSuffix(fmt.Sprintf("%s[%d]/%s", i.entryName(), n, at), "/")
	}
	i.found = append(i.found, v)
	i.noted[k] = len(i.found)
}

func (i *Inspector) entryName() string {
	if i.index {
		return "sitemap"
	}
	return "url"
}

func (i *Inspector) judgeHead(h *Header) {
	i.judged = true
	want := i.capability
	switch {
	case !h.hasContent():
		i.note(oddCapability, clauseCore, "rs:md",
			"%s has no rs:md with a capability (in the namespace %s)", h.Root, spaceRS)
		return
	case h.Capability == "":
		i.note(oddCapability, clauseCore, "rs:md/@capability", "capability is missing")
	case want != "" && h.Capability != want:
		i.note(oddOtherCapability, clauseCore, "rs:md/@capability",
			"capability should be %s here, not %.60q", want, h.Capability)
	case kindOf(h.Capability) == nil && !strings.HasSuffix(h.Capability, notificationSuffix):
		i.note(oddUnknownCapability, clauseCore, "rs:md/@capability",
			"capability %.60q is not defined", h.Capability)
	}
	if h.Capability != "" {
		i.capability = strings.Clone(h.Capability) // it must not hold on to the whole head
	}
	if i.kind = kindOf(i.capability); i.kind == nil && i.isNotification() {
		i.kind = kindOf(ChangeNotification) // a framework notification has the same frame
	}
	if i.index && i.kind != nil && i.kind.index == "" {
		level := Error
		if i.capability == CapCapabilityList {
			level = Warning // core §9 only recommends it
		}
		i.noteAs(level, oddRoot, i.kind.clause, "",
			"the root element should be urlset: a %s has no index", i.kind.name)
	}
	i.judgeHeadTimes(h)
}

func (i *Inspector) judgeHeadTimes(h *Header) {
	i.head.from, i.head.until = h.FromTime, h.UntilTime
	for _, t := range [...]struct{ name, told string }{
		{"from", h.From}, {"until", h.Until}, {"at", h.At}, {"completed", h.Completed},
	} {
		i.datetime(oddHeadDatetime, t.name, t.told)
	}
	switch i.times() {
	case interval:
		if h.From == "" {
			i.note(oddFrom, i.clause(), "rs:md/@from",
				"from is missing: the beginning of the changes is unknown")
		}
		if h.At+h.Completed != "" {
			i.note(oddHeadTimes, clauseCore, "rs:md/@at",
				"at and completed are not used for a document of changes")
		}
		if h.Until == "" && i.isNotification() {
			i.note(oddUntil, i.clause(), "rs:md/@until", "until is missing")
		}
	case snapshot:
		if h.At == "" {
			i.note(oddAt, i.clause(), "rs:md/@at",
				"at is missing: it is unknown up to when changes are in it")
		}
		if h.From+h.Until != "" {
			i.note(oddHeadTimes, clauseCore, "rs:md/@from",
				"from and until are not used for a document of resources")
		}
	case noTimes:
		if i.kind != nil && h.From+h.Until+h.At+h.Completed != "" {
			i.note(oddHeadTimes, clauseCore, "rs:md",
				"from, until, at and completed are not used for a %s", i.kind.name)
		}
	}
	if !h.UntilTime.IsZero() && h.UntilTime.Before(h.FromTime) {
		i.note(oddBackward, clauseCore, "rs:md/@until", "until %.60q is before from %.60q", h.Until,
			h.From)
	}
	if !h.CompletedTime.IsZero() && h.CompletedTime.Before(h.AtTime) {
		i.note(oddBackward, clauseCore, "rs:md/@completed", "completed %.60q is before at %.60q",
			h.Completed, h.At)
	}
}

// hasContent reports whether the document has an rs:md with content.
func (h *Header) hasContent() bool {
	return h.Capability != "" || h.From != "" || h.Until != "" || h.At != "" || h.Completed != ""
}

// judgeShape judges how the elements stood.
func (i *Inspector) judgeShape(s *shape) {
	for k, odd := range [...]struct {
		kind             oddity
		clause, at, text string
	}{
		shapeMDs: {
			oddMDs, clauseCore, "rs:md",
			"urlset and sitemapindex have exactly one rs:md; the first counts",
		},
		shapePrefix: {
			oddPrefix, clauseCore, "",
			"attributes of ResourceSync must not have a prefix",
		},
		shapeAttrs: {oddAttrs, i.clause(), "", "url and sitemap do not have attributes"},
		shapeRepeated: {
			oddRepeated, clauseCore, "rs:md[2]",
			"rs:md must not be repeated; the first counts",
		},
		shapeMDFirst: {
			oddMDFirst, clauseCore, "rs:md",
			"rs:md is before loc (table 2: behind it)",
		},
		shapeMisnamed: {
			oddMisnamed, clauseCore, "",
			"urlset has url, sitemapindex has sitemap as entries",
		},
		shapeLocs: {
			oddLocs, clauseCore, "loc[2]",
			"loc must not be repeated; the first counts",
		},
		shapeFreq: {
			oddFreq, clauseCore, "changefreq",
			"changefreq must be always, hourly, daily, weekly, monthly, yearly or never, not ",
		},
		shapeStray: {
			oddStray, clauseCore, "",
			"ResourceSync does not define this attribute here: ",
		},
		shapeElement: {
			oddElement, clauseCore, "",
			"the standards do not define this element here: ",
		},
	} {
		spot := s[k]
		if spot.entry == 0 {
			continue
		}
		i.now = moment{entry: max(0, spot.entry), line: spot.line}
		if spot.what != "" {
			odd.text += fmt.Sprintf("%q", spot.what)
		}
		i.note(odd.kind, odd.clause, odd.at, "%s", odd.text)
		i.found[i.noted[odd.kind]-1].Times = spot.times
	}
}

// judgeExtremes judges the datetimes by the first and the last: the interval may stand after them.
func (i *Inspector) judgeExtremes() {
	if from := i.head.from; !from.IsZero() && i.oldest.entry > 0 && i.oldest.Before(from) {
		i.now = i.oldest
		i.note(oddBefore, clauseCore, "rs:md/@datetime", "its datetime is before from")
	}
	if until := i.head.until; !until.IsZero() && i.newest.entry > 0 && i.newest.After(until) {
		i.now = i.newest
		i.note(oddAfter, clauseCore, "rs:md/@datetime", "its datetime is after until")
	}
}

// datetime judges a time of the document: k is the kind for an invalid one, the one after k for a form
// other than core §7 recommends.
func (i *Inspector) datetime(k oddity, name, told string) (at time.Time) {
	if told == "" {
		return at
	}
	w, ok := scanDatetime(told)
	if ok && w.complete() {
		return w.time
	}
	element, what := "rs:md/@"+name, name
	switch {
	case i.now.entry == 0:
		what += " of the document"
	case name == "lastmod":
		element = name
	}
	if !ok {
		i.note(k, clauseCore, element, "%s must be a W3C Datetime, not %.60q", what, told)
	} else {
		i.note(k+1, clauseCore, element,
			"%s should be complete and in UTC (YYYY-MM-DDThh:mm:ss[.s]Z), not %.60q", what, told)
	}
	return w.time
}

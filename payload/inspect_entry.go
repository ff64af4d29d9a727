package payload

import "strings"

// maxListed is how many capabilities of a Capability List are remembered. There are
// six (core §7, CN §5), and four of archives.
const maxListed = 64

// Entry takes the next entry, and keeps nothing of it but the name of a capability.
func (i *Inspector) Entry(e *Entry) {
	i.entries++
	if e.LastMod != "" && !isSecond(e.LastMod) {
		i.datetime(oddLastMod, i.entries, "lastmod", e.LastMod)
	}
	i.judgeContent(e)
	i.judgeEntryLinks(e.Links)
	switch {
	case i.index:
		i.judgePart(e)
	case i.capability == CapCapabilityList || i.capability == CapDescription:
		i.judgeListed(e)
	case i.tellsChanges():
		i.judgeChange(e)
	case i.ofResources() && (e.Change != "" || !e.Datetime.IsZero() || e.DatetimeTold != ""):
		i.note(oddChange, clauseCore, "entry %d: change and datetime are not used for resources", i.entries)
	}
	if !i.index && i.isList() && (e.From != "" || e.Until != "" || e.At != "" || e.Completed != "") {
		i.note(oddTimes, clauseCore, "entry %d: from, until, at and completed are used for entries of indexes and dumps only", i.entries)
	}
}

// judgeContent judges loc and what rs:md says of a representation.
func (i *Inspector) judgeContent(e *Entry) {
	if known, _ := webURI(e.Loc); !known {
		if e.Loc == "" {
			i.note(oddLoc, clauseCore, "entry %d: loc is missing", i.entries)
		} else if reason := check(e.Loc, true, uriRule); reason != "" {
			i.note(oddLocURI, clauseCore, "entry %d: loc %s", i.entries, reason)
		}
	}
	for _, f := range [...]struct {
		kind        oddity
		name, value string
		known       func(string) bool
		rule        func(string) string
	}{
		{oddHash, "hash", e.Hash, isHash, hashRule},
		{oddLength, "length", e.Length, allDigits, lengthRule},
		{oddType, "type", e.Type, isMediaType, mediaTypeRule},
		{oddEncoding, "encoding", e.Encoding, isPlainToken, encodingRule},
	} {
		if f.value == "" || f.known(f.value) {
			continue
		}
		if reason := check(f.value, false, f.rule); reason != "" {
			i.note(f.kind, clauseCore, "entry %d: %s %s", i.entries, f.name, reason)
		}
	}
}

// judgeEntryLinks judges links until one is odd.
func (i *Inspector) judgeEntryLinks(links []Link) {
	for n := range links {
		if i.noted>>oddLink&1 == 1 {
			return
		}
		if err := links[n].validate(i.place()); err != nil {
			i.note(oddLink, clauseCore, "entry %d: ln[%d].%v", i.entries, n, err)
		}
	}
}

// judgeChange judges an entry of a document of changes.
func (i *Inspector) judgeChange(e *Entry) {
	switch {
	case e.Change == "":
		i.note(oddChange, i.clause(), "entry %d: change is missing", i.entries)
	case changeRule(string(e.Change)) != "":
		i.note(oddChange, i.clause(), "entry %d: change must be created, updated or deleted, not %.60q", i.entries, string(e.Change))
	}
	i.datetime(oddDatetime, i.entries, "datetime", e.DatetimeTold)
	if e.Datetime.IsZero() {
		if e.DatetimeTold == "" {
			i.note(oddNoDatetime, i.clause(), "entry %d: it should have a datetime, so that it is known which changes are new", i.entries)
		}
		return
	}
	now := moment{e.Datetime, i.entries}
	if i.last.entry > 0 && now.Before(i.last.Time) {
		i.note(oddOrder, i.clause(), "entry %d: its datetime is before that of entry %d; the oldest change comes first",
			now.entry, i.last.entry)
	}
	i.last = now
	if i.oldest.entry == 0 || now.Before(i.oldest.Time) {
		i.oldest = now
	}
	if i.newest.entry == 0 || now.After(i.newest.Time) {
		i.newest = now
	}
}

// judgePart judges an entry of an index.
func (i *Inspector) judgePart(e *Entry) {
	n := i.entries
	from := i.datetime(oddPartDatetime, n, "from", e.From)
	until := i.datetime(oddPartDatetime, n, "until", e.Until)
	at := i.datetime(oddPartDatetime, n, "at", e.At)
	completed := i.datetime(oddPartDatetime, n, "completed", e.Completed)
	if !until.IsZero() && until.Before(from) || !completed.IsZero() && completed.Before(at) {
		i.note(oddPartUntil, clauseCore, "entry %d: it ends before it begins", n)
	}
	switch {
	case i.ofChanges():
		if e.At != "" || e.Completed != "" {
			i.note(oddTimes, clauseCore, "entry %d: at and completed are not used for documents of changes", n)
		}
		i.judgeChain(e, moment{from, n}, moment{until, n})
	case i.ofResources() && (e.From != "" || e.Until != ""):
		i.note(oddTimes, clauseCore, "entry %d: from and until are not used for documents of resources", n)
	}
}

// judgeChain judges how a part of an index of changes follows on the one before
// (core §12.2): it begins where that ended, and only the last is open.
func (i *Inspector) judgeChain(e *Entry, from, until moment) {
	before, ended := i.last, i.ended
	i.last, i.ended = from, moment{}
	if !until.IsZero() {
		i.ended = until
	}
	switch n := i.entries; {
	case from.IsZero():
		if e.From == "" {
			i.note(oddPartFrom, i.clause(), "entry %d: it should have from and, unless it is open, until", n)
		}
	case before.entry == 0 || before.IsZero():
	case from.Before(before.Time):
		i.note(oddOrder, i.clause(), "entry %d: it begins before entry %d; the oldest comes first", n, before.entry)
	case ended.entry == 0:
		i.note(oddPartOpen, i.clause(), "entry %d has no until, and is not the last", before.entry)
	case from.Before(ended.Time):
		i.note(oddOverlap, i.clause(), "entry %d begins before entry %d ends: changes may be in both", n, ended.entry)
	case from.After(ended.Time):
		i.note(oddGap, i.clause(), "entry %d begins after entry %d ends: changes between them are in neither", n, ended.entry)
	}
}

// judgeListed judges an entry of a Capability List or a Source Description.
func (i *Inspector) judgeListed(e *Entry) {
	n := i.entries
	switch {
	case e.Capability == "":
		i.note(oddListed, i.clause(), "entry %d: capability is missing", n)
		return
	case i.capability == CapDescription:
		if e.Capability != CapCapabilityList {
			i.note(oddListed, i.clause(), "entry %d: capability must be %s, not %.60q", n, CapCapabilityList, e.Capability)
		}
		return
	case i.listed[e.Capability]:
		i.note(oddTwice, i.clause(), "entry %d: %.60q is listed again; there is one entry for each capability", n, e.Capability)
	case len(i.listed) < maxListed && len(e.Capability) < 100:
		if i.listed == nil {
			i.listed = map[string]bool{}
		}
		i.listed[strings.Clone(e.Capability)] = true
	}
	if e.Capability == ChangeNotification && !hasHub(e.Links) {
		i.note(oddHub, "CN §5", "entry %d: a channel must have a link with rel=hub", n)
	}
}

func hasHub(links []Link) bool {
	for n := range links {
		if links[n].Rel == "hub" {
			return true
		}
	}
	return false
}

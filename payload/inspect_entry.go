package payload

import (
	"strings"
)

// Entry takes the next entry, and keeps nothing of it but the name of a capability, the media
// type of a package, and of each resource of a Resource List eight bytes.
func (i *Inspector) Entry(e *Entry) {
	i.entries++
	i.now = moment{entry: i.entries, line: e.Line}
	if e.LastMod != "" && !isSecond(e.LastMod) {
		i.datetime(oddLastMod, "lastmod", e.LastMod)
	}
	i.judgeContent(e)
	i.judgeEntryLinks(e.Links)
	i.judgePath(e)
	if i.kind == nil {
		return
	}
	lists := i.lists()
	switch {
	case lists == 0:
		i.judgePart(e)
	case lists == capabilities:
		i.judgeListed(e)
	case lists == packages:
		i.judgePart(e)
		i.judgePackage(e)
	case lists == documents:
		i.judgeDocument(e)
	case i.times() == interval:
		i.judgeChange(e)
	case lists == resources && e.Loc != "" && i.entries <= MaxEntries && i.resources.again(e.Loc):
		i.note(oddResourceTwice, i.clause(), "loc",
			"%.60q is listed again; there should be one entry for each resource", e.Loc)
	}
	i.judgeElsewhere(e, lists)
}

// judgeElsewhere judges attributes that belong to entries of other documents.
func (i *Inspector) judgeElsewhere(e *Entry, lists listed) {
	tellsChanges := i.place().tellsChanges()
	if !tellsChanges && (e.Change != "" || !e.Datetime.IsZero() || e.DatetimeTold != "") {
		i.note(oddChangeElsewhere, clauseCore, "rs:md/@change",
			"change and datetime are not used for entries of a %s", i.kind.name)
	}
	if e.From+e.Until+e.At+e.Completed != "" &&
		(lists == resources || lists == changes || lists == bitstreams || lists == capabilities) {
		i.note(oddTimes, clauseCore, "rs:md",
			"from, until, at and completed are used for entries of indexes, dumps and archives only")
	}
	if e.Capability != "" && lists != capabilities {
		i.note(oddCapabilityElsewhere, clauseCore, "rs:md/@capability",
			"capability is used for entries of Capability Lists and Source Descriptions only")
	}
}

// judgeContent judges loc and what rs:md says of a representation.
func (i *Inspector) judgeContent(e *Entry) {
	if known, _ := webURI(e.Loc); !known {
		if e.Loc == "" {
			i.note(oddLoc, clauseCore, "loc", "loc is missing")
		} else if reason := check(e.Loc, true, uriRule); reason != "" {
			i.note(oddLocURI, clauseCore, "loc", "loc %s", reason)
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
			if reason == unknownAlgorithm {
				f.kind = oddHashAlgorithm
			}
			i.note(f.kind, clauseCore, "rs:md/@"+f.name, "%s %s", f.name, reason)
		}
	}
}

// judgePath judges where an entry says that its bitstream is (core §11.2, §13.2).
func (i *Inspector) judgePath(e *Entry) {
	const at = "rs:md/@path"
	packaged := i.place().packaged()
	switch {
	case i.kind != nil && !packaged:
		if e.Path != "" {
			i.note(oddPathElsewhere, clauseCore, at, "path is used in dump manifests only")
		}
		return
	case e.Path == "":
		if packaged && e.Change != Deleted {
			i.note(oddNoPath, i.clause(), at,
				"path is missing: it is unknown where the package has the bitstream")
		}
	case e.Change == Deleted:
		i.note(oddDeletedPath, i.clause(), at,
			"path of a deleted resource: the package holds nothing of it")
	}
	if packaged && e.Type == "" && e.Change != Deleted {
		i.note(oddNoType, i.clause(), "rs:md/@type", "the recommended type is missing")
	}
	reason := ""
	if e.Path != "" {
		reason = check(e.Path, true, bitstreamRule)
	}
	switch {
	case reason == "":
	case !strings.HasPrefix(e.Path, "/"), strings.HasSuffix(e.Path, "/"),
		strings.Contains(e.Path+"/", "/../"), strings.EqualFold(e.Path, manifestPath):
		i.note(oddPath, i.clause(), at, "path %s", reason)
	default:
		i.note(oddPathForm, i.clause(), at, "path %s", reason)
	}
}

// judgeChange judges an entry of a document of changes.
func (i *Inspector) judgeChange(e *Entry) {
	switch {
	case e.Change == "":
		i.note(oddChange, i.clause(), "rs:md/@change", "change is missing")
	case changeRule(string(e.Change)) != "":
		i.note(oddChange, i.clause(), "rs:md/@change",
			"change must be created, updated or deleted, not %.60q", string(e.Change))
	}
	i.datetime(oddDatetime, "datetime", e.DatetimeTold)
	if e.Datetime.IsZero() {
		if e.DatetimeTold == "" {
			i.note(oddNoDatetime, i.clause(), "rs:md/@datetime",
				"it should have a datetime, so that it is known which changes are new")
		}
		return
	}
	now := i.now
	now.Time = e.Datetime
	if i.last.entry > 0 && now.Before(i.last.Time) {
		i.note(oddOrder, i.clause(), "rs:md/@datetime",
			"its datetime is before that of entry %d; the oldest change comes first", i.last.entry)
	}
	i.last = now
	if i.oldest.entry == 0 || now.Before(i.oldest.Time) {
		i.oldest = now
	}
	if i.newest.entry == 0 || now.After(i.newest.Time) {
		i.newest = now
	}
}

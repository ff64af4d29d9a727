package payload_test

import (
	"strings"
	"time"

	"pgregory.net/rapid"

	"carillon/payload"
)

// drawHead draws the head of any document that AppendHead writes.
func drawHead(t *rapid.T) payload.Head {
	h := payload.Head{
		Index: rapid.Bool().Draw(t, "index"), Links: []payload.Link{{Rel: "up", Href: genLoc.Draw(t, "up")}},
		Capability: rapid.SampledFrom([]string{
			payload.CapResourceList, payload.CapResourceDump, payload.CapResourceDumpManifest,
			payload.CapChangeList, payload.CapChangeDump, payload.CapChangeDumpManifest,
			payload.CapResourceListArchive, payload.CapResourceDumpArchive, payload.CapChangeListArchive, payload.CapChangeDumpArchive,
		}).Draw(t, "capability"),
	}
	isArchive, isManifest := strings.HasSuffix(h.Capability, "-archive"), strings.HasSuffix(h.Capability, "-manifest")
	h.Index = h.Index && !isManifest
	if !h.Index && !isManifest && rapid.Bool().Draw(t, "has an index") {
		h.Links = append(h.Links, payload.Link{Rel: "index", Href: genLoc.Draw(t, "index URI")})
	}
	if !isArchive && rapid.Bool().Draw(t, "has an archive") {
		h.Links = append(h.Links, payload.Link{Rel: "archives", Href: genLoc.Draw(t, "archive")})
	}
	switch {
	case isArchive:
	case isOfChanges(h):
		h.From, h.Until = drawSpan(t, drawTime(t))
	default:
		h.At, h.Completed = drawSpan(t, drawTime(t))
	}
	return h
}

func isOfChanges(h payload.Head) bool { return strings.HasPrefix(h.Capability, "change") }

// drawSpan draws a time, not before the earliest, and perhaps a later one or the same.
func drawSpan(t *rapid.T, earliest time.Time) (from, until time.Time) {
	from = earliest.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "begin"))).
		In(time.FixedZone("", rapid.IntRange(-50_000, 50_000).Draw(t, "zone")))
	if rapid.Bool().Draw(t, "has an end") {
		until = from.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "span")))
	}
	return from, until
}

// genRelated draws links of core §14 as the clauses recommend them.
var genRelated = rapid.Custom(func(t *rapid.T) payload.Link {
	l := payload.Link{
		Rel: rapid.SampledFrom(
			[]string{"duplicate", "alternate", "canonical", "describedby", "describes", "profile", "memento", "timegate", "timemap", "collection"},
		).Draw(t, "rel"),
		Href: genHref.Draw(t, "href"),
	}
	switch l.Rel {
	case "timegate":
	case "duplicate":
		l.Pri, l.Modified = genPri.Draw(t, "pri"), utc(genDatetime.Draw(t, "modified"))
	case "memento":
		l.Modified, l.Hash = "2026-03-01T08:00:00Z", genHash.Draw(t, "hash")
	default:
		l.Type, l.Length = "text/html", genLength.Draw(t, "length")
	}
	return l
})

// drawEntries draws resources, changes or bitstreams, and writes them.
func drawEntries(t *rapid.T, h payload.Head, doc []byte) ([]byte, []payload.Entry) {
	var entries []payload.Entry
	if isOfChanges(h) && h.From.Equal(h.Until) { // an empty list
		return doc, nil
	}
	at, seen := h.From.Truncate(time.Microsecond).UTC(), map[string]bool{}
	for range rapid.IntRange(0, 5).Draw(t, "entries") {
		e, write := genEntry.Draw(t, "entry"), payload.AppendEntry
		if seen[e.Loc] && h.Capability == payload.CapResourceList {
			continue // it has each resource once
		}
		seen[e.Loc] = true
		e.LastMod = utc(e.LastMod)
		e.Links = append(e.Links, rapid.SliceOfN(genRelated, 0, 3).Draw(t, "related")...)
		for i := range e.Links {
			e.Links[i].Modified = utc(e.Links[i].Modified)
		}
		e.Datetime = at
		patch := payload.Link{Rel: payload.RelPatch, Href: genHref.Draw(t, "patch"), Type: "a/b"}
		switch {
		case strings.HasSuffix(h.Capability, "-manifest"):
			write, patch.Path, e.Type = payload.AppendBitstream, genPath.Draw(t, "path of the patch"), "a/b"
			if e.Change != payload.Deleted || !isOfChanges(h) {
				e.Path = genPath.Draw(t, "path")
			}
		case !isOfChanges(h):
			write = payload.AppendResource
		}
		if isOfChanges(h) {
			e.Links = append(e.Links, patch)
		} else {
			e.Change = ""
		}
		var err error
		if doc, err = write(doc, &e); err != nil {
			t.Fatal(err)
		}
		if e.Change == "" {
			e.Datetime = time.Time{}
		}
		entries = append(entries, e)
	}
	return doc, entries
}

// drawParts draws parts, packages or archived documents, and writes them.
func drawParts(t *rapid.T, h payload.Head, doc []byte) ([]byte, []payload.Entry) {
	var entries []payload.Entry
	write, isArchive := payload.AppendListed, strings.HasSuffix(h.Capability, "-archive")
	if h.Index {
		write = payload.AppendPart
	}
	from, rest, n := h.From, h.Until.Sub(h.From), rapid.IntRange(0, 4).Draw(t, "parts")
	if isArchive {
		from = drawTime(t)
	}
	for i := range n {
		p := payload.Part{Loc: genLoc.Draw(t, "loc"), LastMod: utc(genDatetime.Draw(t, "lastmod"))}
		switch {
		case h.Index && isArchive:
			p.LastMod = ""
		case isOfChanges(h):
			if p.From = from; i < n-1 || !h.Until.IsZero() {
				span := int64(1e12)
				if !h.Until.IsZero() {
					span = int64(rest)
				}
				p.Until = from.Add(time.Duration(rapid.Int64Range(0, span).Draw(t, "span")))
				rest -= p.Until.Sub(from)
				from = p.Until
			}
		case isArchive:
			p.At, p.Completed = drawSpan(t, from)
		case rapid.Bool().Draw(t, "has at"):
			if p.At, p.Completed = h.At, h.Completed; h.Completed.IsZero() {
				p.At, p.Completed = drawSpan(t, h.At)
			}
		}
		if !h.Index && !isArchive {
			p.Type, p.Length, p.Hash = "application/zip", "4765", genHash.Draw(t, "hash")
			p.Links = []payload.Link{{Rel: payload.RelContents, Href: genHref.Draw(t, "contents"), Type: "application/xml"}}
		}
		var err error
		if doc, err = write(doc, &p); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, payload.Entry{
			Loc: p.Loc, LastMod: p.LastMod, From: asRead(p.From), Until: asRead(p.Until), At: asRead(p.At), Completed: asRead(p.Completed),
			Type: p.Type, Length: p.Length, Hash: p.Hash, Links: p.Links,
		})
	}
	return doc, entries
}

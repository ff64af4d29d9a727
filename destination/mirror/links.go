package mirror

import (
	"encoding/json"
	"fmt"
	"strings"

	"carillon/payload"
)

// Relations of links that a mirror keeps.
const (
	relVia         = "via"
	relDescribedBy = "describedby"
	relDescribes   = "describes"
	relProfile     = "profile"
)

// maxLinks is how many links of a resource a mirror keeps.
const maxLinks = 8

// KeptLinks returns those links of an entry that stay true of a byte-for-byte copy at another address,
// in memory of their own. The decision for each relation (core 14):
//
//	via                   kept, the first one, with its description of the origin (14.8)
//	describedby,describes kept: they are about the content, which is the same (14.5)
//	profile               kept: it names the kind of metadata (14.5)
//	duplicate             dropped: the version at the other location is unknown (14.2)
//	alternate, canonical  dropped: they are about addresses of the origin (14.3, 14.8)
//	patch                 dropped: the previous version of a copy may be another one (14.4)
//	memento, timegate,    dropped: they are versions of the origin's address (14.6)
//	timemap
//	collection            dropped: the copy is no member (14.7, 14.8)
//	all others            dropped: their meaning is unknown
//
// A kept link other than via loses hash, length, modified, pri and path. They describe another
// resource, which may change without a change of this one.
func KeptLinks(all []payload.Link) (kept []payload.Link) {
	for i := range all {
		l, ok := keptLink(&all[i])
		if ok && len(kept) < maxLinks && (l.Rel != relVia || via(kept) == nil) {
			kept = append(kept, l)
		}
	}
	return kept
}

// linksOf returns the kept links of an entry as text for Described.Links. Where that would be too
// long, it has the address of the origin alone.
func linksOf(all []payload.Link) string {
	kept := KeptLinks(all)
	if len(kept) == 0 {
		return ""
	}
	text, _ := json.Marshal(kept) // strings always marshal
	if len(text) <= maxDescribed {
		return string(text)
	}
	origin := via(kept)
	if origin == nil {
		return ""
	}
	text, _ = json.Marshal([]payload.Link{{Rel: relVia, Href: origin.Href}})
	if len(text) > maxDescribed {
		return ""
	}
	return string(text)
}

// readLinks reads the text of linksOf. An unreadable text counts as absent.
func readLinks(text string) (kept []payload.Link) {
	if text == "" || json.Unmarshal([]byte(text), &kept) != nil {
		return nil
	}
	return kept
}

// keptLink returns what is kept of a link, if anything is.
func keptLink(l *payload.Link) (payload.Link, bool) {
	kept := payload.Link{Rel: strings.ToLower(l.Rel), Href: strings.Clone(l.Href), Type: strings.Clone(l.Type)}
	switch kept.Rel = strings.Clone(kept.Rel); kept.Rel {
	case relVia:
		kept.Modified, kept.Hash = strings.Clone(l.Modified), strings.Clone(l.Hash)
		kept.Length, kept.Encoding = strings.Clone(l.Length), strings.Clone(l.Encoding)
	case relDescribedBy, relDescribes, relProfile:
	default:
		return kept, false
	}
	if !validLink(kept) {
		kept = payload.Link{Rel: kept.Rel, Href: kept.Href}
	}
	return kept, validLink(kept)
}

// validLink reports whether a document may have the link.
func validLink(l payload.Link) bool {
	e := payload.Entry{Loc: "http://localhost/", Change: payload.Updated, Links: []payload.Link{l}}
	return e.Validate() == nil
}

func via(links []payload.Link) *payload.Link {
	for i := range links {
		if links[i].Rel == relVia {
			return &links[i]
		}
	}
	return nil
}

// asURI encodes what a loc may have to a tolerant reader and a URI may not (RFC 3986 §2).
func asURI(loc string) string {
	var b strings.Builder
	for _, c := range []byte(loc) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Via returns the link to the origin of a copy (core 14.8): the Source's own via link, else one to the
// Source's resource, with its description. Its Href is empty where the loc cannot be written as a URI.
// Other are the other links that stay true of the copy.
func (c *Copy) Via() (link payload.Link, other []payload.Link) {
	for _, l := range readLinks(c.Described.Links) {
		if l.Rel == relVia {
			link = l
		} else {
			other = append(other, l)
		}
	}
	if link.Href != "" {
		return link, other
	}
	link = payload.Link{
		Rel: relVia, Href: c.Loc, Modified: c.Described.LastMod, Hash: c.Described.Hash, Length: c.Described.Length,
		Type: c.Described.Type, Encoding: c.Described.Encoding,
	}
	if !validLink(link) {
		link = payload.Link{Rel: relVia, Href: c.Loc}
	}
	if !validLink(link) {
		link.Href = asURI(c.Loc)
	}
	if !validLink(link) {
		link = payload.Link{}
	}
	return link, other
}

package payload

// shape is how the elements of a document stand where that differs from core §7: for each
// oddity the first spot that has it, and how many entries have it.
type shape [shapes]spot

// spot is where an oddity is: in an entry, from 1 on, or in the head.
type spot struct {
	entry int // 0 if the document lacks the oddity, inHead for the head
	line  int // where the entry begins, or the root element
	what  string
	times int
}

const inHead = -1

// The oddities of a shape.
const (
	shapeMDs      = iota // several rs:md in the head
	shapePrefix          // attributes of ours with a prefix
	shapeAttrs           // attributes of an entry
	shapeRepeated        // several rs:md in an entry
	shapeMDFirst         // rs:md before loc
	shapeMisnamed        // sitemap in urlset, or url in sitemapindex
	shapeLocs            // several loc in an entry
	shapeFreq            // changefreq with another value than those defined
	shapeStray           // an attribute of rs:md or rs:ln that is not defined there
	shapeElement         // an element that is not defined
	shapes
)

func (s *shape) first(k, entry, line int, what string) {
	if s[k].entry == 0 {
		s[k] = spot{entry: entry, line: line, what: what}
	}
	s[k].times++
}

// odd reports whether an entry has an oddity of a shape.
func (w *raw) odd() bool {
	return w.prefixed || w.attrs || w.mdFirst || w.mds > 1 || w.locs > 1 || w.badFreq != "" ||
		w.stray != "" || w.unknown != ""
}

// entry remembers what is odd in entry n, or in the head.
func (s *shape) entry(n int, w *raw) {
	for k, odd := range [...]bool{
		shapePrefix:   w.prefixed,
		shapeAttrs:    w.attrs,
		shapeRepeated: w.mds > 1 && n != inHead,
		shapeMDs:      w.mds > 1 && n == inHead,
		shapeMDFirst:  w.mdFirst && w.loc.from < w.loc.to,
		shapeLocs:     w.locs > 1,
		shapeFreq:     w.badFreq != "",
		shapeStray:    w.stray != "",
		shapeElement:  w.unknown != "",
	} {
		if odd {
			what := ""
			switch k {
			case shapeFreq:
				what = w.badFreq
			case shapeStray:
				what = w.stray
			case shapeElement:
				what = w.unknown
			}
			s.first(k, n, w.line, what)
		}
	}
}

// The attributes that core §7 defines for each element (table 3), as bits of a field.
const (
	headAttrs  = 1<<fCapability | 1<<fFrom | 1<<fUntil | 1<<fAt | 1<<fCompleted
	entryAttrs = headAttrs | 1<<fChange | 1<<fDatetime | 1<<fHash | 1<<fLength | 1<<fType | 1<<fEncoding | 1<<fPath
	linkAttrs  = 1<<fRel | 1<<fHref | 1<<fHash | 1<<fLength | 1<<fType | 1<<fEncoding | 1<<fModified | 1<<fPath | 1<<fPri
)

// maxNamed is how much of a name or value of a document is remembered as an oddity.
const maxNamed = 40

// named returns the beginning of b.
func named(b []byte) string { return string(b[:min(len(b), maxNamed)]) }

// undefinedFreq returns the value of a changefreq that core §7 does not define.
func undefinedFreq(value []byte) string {
	switch string(value) {
	case "always", "hourly", "daily", "weekly", "monthly", "yearly", "never":
		return ""
	case "":
		return "nothing"
	}
	return named(value)
}

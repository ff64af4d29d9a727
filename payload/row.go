package payload

// row is one entry of a document in the form in which it is written. Every writer of the
// package fills one in. What is empty is left out.
type row struct {
	name         string // url, or sitemap in an index
	loc, lastMod string
	md           values
	links        []Link
}

// values are the attributes of one rs:md or rs:ln.
type values [fieldCount]string

// opens begin the attributes, in the order in which they are written.
var opens = [fieldCount]string{
	fCapability: ` capability="`,
	fChange:     ` change="`,
	fDatetime:   ` datetime="`,
	fFrom:       ` from="`,
	fUntil:      ` until="`,
	fAt:         ` at="`,
	fCompleted:  ` completed="`,
	fRel:        ` rel="`,
	fHref:       ` href="`,
	fHash:       ` hash="`,
	fLength:     ` length="`,
	fType:       ` type="`,
	fEncoding:   ` encoding="`,
	fModified:   ` modified="`,
	fPath:       ` path="`,
	fPri:        ` pri="`,
}

// String returns the attribute's name.
func (f field) String() string { return opens[f][1 : len(opens[f])-len(`="`)] }

const (
	openMD   = "<rs:md"
	openLink = "<rs:ln"
	closeTag = "/>\n"
)

// row returns the entry as a change or as a resource. datetime is as it is written.
func (e *Entry) row(datetime string) row {
	return row{
		name: "url", loc: e.Loc, lastMod: e.LastMod, links: e.Links,
		md: values{
			fChange: string(e.Change), fDatetime: datetime, fHash: e.Hash, fLength: e.Length,
			fType: e.Type, fEncoding: e.Encoding, fPath: e.Path,
		},
	}
}

func (l *Link) values() values {
	return values{
		fRel: l.Rel, fHref: l.Href, fHash: l.Hash, fLength: l.Length, fType: l.Type,
		fEncoding: l.Encoding, fModified: l.Modified, fPath: l.Path, fPri: l.Pri,
	}
}

// escapes says which values may have characters that need an escape.
type escapes int

const (
	noEscapes  escapes = iota
	uriEscapes         // loc and href
	allEscapes
)

// append appends the element.
func (e *row) append(dst []byte, escapes escapes) []byte {
	dst = append(append(append(dst, '<'), e.name...), ">\n"...)
	dst = appendText(dst, "loc", e.loc, escapes >= uriEscapes)
	dst = appendText(dst, "lastmod", e.lastMod, escapes == allEscapes)
	before := len(dst)
	dst = e.md.append(dst, openMD, escapes)
	if len(dst) == before+len(openMD)+len(closeTag) {
		dst = dst[:before]
	}
	dst = appendLinks(dst, e.links, escapes)
	return append(append(append(dst, "</"...), e.name...), ">\n"...)
}

func appendLinks(dst []byte, links []Link, escapes escapes) []byte {
	for i := range links {
		v := links[i].values()
		dst = v.append(dst, openLink, escapes)
	}
	return dst
}

func appendText(dst []byte, name, text string, escape bool) []byte {
	if text == "" {
		return dst
	}
	dst = append(append(append(dst, '<'), name...), '>')
	dst = appendValue(dst, text, escape)
	return append(append(append(dst, "</"...), name...), ">\n"...)
}

func (v *values) append(dst []byte, open string, escapes escapes) []byte {
	dst = append(dst, open...)
	for f := range v {
		if v[f] != "" {
			escape := escapes == allEscapes || escapes == uriEscapes && field(f) == fHref
			dst = appendValue(append(dst, opens[f]...), v[f], escape)
			dst = append(dst, '"')
		}
	}
	return append(dst, closeTag...)
}

func appendValue(dst []byte, value string, escape bool) []byte {
	if escape {
		return appendEscaped(dst, value)
	}
	return append(dst, value...)
}

// fits reports whether the size of what append writes is within MaxEntryBytes.
func (e *row) fits() bool {
	return e.bound() <= MaxEntryBytes || len(e.append(nil, allEscapes)) <= MaxEntryBytes
}

// bound is an upper bound of the size, cheap to compute.
func (e *row) bound() int {
	n := len(e.loc) + len(e.lastMod) + e.md.size()
	for i := range e.links {
		v := e.links[i].values()
		n += v.size()
	}
	return bound(n, len(e.links))
}

// bound is that of values with so many bytes.
func bound(values, links int) int {
	const maxEscape, maxMarkup = len("&quot;"), 256 // of a character, and of a tag
	return maxEscape*values + maxMarkup*(2+links)
}

// largest returns the size of the largest tag, or of the texts before the first.
func (e *row) largest() int {
	texts := row{name: e.name, loc: e.loc, lastMod: e.lastMod}
	largest := max(len(texts.append(nil, allEscapes)), len(e.md.append(nil, openMD, allEscapes)))
	for i := range e.links {
		largest = max(largest, len(appendLinks(nil, e.links[i:i+1], allEscapes)))
	}
	return largest
}

func (v *values) size() (n int) {
	for f := range v {
		n += len(v[f])
	}
	return n
}

// EntrySize returns how many bytes AppendEntry appends for e, which must be valid. It takes a
// fraction of the time.
func EntrySize(e *Entry) int {
	const markup = len("<url>\n<loc></loc>\n<rs:md change=\"\" datetime=\"\"/>\n</url>\n")
	n := markup + escapedSize(e.Loc) + len(e.Change) + len(datetimeShape)
	if e.LastMod != "" {
		n += len("<lastmod></lastmod>\n") + len(e.LastMod)
	}
	n += contentSize(e.Hash, e.Length, e.Type, e.Encoding)
	for i := range e.Links {
		l := &e.Links[i]
		n += len(openLink) + len(closeTag) + contentSize(l.Hash, l.Length, l.Type, l.Encoding) +
			attributeSize(fRel, escapedSize(l.Rel)) + attributeSize(fHref, escapedSize(l.Href)) +
			attributeSize(fModified, len(l.Modified)) + attributeSize(fPri, len(l.Pri))
	}
	return n
}

// contentSize is of the attributes that rs:md and rs:ln share. A valid hash and a length have no
// character that needs an escape.
func contentSize(hash, length, media, encoding string) int {
	return attributeSize(fHash, len(hash)) + attributeSize(fLength, len(length)) +
		attributeSize(fType, escapedSize(media)) + attributeSize(fEncoding, escapedSize(encoding))
}

func attributeSize(f field, value int) int {
	if value == 0 {
		return 0
	}
	return len(opens[f]) + value + len(`"`)
}

// escaped has a bit for each character that escapeOf knows: all are below 64.
const escaped uint64 = 1<<'&' | 1<<'<' | 1<<'>' | 1<<'"' | 1<<'\t' | 1<<'\n' | 1<<'\r'

// nextEscape returns the first place from i on with a character that escapeOf knows, or the
// length of s.
func nextEscape(s string, i int) int {
	for i+8 <= len(s) {
		n := untilEscape(load8(s, i))
		if i += n; n < 8 {
			break
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 64 && escaped>>c&1 == 1 {
			break
		}
	}
	return i
}

// appendEscaped appends s so that it reads back the same from text and from an
// attribute: white space other than a space would be changed in an attribute
// (XML 1.0 §3.3.3), and a carriage return everywhere (§2.11).
func appendEscaped(dst []byte, s string) []byte {
	if isUnescaped(s) {
		return append(dst, s...)
	}
	from := 0
	for i := nextEscape(s, 0); i < len(s); i = nextEscape(s, from) {
		dst = append(append(dst, s[from:i]...), escapeOf(s[i])...)
		from = i + 1
	}
	return append(dst, s[from:]...)
}

// escapedSize returns how many bytes appendEscaped appends.
func escapedSize(s string) int {
	n := len(s)
	if isUnescaped(s) {
		return n
	}
	for i := nextEscape(s, 0); i < len(s); i = nextEscape(s, i+1) {
		n += len(escapeOf(s[i])) - 1
	}
	return n
}

func escapeOf(c byte) string {
	switch c {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	case '"':
		return "&quot;"
	case '\t':
		return "&#9;"
	case '\n':
		return "&#10;"
	}
	return "&#13;"
}

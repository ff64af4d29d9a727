package payload

// opens begin the attributes.
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

const (
	openMD   = "<rs:md"
	openLink = "<rs:ln"
	closeTag = "/>\n"
)

// pen appends elements to a document. It omits empty values.
type pen struct {
	checks bool // the rules apply to the values
	broken bool // a value broke its rule
}

// element appends e as the element name, url or sitemap. Every writer of the package calls it.
func (w *pen) element(dst []byte, name string, e *Entry, p place) []byte {
	dst = append(append(append(dst, '<'), name...), ">\n"...)
	if e.Loc != "" {
		dst = append(w.uri(append(dst, "<loc>"...), e.Loc, webURIRule), "</loc>\n"...)
	}
	if e.LastMod != "" {
		dst = append(dst, "<lastmod>"...)
		dst = w.value(dst, e.LastMod, isSecond(e.LastMod), datetimeRule)
		dst = append(dst, "</lastmod>\n"...)
	}
	dst = w.md(dst, e, p)
	dst = w.links(dst, e.Links, p)
	return append(append(append(dst, "</"...), name...), ">\n"...)
}

// md appends the rs:md of an entry or of a head. It writes Datetime for a change, and the
// attributes that are for reading only for a document.
func (w *pen) md(dst []byte, e *Entry, p place) []byte {
	before := len(dst)
	dst = append(dst, openMD...)
	if p == ofDocument {
		dst = appendAttr(dst, fCapability, e.Capability)
	}
	if e.Change != "" {
		dst = w.attr(dst, fChange, string(e.Change), w.checks, changeRule)
	}
	switch {
	case p == ofDocument:
		dst = appendAttr(dst, fDatetime, e.DatetimeTold)
		dst = appendAttr(dst, fFrom, e.From)
		dst = appendAttr(dst, fUntil, e.Until)
		dst = appendAttr(dst, fAt, e.At)
		dst = appendAttr(dst, fCompleted, e.Completed)
	case p.tellsChanges() && !e.Datetime.IsZero():
		dst = append(appendDatetime(append(dst, opens[fDatetime]...), e.Datetime), '"')
	}
	dst = w.content(dst, e.Hash, e.Length, e.Type, e.Encoding)
	dst = appendAttr(dst, fPath, e.Path)
	if len(dst) == before+len(openMD) {
		return dst[:before]
	}
	return append(dst, closeTag...)
}

func (w *pen) links(dst []byte, links []Link, p place) []byte {
	for i := range links {
		l := &links[i]
		if l.Rel == "" || l.Href == "" || l.Path != "" ||
			l.Rel == RelPatch && (l.Type == "" || p != ofChange) {
			w.broken = true // or right only where bitstreams are
		}
		dst = append(dst, openLink...)
		if l.Rel != "" {
			dst = w.attr(dst, fRel, l.Rel, isRelToken(l.Rel), relRule)
		}
		if l.Href != "" {
			dst = append(w.uri(append(dst, opens[fHref]...), l.Href, uriRule), '"')
		}
		dst = w.content(dst, l.Hash, l.Length, l.Type, l.Encoding)
		if l.Modified != "" {
			dst = w.attr(dst, fModified, l.Modified, isSecond(l.Modified), datetimeRule)
		}
		dst = appendAttr(dst, fPath, l.Path)
		if l.Pri != "" {
			dst = w.attr(dst, fPri, l.Pri, priRule(l.Pri) == "", priRule)
		}
		dst = append(dst, closeTag...)
	}
	return dst
}

// content appends the attributes that rs:md and rs:ln share.
func (w *pen) content(dst []byte, hash, length, media, encoding string) []byte {
	if hash != "" {
		dst = w.attr(dst, fHash, hash, isHash(hash), hashRule)
	}
	if length != "" {
		dst = w.attr(dst, fLength, length, lengthRule(length) == "", lengthRule)
	}
	if media != "" {
		dst = w.attr(dst, fType, media, isMediaType(media), mediaTypeRule)
	}
	if encoding != "" {
		dst = w.attr(dst, fEncoding, encoding, isPlainToken(encoding), encodingRule)
	}
	return dst
}

// attr appends an attribute; known and rule are as with value.
func (w *pen) attr(
	dst []byte, f field, value string, known bool, rule func(string) string,
) []byte {
	return append(w.value(append(dst, opens[f]...), value, known, rule), '"')
}

// value appends a value. known says that the rule holds and that no character of it needs an
// escape; otherwise value finds out both.
func (w *pen) value(dst []byte, value string, known bool, rule func(string) string) []byte {
	if known && len(value) <= MaxFieldChars {
		return append(dst, value...)
	}
	if w.checks && check(value, true, rule) != "" {
		w.broken = true
	}
	return appendEscaped(dst, value)
}

// uri appends a URI.
func (w *pen) uri(dst []byte, uri string, rule func(string) string) []byte {
	known, escapes := webURI(uri)
	if known && escapes && len(uri) <= MaxFieldChars {
		return appendEscaped(dst, uri)
	}
	return w.value(dst, uri, known && !escapes, rule)
}

// appendAttr appends an attribute that has no rule here.
func appendAttr(dst []byte, f field, value string) []byte {
	if value == "" {
		return dst
	}
	return append(appendEscaped(append(dst, opens[f]...), value), '"')
}

// largest returns the size of the largest tag of e, or of the texts before the first.
func (e *Entry) largest() int {
	var w pen
	texts := Entry{Loc: e.Loc, LastMod: e.LastMod}
	largest := max(len(w.element(nil, "url", &texts, ofDocument)), len(w.md(nil, e, ofDocument)))
	for i := range e.Links {
		largest = max(largest, len(w.links(nil, e.Links[i:i+1], ofDocument)))
	}
	return largest
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
	from := 0
	for i := 0; i < len(s); i++ {
		for i+8 <= len(s) {
			n := untilEscape(load8(s, i))
			if i += n; n < 8 {
				break
			}
		}
		if i == len(s) {
			break
		}
		if c := s[i]; c < 64 && escaped>>c&1 == 1 {
			dst = append(append(dst, s[from:i]...), escapeOf(c)...)
			from = i + 1
		}
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

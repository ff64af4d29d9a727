package payload

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// preamble is what stands before the root element of an XML document.
type preamble struct {
	root     string // the root's name without its prefix; empty without one
	rootAt   int    // the character at which the root begins
	entities bool   // a document type declaration declares entities
}

// DeclaresEntities reports whether a document type declaration at the start of body
// declares entities, parameter entities among them. It reads UTF-8, UTF-16, UTF-32 and
// every encoding that contains ASCII, and stops at the root element.
func DeclaresEntities(body []byte) bool { return readPreamble(unitsOf(body)).entities }

// readPreamble reads up to the root element, or up to the first declaration of an entity. It takes
// text that is not well-formed, too: a later parser may be lenient.
func readPreamble(u units) (p preamble) {
	declared := false
	for i := 0; i < u.len(); {
		c := u.char(i)
		switch {
		case u.has(i, "<!--"):
			i = u.after(i+len("<!--"), "-->")
		case u.has(i, "<?"):
			i = u.after(i+len("<?"), "?>")
		case u.has(i, "<!ENTITY"):
			p.entities = true
			return p
		case u.has(i, "<!"):
			declared = true
			i += len("<!")
		case declared && (c == '"' || c == '\''): // a literal may contain < and >
			i = u.after(i+1, string(c))
		case c == '<':
			p.root, p.rootAt = u.localName(i+1), i
			return p
		default:
			i++
		}
	}
	return p
}

// units is a text as characters of one, two or four bytes. It knows ASCII only: every
// other character, and each part of one, is other.
type units struct {
	text  []byte
	width int
	order binary.ByteOrder
}

const other = utf8.RuneSelf

// unitsOf finds out by the first bytes how wide the characters of an XML document are (XML
// 1.0 appendix F).
func unitsOf(body []byte) units {
	for _, sign := range [...]struct {
		bytes string
		mark  bool // it is a byte order mark, and no part of the text
		width int
		order binary.ByteOrder
	}{
		{"\x00\x00\xfe\xff", true, 4, binary.BigEndian},
		{"\xff\xfe\x00\x00", true, 4, binary.LittleEndian},
		{"\x00\x00\x00<", false, 4, binary.BigEndian},
		{"<\x00\x00\x00", false, 4, binary.LittleEndian},
		{"\xfe\xff", true, 2, binary.BigEndian},
		{"\xff\xfe", true, 2, binary.LittleEndian},
		{"\x00<", false, 2, binary.BigEndian},
		{"<\x00", false, 2, binary.LittleEndian},
		{string(utf8Mark), true, 1, nil},
	} {
		if bytes.HasPrefix(body, []byte(sign.bytes)) {
			if sign.mark {
				body = body[len(sign.bytes):]
			}
			return units{body, sign.width, sign.order}
		}
	}
	return units{body, 1, nil}
}

func (u units) len() int { return len(u.text) / u.width }

func (u units) char(i int) byte {
	c := uint32(0)
	switch b := u.text[i*u.width:]; u.width {
	case 1:
		c = uint32(b[0])
	case 2:
		c = uint32(u.order.Uint16(b))
	default:
		c = u.order.Uint32(b)
	}
	return byte(min(c, other))
}

// has reports whether s stands at i.
func (u units) has(i int, s string) bool {
	if i+len(s) > u.len() {
		return false
	}
	for j := range len(s) {
		if u.char(i+j) != s[j] {
			return false
		}
	}
	return true
}

// after returns where the text behind the next end begins, from i on; the text's length without such
// an end.
func (u units) after(i int, end string) int {
	for ; i < u.len(); i++ {
		if u.has(i, end) {
			return i + len(end)
		}
	}
	return u.len()
}

// localName returns the name at i without its prefix.
func (u units) localName(i int) string {
	const longest = 64
	var name []byte
	for ; i < u.len() && len(name) < longest; i++ {
		switch c := u.char(i); {
		case c == ':':
			name = name[:0]
		case isSpace(c), c == '>', c == '/':
			return string(name)
		default:
			name = append(name, c)
		}
	}
	return string(name)
}

// contains reports whether s stands in the characters from..to, as far as there are such.
func (u units) contains(from, to int, s string) bool {
	from, to = max(0, from), min(to, u.len())
	if u.width == 1 {
		return from < to && bytes.Contains(u.text[from:to], []byte(s))
	}
	for i := from; i < to; i++ {
		if u.has(i, s) {
			return true
		}
	}
	return false
}

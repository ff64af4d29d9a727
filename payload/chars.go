package payload

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unicode/utf8"
)

// isSpace recognizes the white space characters of XML 1.0 §2.3.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// trimSpace cuts white space from the start of b.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}

// outerSpace passes over white space outside the root element, where no other
// text may stand.
func (s *scanner) outerSpace() error {
	n := 0
	for s.pos+n < len(s.buf) && isSpace(s.buf[s.pos+n]) {
		n++
	}
	s.consume(n)
	if s.pos < len(s.buf) && s.buf[s.pos] != '<' {
		return s.syntax("text outside the root element")
	}
	return nil
}

// charData reads text up to the next markup.
func (s *scanner) charData() (tokenKind, error) {
	n, err := s.index("<", 0)
	if err != nil {
		return 0, err
	}
	run := s.buf[s.pos : s.pos+n]
	if n == 1 && run[0] == '\n' { // as between most tags
		s.text = run
		s.consume(n)
		return tokenText, nil
	}
	if err := s.checkChars(run); err != nil {
		return 0, err
	}
	if bytes.Contains(run, []byte("]]>")) {
		return 0, s.syntax("]]> in text")
	}
	s.scratch = s.scratch[:0]
	if s.text, err = s.references(s.lineEnds(run)); err != nil {
		return 0, err
	}
	s.consume(n)
	return tokenText, nil
}

// lineEnds turns every line end into a line feed (XML 1.0 §2.11).
func (s *scanner) lineEnds(b []byte) []byte {
	if bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	start := len(s.scratch)
	for i, c := range b {
		switch {
		case c != '\r':
			s.scratch = append(s.scratch, c)
		case i+1 == len(b) || b[i+1] != '\n':
			s.scratch = append(s.scratch, '\n')
		}
	}
	return s.scratch[start:]
}

// attrValue decodes an attribute's value: white space that stands literally
// becomes a space (XML 1.0 §3.3.3), then references are replaced.
func (s *scanner) attrValue(b []byte) ([]byte, error) {
	if literal(b) {
		return b, nil
	}
	if bytes.IndexByte(b, '<') >= 0 {
		return nil, s.syntax("< in an attribute")
	}
	if hasControl(b) {
		b = s.lineEnds(b)
		start := len(s.scratch)
		for _, c := range b {
			if isSpace(c) {
				c = ' '
			}
			s.scratch = append(s.scratch, c)
		}
		b = s.scratch[start:]
	}
	return s.references(b)
}

// hasControl reports white space other than the space: of what is below it, XML
// allows nothing else.
func hasControl(b []byte) bool {
	for _, c := range b {
		if c < ' ' {
			return true
		}
	}
	return false
}

// references replaces character references and predefined entities. Any other
// entity is an error: nothing can have declared it.
func (s *scanner) references(b []byte) ([]byte, error) {
	i := bytes.IndexByte(b, '&')
	if i < 0 {
		return b, nil
	}
	start := len(s.scratch)
	for ; i >= 0; i = bytes.IndexByte(b, '&') {
		s.scratch = append(s.scratch, b[:i]...)
		b = b[i+1:]
		n := bytes.IndexByte(b[:min(len(b), maxReference)], ';')
		if n < 0 {
			return nil, s.syntax("& that begins no reference")
		}
		r, ok := reference(b[:n])
		if !ok {
			return nil, s.syntax("a reference to an entity or character that does not exist")
		}
		s.scratch = utf8.AppendRune(s.scratch, r)
		b = b[n+1:]
	}
	s.scratch = append(s.scratch, b...)
	return s.scratch[start:], nil
}

// maxReference is how far the ";" of a reference is looked for; zeros may lead
// a character reference.
const maxReference = 32

// reference returns the character that the reference name stands for.
func reference(name []byte) (rune, bool) {
	switch string(name) {
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "amp":
		return '&', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	if len(name) < 2 || name[0] != '#' {
		return 0, false
	}
	digits, base := name[1:], 10
	if digits[0] == 'x' {
		digits, base = digits[1:], 16
	}
	n, err := strconv.ParseUint(string(digits), base, 32)
	if err != nil || n > utf8.MaxRune || !IsXMLChar(rune(n)) {
		return 0, false
	}
	return rune(n), true
}

// IsXMLChar reports whether XML 1.0 can carry r (§2.2).
func IsXMLChar(r rune) bool {
	switch {
	case r < 0x20:
		return r == '\t' || r == '\n' || r == '\r'
	case r <= 0xD7FF:
		return true
	}
	return 0xE000 <= r && r <= 0xFFFD || 0x10000 <= r && r <= utf8.MaxRune
}

// checkChars refuses characters that XML 1.0 cannot carry, and what is not UTF-8.
func (s *scanner) checkChars(b []byte) error {
	for len(b) > 0 {
		if len(b) >= 8 && plain(binary.LittleEndian.Uint64(b)) {
			b = b[8:]
			continue
		}
		if b[0] < utf8.RuneSelf {
			if !IsXMLChar(rune(b[0])) {
				return s.syntax("a character that XML 1.0 does not allow")
			}
			b = b[1:]
			continue
		}
		r, n := utf8.DecodeRune(b)
		if n == 1 {
			return s.syntax("it is not in UTF-8")
		}
		if !IsXMLChar(r) {
			return s.syntax("a character that XML 1.0 does not allow")
		}
		b = b[n:]
	}
	return nil
}

// plain reports whether all eight bytes are in 0x20 to 0x7F.
func plain(x uint64) bool {
	const low, high = 0x2020202020202020, 0x8080808080808080
	return ((x-low)|x)&high == 0
}

// cutName cuts a name from the start of b, which may be empty.
func cutName(b []byte) (name, rest []byte) {
	n := 0
	for n < len(b) && isNameByte(b[n]) {
		n++
	}
	return b[:n], b[n:]
}

// splitName splits a qualified name; ok reports whether its parts are proper.
func splitName(name []byte) (prefix, local []byte, ok bool) {
	local = name
	if i := bytes.IndexByte(name, ':'); i >= 0 {
		prefix, local = name[:i], name[i+1:]
		if !startsName(prefix) || bytes.IndexByte(local, ':') >= 0 {
			return nil, nil, false
		}
	}
	return prefix, local, startsName(local)
}

func startsName(b []byte) bool {
	return len(b) > 0 && isNameByte(b[0]) && b[0] != '-' && b[0] != '.' &&
		(b[0] < '0' || b[0] > '9')
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '_' || c == '-' || c == '.' || c == ':' || c >= utf8.RuneSelf
}

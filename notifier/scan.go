package notifier

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"carillon/payload"
)

// scanner reads JSON (RFC 8259) where encoding/json is lax. Invalid UTF-8 and lone surrogates are
// errors, not replacement characters, and so is every character that XML 1.0 cannot carry. It never
// recurses: the event's fields decide what may be nested.
type scanner struct {
	data []byte
	pos  int
	// limit is the place where the event that is being read is too long.
	limit int
	links int // read so far
}

// space skips white space.
func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos == len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// found names the next character for a message.
func (s *scanner) found() string {
	if s.pos >= len(s.data) {
		return "the end of the text"
	}
	if strings.HasPrefix(string(s.data[s.pos:min(len(s.data), s.pos+3)]), "\ufeff") {
		return "a byte order mark"
	}
	for _, word := range []string{"null", "true", "false"} {
		if strings.HasPrefix(string(s.data[s.pos:min(len(s.data), s.pos+len(word))]), word) {
			return word
		}
	}
	r, size := utf8.DecodeRune(s.data[s.pos:])
	if r == utf8.RuneError && size < 2 {
		return "a byte that is not UTF-8"
	}
	return fmt.Sprintf("%q", r)
}

// take consumes c, which must come next.
func (s *scanner) take(c byte) *InputError {
	if s.peek() != c {
		return fault("expected %q, found %s", c, s.found())
	}
	s.pos++
	return nil
}

// more reports whether a further member follows in an object or array that ends
// with end, and consumes the comma or the end.
func (s *scanner) more(end byte) (bool, *InputError) {
	if s.pos > s.limit {
		return false, errTooLong()
	}
	switch s.peek() {
	case ',':
		s.pos++
		return true, nil
	case end:
		s.pos++
		return false, nil
	}
	return false, fault("expected ',' or %q, found %s", end, s.found())
}

// opens consumes the start of an object or array and reports whether it has members.
func (s *scanner) opens(start, end byte, what string) (bool, *InputError) {
	if s.peek() != start {
		return false, fault("must be %s, found %s", what, s.found())
	}
	s.pos++
	if s.peek() == end {
		s.pos++
		return false, nil
	}
	return true, nil
}

func (s *scanner) end() *InputError {
	if s.peek(); s.pos < len(s.data) {
		return fault("expected nothing more, found %s", s.found())
	}
	return nil
}

// text reads a string.
func (s *scanner) text() (string, *InputError) {
	if s.peek() != '"' {
		return "", fault("must be a string, found %s", s.found())
	}
	s.pos++
	start := s.pos
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.pos++
			return string(s.data[start : s.pos-1]), nil
		case c == '\\' || c < 0x20 || c >= utf8.RuneSelf:
			return s.textSlow(start)
		}
		s.pos++
	}
	return "", fault("is a string that does not end")
}

// textSlow reads on in a string that has more than plain ASCII.
func (s *scanner) textSlow(start int) (string, *InputError) {
	var b strings.Builder
	b.Write(s.data[start:s.pos])
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c == '"' {
			s.pos++
			return b.String(), nil
		}
		r, err := s.character(c)
		if err != nil {
			return "", err
		}
		if !payload.IsXMLChar(r) {
			return "", fault("has the character %U, which XML cannot carry", r)
		}
		b.WriteRune(r)
	}
	return "", fault("is a string that does not end")
}

// character reads one character of a string, escaped or not.
func (s *scanner) character(c byte) (rune, *InputError) {
	switch {
	case c == '\\':
		return s.escape()
	case c < 0x20:
		return 0, fault("has the control character %U unescaped", c)
	case c < utf8.RuneSelf:
		s.pos++
		return rune(c), nil
	}
	r, size := utf8.DecodeRune(s.data[s.pos:])
	if r == utf8.RuneError && size == 1 {
		return 0, fault("is not valid UTF-8")
	}
	s.pos += size
	return r, nil
}

func (s *scanner) escape() (rune, *InputError) {
	s.pos++ // the backslash
	if s.pos == len(s.data) {
		return 0, fault("is a string that does not end")
	}
	c := s.data[s.pos]
	s.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return s.escapedUnicode()
	}
	return 0, fault("has the escape %q, which JSON does not know", "\\"+string(rune(c)))
}

func (s *scanner) escapedUnicode() (rune, *InputError) {
	r, err := s.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if s.pos+1 < len(s.data) && s.data[s.pos] == '\\' && s.data[s.pos+1] == 'u' {
		s.pos += 2
		low, err := s.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, fault("has a lone surrogate, %U", r)
}

func (s *scanner) hex4() (rune, *InputError) {
	if s.pos+4 > len(s.data) {
		return 0, fault("has a \\u escape without four hexadecimal digits")
	}
	var r rune
	for _, c := range s.data[s.pos : s.pos+4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, fault("has a \\u escape without four hexadecimal digits")
		}
	}
	s.pos += 4
	return r, nil
}

// whole reads a whole number of 0 or more and returns its digits, so that none
// is lost beyond 2^53.
func (s *scanner) whole() (string, *InputError) {
	c := s.peek()
	if c != '-' && (c < '0' || c > '9') {
		return "", fault("must be a number, found %s", s.found())
	}
	start := s.pos
	for s.pos < len(s.data) && strings.IndexByte("0123456789+-.eE", s.data[s.pos]) >= 0 {
		s.pos++
	}
	number := string(s.data[start:s.pos])
	if strings.Trim(number, "0123456789") != "" || len(number) > 1 && number[0] == '0' {
		return "", fault("must be a whole number of 0 or more, in plain digits")
	}
	return number, nil
}

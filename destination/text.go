package destination

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// line makes foreign text fit for a terminal, on one line: white space becomes
// one space, and everything else that is not printable (control characters,
// those that change the direction of text, broken UTF-8) a question mark.
func line(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// appendWord writes s as one word: as it is, or quoted as Go does where it has spaces,
// quotes or anything that is not printable.
func appendWord(b []byte, s string) []byte {
	plain := s != "" && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return r == ' ' || r == '"' || !unicode.IsPrint(r)
	}) < 0
	if plain {
		return append(b, s...)
	}
	return strconv.AppendQuote(b, s)
}

// AppendEscaped writes JSON text with everything that is not printable as
// \u escapes. Outside of strings JSON has nothing of that kind.
func AppendEscaped(b, json []byte) []byte {
	for len(json) > 0 {
		r, n := utf8.DecodeRune(json)
		switch {
		case unicode.IsPrint(r):
			b = append(b, json[:n]...)
		case r < 0x10000:
			b = appendUnit(b, r)
		default:
			b = appendUnit(b, 0xd800+(r-0x10000)>>10)
			b = appendUnit(b, 0xdc00+(r-0x10000)&0x3ff)
		}
		json = json[n:]
	}
	return b
}

func appendUnit(b []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

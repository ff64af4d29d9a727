package destination

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

package mirror

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxCut is how much of a stranger's text is repeated, bytes.
const maxCut = 300

// cut makes a stranger's text short, and fit for one line.
func cut(s string) string {
	if len(s) > maxCut {
		end := maxCut
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// Package legible makes the text of strangers fit to be shown. Unprintable characters can change a
// terminal or the text around them: control characters (also U+0080 to U+009F), those that change the
// direction of text (U+202E), invisible ones, broken UTF-8. They are replaced or escaped, and nothing
// else is changed. Log lines, the output of commands and the operator's page use it.
package legible

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text replaces each character that is not printable by a dot in the middle.
func Text(s string) string { return replaced(s, '·') }

// Line makes one line of a text: white space becomes one space, and what is not printable a question
// mark.
func Line(s string) string {
	return replaced(strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " "), '?')
}

// maxCut is how much of a text Cut returns, characters.
const maxCut = 300

// Cut makes one line of a text, of at most 300 characters.
func Cut(s string) string { return CutTo(s, maxCut) }

// CutTo makes one line of a text, of at most most characters.
func CutTo(s string, most int) string {
	text := []rune(Line(s))
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return string(text)
}

func replaced(s string, by rune) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return by
	}, s)
}

// AppendJSON appends JSON text to b with everything that is not printable as \u escapes, which is the same
// JSON: outside of strings it has nothing of that kind but line ends, which stay. It replaces each byte of
// broken UTF-8 by U+FFFD, as encoding/json does: alone, 0x9b is a control character of some terminals.
func AppendJSON(b, json []byte) []byte {
	for len(json) > 0 {
		r, n := utf8.DecodeRune(json) // of broken UTF-8, U+FFFD
		switch {
		case r == '\n' || unicode.IsPrint(r):
			b = utf8.AppendRune(b, r)
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

// HTML returns what html/template wrote with each character replaced that is neither printable nor
// space, by a dot in the middle. The value attributes of forms stay as they are, because browsers send them back.
func HTML(page []byte) []byte {
	odd := func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Zs, r) }
	if bytes.IndexFunc(page, odd) < 0 {
		return page
	}
	var out []byte
	inTag := false
	for rest := page; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == '<':
			inTag = true
		case r == '>': // in an attribute it is written as &gt;
			inTag = false
		}
		if odd(r) && !(inTag && inValue(page[:len(page)-len(rest)])) {
			out = utf8.AppendRune(out, '·')
		} else {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return out
}

// inValue reports whether what comes after the text is in the value attribute of a tag. In an
// attribute a quotation mark is written as &#34;.
func inValue(before []byte) bool {
	quote := bytes.LastIndexByte(before, '"')
	return quote > 0 && bytes.HasSuffix(before[:quote], []byte(" value="))
}

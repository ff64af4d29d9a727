package topic

import "strings"

// Canonical returns a path or a query in the form that RFC 3986 §6.2.2 gives it: unreserved
// characters are decoded, all bytes that are not ASCII are percent-encoded, and the digits of
// escapes are in upper case. A text with a broken escape keeps its other escapes encoded.
func Canonical(s string) string {
	if plain, ok := decoded(s); ok {
		s = asASCII(plain)
	}
	return upperEscapes(s)
}

// decoded decodes the percent-encoded unreserved characters. It returns the text as it is, and
// false, if an escape in it is broken.
func decoded(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		c, ok := unescape(s[i:])
		switch {
		case !ok:
			return s, false
		case unreserved(c):
			b.WriteByte(c)
		default:
			b.WriteString(s[i : i+3])
		}
		i += 2
	}
	return b.String(), true
}

// unescape reads the percent-encoded byte at the start of s, which is a '%'.
func unescape(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	hi, okHi := hexDigit(s[1])
	lo, okLo := hexDigit(s[2])
	return hi<<4 | lo, okHi && okLo
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// asASCII percent-encodes the bytes that are not ASCII.
func asASCII(s string) string {
	others := 0
	for i := range len(s) {
		if s[i] >= 0x80 {
			others++
		}
	}
	if others == 0 {
		return s
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+2*others)
	for i := range len(s) {
		if c := s[i]; c < 0x80 {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

// upperEscapes writes the digits of escapes in upper case (RFC 3986 §6.2.2.1).
func upperEscapes(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			b[i+1], b[i+2] = upper(b[i+1]), upper(b[i+2])
			i += 2
		}
	}
	return string(b)
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// Lower writes ASCII letters in lower case, and no others: U+212A, the Kelvin sign, is no k.
func Lower(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return 'A' <= r && r <= 'Z' }) < 0 {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

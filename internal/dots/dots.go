// Package dots finds dot segments in paths: those that a server may see, though RFC 3986 sees
// none. A path that "/x/" begins may lead out of "/x/" on such a server. Prefixes of registered
// Sources (source) and bases of mirrors (destination/mirror) go by it.
//
// What it guarantees: Hidden takes any text, in linear time. What it does not: it resolves
// nothing, and knows no server's own rules for names, such as trailing spaces.
package dots

import "strings"

// passes is how many times over a path may be encoded: a path with escapes left then is suspect.
const passes = 5

// ends are the bytes at which some server ends a segment: parameters, a query or a fragment that
// was encoded, a NUL.
const ends = ";?#\x00"

// Hidden reports whether a segment of the path is . or .. to some server: to one that decodes a
// path more than once, takes a backslash for a slash, or ends a segment at one of ends. The path
// may be encoded or not. A path that is encoded more than a few times over counts as such.
func Hidden(path string) bool {
	for range passes {
		segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
		for _, segment := range segments {
			if i := strings.IndexAny(segment, ends); i >= 0 {
				segment = segment[:i]
			}
			if segment == "." || segment == ".." {
				return true
			}
		}
		decoded := decode(path)
		if decoded == path {
			return false
		}
		path = decoded
	}
	return true
}

// decode decodes each escape once. Anything but an escape stays, as lenient servers let it.
func decode(path string) string {
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			high, low := digit(path[i+1]), digit(path[i+2])
			if high >= 0 && low >= 0 {
				b.WriteByte(byte(high<<4 | low))
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// digit returns the value of a hexadecimal digit, or -1.
func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

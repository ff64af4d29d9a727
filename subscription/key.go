package subscription

import "strings"

// Key returns the form of a topic or callback URL by which it is compared: the
// URL with every percent-encoded unreserved character decoded (WebSub §5.1.1;
// RFC 3986 §2.3), so that "%7Ea" and "~a" are one. Everything else, the case of
// other escapes included, stays as it is, and so does the whole of what is no
// URL because an escape in it is broken: decoding it could make new escapes.
func Key(rawURL string) string {
	if strings.IndexByte(rawURL, '%') < 0 {
		return rawURL
	}
	var b strings.Builder
	b.Grow(len(rawURL))
	for i := 0; i < len(rawURL); i++ {
		if rawURL[i] != '%' {
			b.WriteByte(rawURL[i])
			continue
		}
		c, ok := unescape(rawURL[i:])
		switch {
		case !ok:
			return rawURL
		case unreserved(c):
			b.WriteByte(c)
		default:
			b.WriteString(rawURL[i : i+3])
		}
		i += 2
	}
	return b.String()
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

package subscription

import "strings"

// Key returns the form of a topic or callback URL by which it is compared: the
// URL with every percent-encoded unreserved character decoded (WebSub §5.1.1;
// RFC 3986 §2.3), so that "%7Ea" and "~a" are one; with every byte that is not ASCII
// percent-encoded (RFC 3987 §3.1), so that an IRI and its URI are one; and with the
// scheme http or https in lower case (RFC 3986 §3.1). Everything else, the case of
// other escapes included, stays as it is, and so does the whole of what is no
// URL because an escape in it is broken: decoding it could make new escapes.
//
// Stores keep what belongs to a topic or a subscription under its Key. A change of Key is a
// change of their layouts.
func Key(rawURL string) string {
	key, ok := decoded(rawURL)
	if !ok {
		return rawURL
	}
	return lowerScheme(asASCII(key))
}

// decoded decodes the percent-encoded unreserved characters. It returns the text as it is, and
// false, if an escape in it is broken.
func decoded(rawURL string) (string, bool) {
	if strings.IndexByte(rawURL, '%') < 0 {
		return rawURL, true
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
			return rawURL, false
		case unreserved(c):
			b.WriteByte(c)
		default:
			b.WriteString(rawURL[i : i+3])
		}
		i += 2
	}
	return b.String(), true
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

// lowerScheme writes the scheme in lower case if it is that of a topic or callback.
func lowerScheme(s string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if n := len(scheme); len(s) >= n && s[:n] != scheme && strings.EqualFold(s[:n], scheme) {
			return scheme + s[n:]
		}
	}
	return s
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

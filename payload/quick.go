package payload

import (
	"time"
)

// This file judges values as most are: one passes whose bytes show at once that it is valid.
// The rules judge all others; neither accepts what the other refuses.

// webURI reports most http and https URIs that they are some, and whether any
// character of them needs an escape: those in ASCII whose host is a name or an
// address of version 4, without a port.
func webURI(s string) (known, escapes bool) {
	const shortest = len("http://a")
	if len(s) < shortest || s[:4] != "http" {
		return false, false
	}
	i := 4
	if s[i] == 's' {
		i++
	}
	if s[i:i+3] != "://" {
		return false, false
	}
	i += 3
	host := i
	for i < len(s) && class[s[i]]&classHost != 0 {
		i++
	}
	if i == host || i < len(s) && s[i] != '/' {
		return false, false
	}
	return uriBytes(s, i)
}

// uriBytes reports whether all characters of s from i on are such as a URI may have,
// in ASCII, and whether one of them needs an escape. s has at least eight.
func uriBytes(s string, i int) (fine, escapes bool) {
	var bad, escape uint64
	for ; i+8 <= len(s); i += 8 {
		b, e := uriWord(load8(s, i))
		bad |= b
		escape |= e
	}
	if i < len(s) { // some of these were looked at before
		b, e := uriWord(load8(s, len(s)-8))
		bad |= b
		escape |= e
	}
	return bad == 0, escape != 0
}

// isHash reports most hashes that hashRule lets them pass.
func isHash(s string) bool {
	for {
		var want int
		switch {
		case len(s) > 8 && s[:8] == "sha-256:":
			s, want = s[8:], 64
		case len(s) > 4 && s[:4] == "md5:":
			s, want = s[4:], 32
		case len(s) > 6 && s[:6] == "sha-1:":
			s, want = s[6:], 40
		default:
			return false
		}
		if len(s) < want || !hexWords(s[:want]) {
			return false
		}
		if s = s[want:]; s == "" {
			return true
		}
		if s[0] != ' ' {
			return false
		}
		s = s[1:]
	}
}

// isSecond reports YYYY-MM-DDThh:mm:ss[.s+]Z that it is a datetime; of the 31st, and
// of the end of February, it does not tell.
func isSecond(s string) bool {
	const shape = "0000-00-00T00:00:00Z"
	if len(s) < len(shape) || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' ||
		s[16] != ':' {
		return false
	}
	month, day := two(s, 5), two(s, 8)
	if two(s, 0) > 99 || two(s, 2) > 99 || month-1 > 11 || day-1 > 29 || day > 28 && month == 2 ||
		two(s, 11) > 23 || two(s, 14) > 59 || two(s, 17) > 59 {
		return false
	}
	i := 19
	if s[i] == '.' {
		for i++; i < len(s) && isDigit(s[i]); i++ {
		}
		if i == 20 {
			return false
		}
	}
	return i == len(s)-1 && s[i] == 'Z'
}

// two returns the number that two digits make, and a large one for anything else.
func two(s string, i int) uint {
	tens, units := uint(s[i]-'0'), uint(s[i+1]-'0')
	if tens > 9 || units > 9 {
		return 1000
	}
	return 10*tens + units
}

// isMediaType reports most media types without parameters that they are some.
func isMediaType(s string) bool {
	i := 0
	for i < len(s) && class[s[i]]&classToken != 0 {
		i++
	}
	return 0 < i && i < len(s) && s[i] == '/' && isPlainToken(s[i+1:])
}

// isPlainToken reports most tokens that they are some.
func isPlainToken(s string) bool {
	for i := range len(s) {
		if class[s[i]]&classToken == 0 {
			return false
		}
	}
	return s != ""
}

// The classes of bytes; those that would need an escape are in none.
const (
	classHost  = 1 << iota // letters, digits, "-", "."
	classToken             // those and "+", "_": of the characters of a token the common ones
)

var class = func() (t [256]uint8) {
	for c := range len(t) {
		if c := byte(c); c < 0x80 && (isLower(c|0x20) || isDigit(c) || c == '-' || c == '.') {
			t[c] = classHost | classToken
		}
	}
	t['+'], t['_'] = classToken, classToken
	return t
}()

const datetimeShape = "0000-00-00T00:00:00.000000Z"

// appendDatetime appends t as datetimeFormat has it; its year must be writable.
func appendDatetime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	micros := t.Nanosecond() / 1000
	dst = append(dst, datetimeShape...)
	b := dst[len(dst)-len(datetimeShape):]
	put2(b, 0, year/100)
	put2(b, 2, year%100)
	put2(b, 5, int(month))
	put2(b, 8, day)
	put2(b, 11, hour)
	put2(b, 14, minute)
	put2(b, 17, second)
	put2(b, 20, micros/10_000)
	put2(b, 22, micros/100%100)
	put2(b, 24, micros%100)
	return dst
}

// put2 writes n, of two digits, over b[i] and what follows it.
func put2(b []byte, i, n int) {
	b[i], b[i+1] = '0'+byte(n/10), '0'+byte(n%10)
}

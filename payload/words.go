package payload

import (
	"encoding/binary"
	"math/bits"
)

// The same byte eight times. The functions of this file look at eight bytes at a
// time, as one word; their sums and differences carry into a higher byte only from one
// that shows itself, so that the lowest byte found is always a true one.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// uriWord returns bad with a bit for what no URI has, or is not in ASCII, and
// escape with a bit for what needs an escape where it stands in XML. The bits
// tell only that there is such a byte: which one it is they do not if there are several.
func uriWord(x uint64) (bad, escape uint64) {
	low := (x - 0x21*ones) &^ x                // below 0x21
	high := (x + ones) | x                     // above 0x7E
	angle := zero((x | 0x02*ones) ^ '>'*ones)  // < and > differ in one bit
	quoted := zero((x | 0x04*ones) ^ '&'*ones) // so do & and "
	return (low | high | angle) & highs, quoted & highs
}

// untilEscape returns how many bytes of x, from its lowest on, surely need no escape: 8
// if none does.
func untilEscape(x uint64) int {
	control := (x - 0x20*ones) &^ x
	angle := zero((x | 0x02*ones) ^ '>'*ones)
	quoted := zero((x | 0x04*ones) ^ '&'*ones)
	return bits.TrailingZeros64((control|angle|quoted)&highs) / 8
}

// isUnescaped reports whether s, of eight bytes or more, surely needs no escape.
func isUnescaped(s string) bool {
	if len(s) < 8 {
		return false
	}
	var found uint64
	for i := 0; ; i += 8 {
		last := i+8 >= len(s)
		if last {
			i = len(s) - 8 // some of these were looked at before
		}
		x := load8(s, i)
		found |= (x-0x20*ones)&^x | zero((x|0x02*ones)^'>'*ones) | zero((x|0x04*ones)^'&'*ones)
		if last {
			return found&highs == 0
		}
	}
}

// zero has a high bit in the result if a byte of x is 0.
func zero(x uint64) uint64 { return (x - ones) &^ x }

// load8 returns the eight bytes of s from i on.
func load8(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// literal reports whether no byte of an attribute's value stands for another: there is no control
// character, < or &.
func literal(b []byte) bool {
	var found uint64
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		found |= (x-0x20*ones)&^x | zero(x^'<'*ones) | zero(x^'&'*ones)
		b = b[8:]
	}
	for _, c := range b {
		if c < ' ' || c == '<' || c == '&' {
			return false
		}
	}
	return found&highs == 0
}

// hexWords reports whether s, of a multiple of eight bytes, is hexadecimal.
func hexWords(s string) bool {
	var bad uint64
	for i := 0; i+8 <= len(s); i += 8 {
		x := load8(s, i)
		digit := (x + (0x80-'0')*ones) &^ (x + (0x7F-'9')*ones)
		x |= 0x20 * ones
		letter := (x + (0x80-'a')*ones) &^ (x + (0x7F-'f')*ones)
		// No sum carries into the next byte as long as all are in ASCII.
		bad |= ^(digit | letter) | x
	}
	return bad&highs == 0
}

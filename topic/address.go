package topic

import (
	"log/slog"
	"strings"
)

// Address is the address of a topic or a callback, in two forms: as it was spelled, and its Key.
// The zero Address is that of the empty text. Addresses are cheap to copy. Two are equal (==) if
// they are spelled the same; the same topic or callback, however spelled, has the same Key.
type Address struct{ spelling, key string }

// Parse returns the Address of a text, and computes its Key.
func Parse(raw string) Address { return Address{raw, Key(raw)} }

// Stored returns the Address of a record that holds both the spelling and its Key. It computes
// nothing: the caller vouches that the key is the Key of the spelling.
func Stored(spelling, key string) Address { return Address{spelling, key} }

// String returns the address as it was spelled.
func (a Address) String() string { return a.spelling }

// LogValue logs the address as it was spelled.
func (a Address) LogValue() slog.Value { return slog.StringValue(a.spelling) }

// Key returns the form by which the address is compared. See the function Key.
func (a Address) Key() string { return a.key }

// Same reports whether both are the same topic, or the same callback.
func (a Address) Same(b Address) bool { return a.key == b.key }

// Key returns the form of an address by which it is compared. It differs from the address in
// three ways:
//
//   - Every percent-encoded unreserved character is decoded, so that "%7Ea" and "~a" are the same
//     (WebSub §5.1.1; RFC 3986 §2.3).
//   - Every byte that is not ASCII is percent-encoded, so that an IRI and its URI are the same
//     (RFC 3987 §3.1).
//   - The scheme http or https is in lower case (RFC 3986 §3.1).
//
// Everything else stays as it is, the case of other escapes included. An address with a broken
// escape stays as it is, as a whole: decoding it could make new escapes. The Key of a Key is that
// Key.
//
// Stores keep what belongs to a topic or a subscription under its Key. A change of Key is a
// change of their layouts.
func Key(raw string) string {
	key, ok := decoded(raw)
	if !ok {
		return raw
	}
	return lowerScheme(asASCII(key))
}

// lowerScheme writes the scheme http or https in lower case.
func lowerScheme(s string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if n := len(scheme); len(s) >= n && s[:n] != scheme && strings.EqualFold(s[:n], scheme) {
			return scheme + s[n:]
		}
	}
	return s
}

package payload

import (
	"bytes"
	"strings"
)

// The rules in this file return what is wrong with a value, to go on from the
// name of its field, or nothing. A value is not empty and has only characters
// that XML can carry.

// webURIRule: an absolute http or https URI, or IRI, verbatim.
func webURIRule(s string) string {
	const want = "must be an absolute http or https URI"
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || !isWeb(scheme) {
		return want
	}
	if reason := uriCharsRule(s); reason != "" {
		return reason
	}
	if !hasHost(rest) {
		return want + " with a host"
	}
	return ""
}

// uriRule: an absolute URI of any scheme. A relative reference is refused: core
// §7 asks for the URI, and a notification that a hub relays has no base that
// a Destination could resolve one against.
func uriRule(s string) string {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || rest == "" || !isScheme(scheme) {
		return "must be an absolute URI"
	}
	if isWeb(scheme) {
		return webURIRule(s)
	}
	return uriCharsRule(s)
}

// relRule: one relation, registered or a URI (core §7; RFC 8288 §3.3). Whether
// a name is registered is not looked up: the registry grows.
func relRule(s string) string {
	if strings.IndexByte(s, ':') >= 0 {
		if uriRule(s) == "" {
			return ""
		}
	} else if isRelToken(s) {
		return ""
	}
	return "must be one relation type: a registered name in lower case, or an absolute URI (core §7)"
}

func isRelToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isLower(c) && (i == 0 || !isDigit(c) && c != '.' && c != '-') {
			return false
		}
	}
	return true
}

// uriCharsRule refuses what no URI and no IRI has (RFC 3986 §2, RFC 3987 §2.2)
// and what would change its meaning in XML or in a Link header.
func uriCharsRule(s string) string {
	for _, r := range s {
		switch {
		case r == ' ' || r == '<' || r == '>':
			return "must not have spaces or angle brackets"
		case r < 0x20 || 0x7F <= r && r <= 0x9F:
			return "must not have control characters"
		}
	}
	return ""
}

// hasHost reports whether rest, what follows the scheme's colon, has an authority
// with a host, and a port in digits if it has one.
func hasHost(rest string) bool {
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return false
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	host := rest[strings.LastIndexByte(rest, '@')+1:]
	port := ""
	if end := strings.LastIndexByte(host, ']'); strings.HasPrefix(host, "[") {
		if end < 0 {
			return false
		}
		host, port = host[:end+1], host[end+1:]
		if port != "" && port[0] != ':' {
			return false
		}
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		host, port = host[:i], host[i:]
	}
	return host != "" && host != "[]" && (len(port) <= 1 || allDigits(port[1:]))
}

func isWeb(scheme string) bool {
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// hasScheme reports whether a URI reference begins with a scheme, and so is not relative (RFC 3986
// §4.1).
func hasScheme(uri []byte) bool {
	i := bytes.IndexByte(uri, ':')
	return i > 0 && isScheme(string(uri[:i]))
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isLower(c|0x20) && (i == 0 || !isDigit(c) && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// digestLength returns how many hex digits the digest of a hash algorithm has,
// 0 for one that is not known. The names are those of the Atom Link Extensions
// draft (core §7).
func digestLength(algorithm string) int {
	switch algorithm {
	case "md5":
		return 32
	case "sha-1":
		return 40
	case "sha-224":
		return 56
	case "sha-256":
		return 64
	case "sha-384":
		return 96
	case "sha-512":
		return 128
	}
	return 0
}

// unknownAlgorithm is what hashRule says of a hash that may be right all the same.
const unknownAlgorithm = "names a hash algorithm that is not md5, sha-1, sha-224, sha-256, sha-384 or sha-512"

// hashRule: algorithm:hexdigest, or several separated by single spaces.
func hashRule(s string) string {
	for more := true; more; {
		var one string
		one, s, more = strings.Cut(s, " ")
		algorithm, digest, ok := strings.Cut(one, ":")
		want := digestLength(algorithm)
		switch {
		case !ok:
			return "must be algorithm:hexdigest, or several separated by single spaces (core §7)"
		case want == 0:
			return unknownAlgorithm
		case !allHex(digest):
			return "has a digest that is not hexadecimal (core §7)"
		case len(digest) != want:
			return "has a digest of the wrong length for " + algorithm
		}
	}
	return ""
}

func allHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}

// mediaTypeRule: type/subtype with parameters (RFC 9110 §8.3.1).
func mediaTypeRule(s string) string {
	const want = "must be a media type, such as text/html or text/html; charset=utf-8"
	main, rest := cutToken(s)
	rest, slash := strings.CutPrefix(rest, "/")
	sub, rest := cutToken(rest)
	if main == "" || !slash || sub == "" {
		return want
	}
	for rest != "" {
		var ok bool
		if rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " \t"), ";"); !ok {
			return want
		}
		if rest, ok = cutParameter(strings.TrimLeft(rest, " \t")); !ok {
			return want
		}
	}
	return ""
}

// cutParameter cuts name=value, the value a token or a quoted string.
func cutParameter(s string) (rest string, ok bool) {
	name, rest := cutToken(s)
	rest, ok = strings.CutPrefix(rest, "=")
	if name == "" || !ok {
		return "", false
	}
	if quoted, isQuoted := strings.CutPrefix(rest, `"`); isQuoted {
		return cutQuoted(quoted)
	}
	value, rest := cutToken(rest)
	return rest, value != ""
}

// cutQuoted cuts the rest of a quoted string, up to its closing quote.
func cutQuoted(s string) (rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[i+1:], true
		case c == '\\':
			i++
		case c < ' ' && c != '\t' || c == 0x7F:
			return "", false
		}
	}
	return "", false
}

// encodingRule: one content coding, or several in the order applied (RFC 9110 §8.4).
func encodingRule(s string) string {
	for more := true; more; {
		var one string
		one, s, more = strings.Cut(s, ",")
		token, rest := cutToken(strings.Trim(one, " \t"))
		if token == "" || rest != "" {
			return "must be a content coding, such as gzip, or several separated by commas"
		}
	}
	return ""
}

// cutToken cuts a token (RFC 9110 §5.6.2), which may be empty, from the start of s.
func cutToken(s string) (token, rest string) {
	n := 0
	for n < len(s) && (isLower(s[n]|0x20) || isDigit(s[n]) || strings.IndexByte("!#$%&'*+-.^_`|~", s[n]) >= 0) {
		n++
	}
	return s[:n], s[n:]
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

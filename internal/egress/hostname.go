package egress

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"carillon/topic"
)

// literal reads a host that is an address, as it would be dialed: an
// IPv4-mapped IPv6 address is dialed as IPv4, and a last dot means nothing.
func literal(host string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(host, "."))
	return addr.Unmap(), err == nil
}

// localhost recognizes the names that always mean this machine (RFC 6761 §6.3).
func localhost(host string) bool {
	host = topic.Lower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// ascii recognizes a host that is in ASCII. The clients would write any other by its look, without
// invisible characters. One name would then have countless spellings, each counted as a host of its
// own.
func ascii(host string) bool {
	return !strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf })
}

// Limits of names (RFC 1035 §2.3.4).
const (
	maxName  = 253
	maxLabel = 63
)

// validName reports whether a host is a name, in ASCII: letters, digits, hyphens and underscores
// between dots. A host whose last label is a number is not: some resolvers take 127.1, 0x7f000001,
// 0177.0.0.1 and 2130706433 for addresses, and no domain is called so (RFC 3696 §2; the URL standard's
// "ends in a number").
func validName(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxName {
		return false
	}
	var label string
	for more := true; more; {
		label, host, more = strings.Cut(host, ".")
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, notInName) {
			return false
		}
	}
	return !number(label)
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// number recognizes a label that is a number, decimal, octal or hexadecimal.
func number(label string) bool {
	if hex, ok := strings.CutPrefix(topic.Lower(label), "0x"); ok {
		return !strings.ContainsFunc(hex, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
	}
	return !strings.ContainsFunc(label, func(r rune) bool { return r < '0' || r > '9' })
}

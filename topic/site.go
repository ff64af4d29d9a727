package topic

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"

	"carillon/internal/standing"
)

// Domain returns the registered domain of a name, by the public suffix list: "a.b.example.co.uk" is in
// "example.co.uk". One owner answers for all names in it, and so do one owner's name servers. A
// top-level domain may be younger than the list: below one that the list lacks it is the last two
// labels, by the list's own rule for such names. It is the name itself where no names are registered:
// for a public suffix, or a name of one label.
func Domain(name string) string {
	name = Lower(strings.TrimSuffix(name, "."))
	if domain, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return domain
	}
	return name
}

// Site returns what counts as one site in an address, for limits and fair shares: its registered
// domain (Domain), as the owner of a domain can make any number of names in it; the /64 network of
// an IPv6 address; and any other IP address as it is. A name in a private network is a site of its
// own, however many labels it shares with others: no stranger can make such names. It is empty
// for what is no http or https URL, or has a host longer than a name can be.
func Site(raw string) string {
	host := Host(raw)
	if addr, err := netip.ParseAddr(host); err == nil {
		return standing.Network(addr)
	}
	if private(host) {
		return host
	}
	return Domain(host)
}

// private reports whether a name is below a top-level domain without registrations: the reserved ones
// (RFC 6761, RFC 6762 and its appendix G, ICANN's for private use).
func private(name string) bool {
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "example", "invalid", "localhost", "test",
		"corp", "home", "internal", "intranet", "lan", "local", "private":
		return true
	}
	return false
}

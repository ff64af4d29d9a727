package egress

import (
	"fmt"
	"net/netip"

	"code.dny.dev/ssrf"
)

// judge returns nil for an address that may be dialed.
//
// An IPv6 address that stands for one of IPv4 (a translator or a tunnel takes it there)
// must be allowed itself, which those of translators and tunnels are by --allow-net only,
// and what it stands for must be allowed too: 64:ff9b::/96 may be opened on a machine
// without IPv4, and 64:ff9b::7f00:1 is still no way to a loopback address.
func judge(guard *ssrf.Guardian, addr netip.Addr) error {
	addr = addr.Unmap()
	if err := guard.SafeAddr(addr); err != nil {
		return fmt.Errorf("%w: %s is in a private or special network", ErrForbidden, addr)
	}
	inner, ok := carried(addr)
	if !ok {
		return nil
	}
	if err := guard.SafeAddr(inner); err != nil {
		return fmt.Errorf("%w: %s stands for %s, which is in a private or special network", ErrForbidden, addr, inner)
	}
	return nil
}

// platforms are public addresses that mean the platform below a virtual machine, which answers there
// as at 169.254.169.254: it may give credentials away.
var platforms = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure
}

// Where IPv6 addresses have an IPv4 address in them.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052 §2.1
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215; the last 32 bits, as with a prefix of 96
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056 §2
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380 §4, of the client, inverted
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291 §2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765 §2.1
)

// carried is the IPv4 address that an IPv6 address stands for, if it does.
func carried(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	plain := addr.WithZone("")
	switch {
	case plain == netip.IPv6Loopback() || plain.IsUnspecified():
		return netip.Addr{}, false // they stand for themselves
	case nat64.Contains(plain), nat64Local.Contains(plain), compatible.Contains(plain), translated.Contains(plain):
		return last, true
	case sixToFour.Contains(plain):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(plain):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	case isatap(b):
		return last, true
	}
	return netip.Addr{}, false
}

// isatap recognizes the interface identifiers of ISATAP (RFC 5214 §6.1), which are below any prefix
// and mean no other interface.
func isatap(b [16]byte) bool {
	return (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

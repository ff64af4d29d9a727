package egress_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"carillon/internal/egress"
)

// refusedRanges are those of the IANA registries of special-purpose addresses, of
// multicast and of what is not assigned to the internet. Those of IPv4 may touch.
var refusedRanges = []struct{ name, prefix string }{
	{"this network", "0.0.0.0/8"},
	{"private", "10.0.0.0/8"},
	{"shared with the provider (CGNAT)", "100.64.0.0/10"},
	{"loopback", "127.0.0.0/8"},
	{"link-local, cloud metadata", "169.254.0.0/16"},
	{"the platform below a machine of Azure", "168.63.129.16/32"},
	{"private", "172.16.0.0/12"},
	{"protocol assignments", "192.0.0.0/24"},
	{"documentation 1", "192.0.2.0/24"},
	{"AS112", "192.31.196.0/24"},
	{"AMT", "192.52.193.0/24"},
	{"6to4 relays", "192.88.99.0/24"},
	{"private", "192.168.0.0/16"},
	{"AS112, direct", "192.175.48.0/24"},
	{"benchmarking", "198.18.0.0/15"},
	{"documentation 2", "198.51.100.0/24"},
	{"documentation 3", "203.0.113.0/24"},
	{"multicast", "224.0.0.0/4"},
	{"reserved, broadcast", "240.0.0.0/4"},

	// All that lies outside of 2000::/3, in parts that mean something.
	{"unspecified", "::/128"},
	{"loopback", "::1/128"},
	{"IPv4-compatible", "::/96"},
	{"IPv4-translated", "::ffff:0:0:0/96"},
	{"NAT64", "64:ff9b::/96"},
	{"NAT64, local", "64:ff9b:1::/48"},
	{"discard", "100::/64"},
	{"all below the global ones", "::/3"},
	{"all behind the global ones", "4000::/2"},
	{"SRv6 identifiers", "5f00::/16"},
	{"all behind", "8000::/1"},
	{"unique local", "fc00::/7"},
	{"link-local", "fe80::/10"},
	{"site-local", "fec0::/10"},
	{"multicast", "ff00::/8"},
	// Inside of it.
	{"protocol assignments", "2001::/23"},
	{"Teredo", "2001::/32"},
	{"benchmarking", "2001:2::/48"},
	{"ORCHID", "2001:10::/28"},
	{"ORCHIDv2", "2001:20::/28"},
	{"documentation", "2001:db8::/32"},
	{"6to4", "2002::/16"},
	{"AS112, direct", "2620:4f:8000::/48"},
	{"documentation", "3fff::/20"},
}

// Of each range the first and the last address are refused, when dialed and at once;
// those next to it are not, unless they are in another one.
func TestRefusedRanges(t *testing.T) {
	d := newDialer(t, egress.Config{})
	for _, r := range refusedRanges {
		p := netip.MustParsePrefix(r.prefix)
		first, last := p.Masked().Addr(), lastOf(p)
		for _, a := range []netip.Addr{first, first.Next(), last.Prev(), last} {
			if !p.Contains(a) {
				continue // of a single address
			}
			checkRefused(t, d, a.String())
			if a.Is4() {
				checkRefused(t, d, "::ffff:"+a.String())
			} else {
				checkRefused(t, d, a.String()+"%lo")
			}
		}
		for _, a := range []netip.Addr{first.Prev(), last.Next()} {
			if !a.IsValid() || refusedBySome(a) {
				continue
			}
			if err := d.CheckURL(urlOf(a.String())); err != nil {
				t.Errorf("%s is outside of %s (%s), and refused: %v", a, r.prefix, r.name, err)
			}
		}
	}
}

func checkRefused(t *testing.T, d *egress.Dialer, addr string) {
	t.Helper()
	if err := d.CheckURL(urlOf(addr)); !errors.Is(err, egress.ErrForbidden) {
		t.Errorf("CheckURL of %s: %v", addr, err)
	}
	conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(addr, "80"))
	if conn != nil {
		conn.Close()
	}
	if !errors.Is(err, egress.ErrForbidden) {
		t.Errorf("dialing %s: %v", addr, err)
	}
}

func urlOf(addr string) string {
	a := netip.MustParseAddr(addr)
	switch {
	case a.Is4():
		return "http://" + addr + "/"
	case a.Zone() != "":
		return "http://[" + a.WithZone("").String() + "%25" + a.Zone() + "]/"
	}
	return "http://[" + addr + "]/"
}

func refusedBySome(a netip.Addr) bool {
	for _, r := range refusedRanges {
		if netip.MustParsePrefix(r.prefix).Contains(a) {
			return true
		}
	}
	return false
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// An address that stands for an IPv4 address is refused unless its own network is allowed, and the
// IPv4 address may be dialed too.
func TestAddressesThatStandForOthers(t *testing.T) {
	const public, loopback, private = "93.184.216.34", "127.0.0.1", "10.1.2.3"
	forms := []struct {
		name, net string
		of        func(v4 [4]byte) netip.Addr
	}{
		{"NAT64", "64:ff9b::/96", func(a [4]byte) netip.Addr { return within("64:ff9b::", 12, a) }},
		{"NAT64, local", "64:ff9b:1::/48", func(a [4]byte) netip.Addr { return within("64:ff9b:1:2::", 12, a) }},
		{"6to4", "2002::/16", func(a [4]byte) netip.Addr { return within("2002::1", 2, a) }},
		{"Teredo", "2001::/32", func(a [4]byte) netip.Addr {
			return within("2001:0:4136:e378:8000:63bf::", 12, [4]byte{^a[0], ^a[1], ^a[2], ^a[3]})
		}},
		{"ISATAP", "fd00::/8", func(a [4]byte) netip.Addr { return within("fd00::5efe:0:0", 12, a) }},
		{"ISATAP, of a public address", "fd00::/8", func(a [4]byte) netip.Addr { return within("fd00::200:5efe:0:0", 12, a) }},
		{"IPv4-compatible", "::/96", func(a [4]byte) netip.Addr { return within("::", 12, a) }},
		{"IPv4-translated", "::ffff:0:0:0/96", func(a [4]byte) netip.Addr { return within("::ffff:0:0:0", 12, a) }},
	}
	for _, f := range forms {
		closed := newDialer(t, egress.Config{})
		opened := newDialer(t, egress.Config{AllowNets: prefixes(f.net)})
		both := newDialer(t, egress.Config{AllowNets: prefixes(f.net, "10.0.0.0/8")})
		for _, v4 := range []string{public, loopback, private} {
			addr := f.of(netip.MustParseAddr(v4).As4()).String()
			checkRefused(t, closed, addr)
			if v4 != public {
				checkRefused(t, opened, addr)
			} else if err := opened.CheckURL(urlOf(addr)); err != nil {
				t.Errorf("%s of %s, opened: %v", f.name, v4, err)
			}
			if err := both.CheckURL(urlOf(addr)); (err == nil) == (v4 == loopback) {
				t.Errorf("%s of %s, opened with 10.0.0.0/8: %v", f.name, v4, err)
			}
		}
	}
	// The address of a name is judged the same way.
	server := newNameServer(t, zone{"nat64.example.": {typeAAAA: addresses(60, "64:ff9b::7f00:1")}}.answer)
	named := newDialer(t, egress.Config{AllowNets: prefixes("64:ff9b::/96"), Names: server.names(t)})
	if _, err := named.DialContext(t.Context(), "tcp", "nat64.example:80"); !errors.Is(err, egress.ErrForbidden) {
		t.Errorf("a name that means NAT64 of loopback: %v", err)
	}
	// An identifier of ISATAP below a global prefix means a tunnel as well.
	open := newDialer(t, egress.Config{})
	checkRefused(t, open, "2606:2800:220:1:0:5efe:7f00:1")
	if err := open.CheckURL("http://[2606:2800:220:1:0:5efe:5db8:d822]/"); err != nil {
		t.Errorf("ISATAP of a public address: %v", err)
	}
}

// within writes an IPv4 address into an IPv6 one.
func within(v6 string, at int, v4 [4]byte) netip.Addr {
	b := netip.MustParseAddr(v6).As16()
	copy(b[at:], v4[:])
	return netip.AddrFrom16(b)
}

package standing

import "net/netip"

// Around returns the /48 around a client that Network has named as a network of IPv6: the range that a
// provider may give to one customer, and some give to all. It is empty for any other.
func Around(client string) string {
	network, err := netip.ParsePrefix(client)
	if err != nil || !network.Addr().Is6() {
		return ""
	}
	around, err := network.Addr().Prefix(48)
	if err != nil {
		return ""
	}
	return around.String()
}

package standing

import "net/netip"

// Around returns the /48 around a client that Network has told as a network of IPv6: what
// a provider may give to one customer, and some give to anybody. It is empty for any other.
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

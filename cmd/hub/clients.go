package main

import (
	"fmt"
	"log/slog"
	"net/netip"
)

// clientFlags say who a client is, for the limits that are for each.
type clientFlags struct {
	TrustedProxy []netip.Prefix `placeholder:"CIDR" help:"A network of proxies before the hub, whose X-Forwarded-For says who the clients are that limits are for, and whose X-Forwarded-Proto says at the operator's listener whether a browser came by https; repeatable. Default: who connects is the client, and one on this machine has no limits."`
}

// Validate refuses networks that nobody connects from.
func (f *clientFlags) Validate() error {
	for _, p := range f.TrustedProxy {
		if p.Addr().Is4In6() {
			return fmt.Errorf("--trusted-proxy %s: write a network of IPv4 as 192.0.2.0/24", p)
		}
	}
	return nil
}

// warnings returns what is wrong with networks that take in most who connect: each of them says by
// itself who it is.
func (f *clientFlags) warnings() (all []string) {
	for _, p := range f.TrustedProxy {
		if p.Bits() <= 1 {
			all = append(all, fmt.Sprintf("--trusted-proxy takes in everybody (%s): who connects names his own address by X-Forwarded-For, and limits for a client stop nobody. Give the networks of the proxies alone", p))
		}
	}
	return all
}

// warn logs the warnings.
func (f *clientFlags) warn(logger *slog.Logger) {
	for _, warning := range f.warnings() {
		logger.Warn(warning)
	}
}

package destination

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// unverifiedSoon is how long a hub is waited for in silence before the log says why it may not
// verify.
const unverifiedSoon = 10 * time.Second

// verified waits until the hub has verified the request, or Config.VerifyWithin has passed, which p tells.
// The error is a reason to stop.
func (d *Destination) verified(ctx context.Context, hub string, p *pending) error {
	soon := min(unverifiedSoon, d.cfg.VerifyWithin)
	if err := d.wait(ctx, soon, p.confirmed); err != nil {
		return err
	}
	select {
	case <-p.confirmed:
		return nil
	default:
	}
	d.cfg.Logger.Warn("the hub accepted the request, and has not asked the callback yet", "hub", hub, "url", d.callbackBase()+"…",
		"waited", soon.String(), "hint", unreachableHint(d.cfg.URL))
	return d.wait(ctx, d.cfg.VerifyWithin-soon, p.confirmed)
}

// unreachableHint says why a hub is likely not to reach a callback at the URL.
func unreachableHint(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	at, _ := netip.ParseAddr(host)
	switch {
	case at.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost"):
		return "the callback's address is of this machine alone: a hub elsewhere cannot reach it. Give --url the address by which the hub reaches this program"
	case at.IsPrivate() || at.IsLinkLocalUnicast():
		return "the callback's address is private: a hub elsewhere cannot reach it, and many hubs refuse to. Give --url a public address"
	}
	return "look whether the callback's address leads to this program from where the hub is: name, port, proxy, firewall, and a certificate that the hub trusts"
}

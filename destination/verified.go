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

// verified waits until the hub has verified the request. A denial meanwhile is believed where no
// verification comes: within denialGrace where nothing is delivered yet, and within VerifyWithin
// where a subscription lasts, which somebody may want to end.
func (d *Destination) verified(ctx context.Context, hub string, p *pending) error {
	doubts := d.doubts
	if d.subscribed() {
		doubts = nil
	}
	soon := min(unverifiedSoon, d.cfg.VerifyWithin)
	doubted, err := d.waitOrDoubt(ctx, soon, p.confirmed, doubts)
	if err == nil && !doubted && !p.verified() {
		d.cfg.Logger.Warn("the hub accepted the request, and has not asked the callback yet", "hub", hub, "url", d.callbackBase()+"…",
			"waited", soon.String(), "hint", unreachableHint(d.cfg.URL))
		doubted, err = d.waitOrDoubt(ctx, d.cfg.VerifyWithin-soon, p.confirmed, doubts)
	}
	if err == nil && doubted {
		err = d.wait(ctx, denialGrace, p.confirmed)
	}
	switch {
	case err != nil:
		return err
	case p.verified():
		return nil
	}
	return d.believe(hub)
}

// verified reports whether the hub has verified the request.
func (p *pending) verified() bool {
	select {
	case <-p.confirmed:
		return true
	default:
		return false
	}
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

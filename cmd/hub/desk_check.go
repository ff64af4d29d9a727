package main

import (
	"context"
	"net/url"

	"carillon/check"
	"carillon/cmd/internal/program"
)

// checkLimits bound what one check by the hub costs: it runs beside deliveries.
var checkLimits = check.Limits{Requests: 500, Bytes: 256 << 20, Unpacked: 1 << 30}

// check looks at what a Source serves. Requests leave by the hub's own guarded way out, so a
// Source cannot lead them to private addresses.
func (h *house) check(ctx context.Context, places []string, found func(check.Finding)) (check.Summary, error) {
	return check.Run(ctx, check.Config{
		Transport: h.transport,
		Allow:     func(u *url.URL) error { return h.dialer.CheckURL(u.String()) },
		UserAgent: "Carillon/" + program.Version + " (+" + h.url + ")",
		Limits:    checkLimits,
	}, places, found)
}

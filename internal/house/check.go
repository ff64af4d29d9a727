package house

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"carillon/check"
	"carillon/internal/release"
	"carillon/store/pebblestore"
)

// checkLimits bound what one check by the hub costs: it runs beside deliveries.
var checkLimits = check.Limits{
	Requests: 500, Bytes: 256 << 20, Memory: 8 << 20, Unpacked: 1 << 30,
	Time: 5 * time.Minute,
}

// check looks at what a Source serves. Requests leave by the hub's own guarded way out, so a
// Source cannot lead them to private addresses; nor to other hosts than those of the places, but
// for one request to each hub that a topic names.
func (h *House) check(ctx context.Context, places []string,
	found func(check.Finding),
) (check.Summary, error) {
	dir, err := h.checkDirectory()
	if err != nil {
		return check.Summary{}, fmt.Errorf("making a directory for packages: %w", err)
	}
	defer os.RemoveAll(dir)
	atServers := check.AtServers(places)
	guarded := func(u *url.URL) error { return h.outbound.dialer.CheckURL(u.String()) }
	return check.Run(ctx, check.Config{
		Transport: h.outbound.transport,
		Allow: func(u *url.URL) error {
			if err := atServers(u); err != nil {
				return fmt.Errorf("%w; check it by itself", err)
			}
			return guarded(u)
		},
		AllowHub:  guarded,
		UserAgent: "Carillon/" + release.Version + " (+" + h.cfg.URL + ")",
		Dir:       dir,
		Limits:    checkLimits,
	}, places, found)
}

// checkDirectory makes a directory for the packages of a check: in the store's directory, where
// the next start removes it after a crash. Redis has none, so there it is in the system's
// directory for temporary files.
func (h *House) checkDirectory() (string, error) {
	return os.MkdirTemp(h.store.Directory, "check.*"+pebblestore.ScratchSuffix)
}

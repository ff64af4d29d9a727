package lists

import (
	"context"
	"errors"
	"net/url"

	"carillon/internal/weblink"
)

// robots is where a site names its sitemaps (core §6.3.4).
const robots = "/robots.txt"

// byRobots finds sets by the sitemaps that a site's robots.txt names. Where it names none that
// can be read, the error is why the site itself has shown nothing.
func (d *discovery) byRobots(ctx context.Context, at *url.URL, why error) ([]Set, error) {
	at = at.ResolveReference(&url.URL{Path: robots})
	uris, err := d.sitemaps(ctx, at)
	for _, uri := range uris {
		if err == nil {
			err = d.skip(at, uri, func(at *url.URL) error { return d.explore(ctx, at) })
		}
	}
	switch {
	case err != nil && !final(err), errors.Is(err, ErrLoop):
		return nil, err
	case len(d.sets) == 0:
		return nil, why
	}
	return d.sets, nil
}

// sitemaps reads the Sitemap lines of a robots.txt.
func (r *reading) sitemaps(ctx context.Context, at *url.URL) (uris []string, err error) {
	a, err := r.get(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	defer a.close()
	found, err := weblink.Sitemaps(a.body)
	for _, s := range found {
		if s.URI != "" {
			uris = append(uris, s.URI)
		}
	}
	return uris, err
}

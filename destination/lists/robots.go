package lists

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
)

const (
	// robots is where a site names its sitemaps (core §6.3.4).
	robots = "/robots.txt"
	// maxRobots is how much of it is read, bytes.
	maxRobots = 500 << 10
	// maxSitemaps is how many sitemaps of it are looked at.
	maxSitemaps = 100
)

// byRobots finds sets by the sitemaps that a site's robots.txt names. Where it names none that
// can be read, the error is why the site itself has shown nothing.
func (d *discovery) byRobots(ctx context.Context, at *url.URL, why error) ([]Set, error) {
	at = at.ResolveReference(&url.URL{Path: robots})
	uris, err := d.sitemaps(ctx, at)
	for _, uri := range uris {
		if err == nil {
			err = d.skip(at, uri, func(at *url.URL) error { return d.look(ctx, at) })
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
	lines := bufio.NewScanner(io.LimitReader(a.body, maxRobots))
	for lines.Scan() && len(uris) < maxSitemaps {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "\ufeff"), ":")
		if value, _, _ = strings.Cut(value, " #"); strings.EqualFold(strings.TrimSpace(name),
			"sitemap") && strings.TrimSpace(value) != "" {
			uris = append(uris, strings.TrimSpace(value))
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) { // no line of a robots.txt is as long
		return nil, err
	}
	return uris, nil
}

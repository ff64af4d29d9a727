package check

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"carillon/payload"
)

const (
	// wellKnown is where a Source Description should be (core 6.3.2).
	wellKnown = "/.well-known/resourcesync"
	// robots is where a site names its sitemaps (core 6.3.4).
	robots = "/robots.txt"
	// maxRobots is how much of it is read, bytes.
	maxRobots = 500 << 10
	// maxSitemaps is how many sitemaps of it are looked at.
	maxSitemaps = 100
)

// site looks at a site: its Source Description, the links of its first page and its robots.txt
// (core 6.3). The error says that the site does not answer at all.
func (w *walk) site(ctx context.Context, u *url.URL) error {
	known := len(w.documents)
	at := u.ResolveReference(&url.URL{Path: wellKnown})
	l := lead{to: at, role: roleWellKnown, at: place{uri: at.String()}}
	d := w.arrive(ctx, &l)
	if d.err != nil || d.status/100 == 5 {
		return unread(d)
	}
	w.arrive(ctx, &lead{to: u, role: rolePage, at: place{uri: u.String()}})
	w.robots(ctx, u.ResolveReference(&url.URL{Path: robots}))
	w.run(ctx)
	if w.sum.Complete && !slices.ContainsFunc(w.documents[known:],
		func(d *document) bool { return d.is(payload.CapDescription) }) {
		w.undescribed = append(w.undescribed, u)
	}
	return nil
}

// judgeWellKnown: what is at the well-known address is a Source Description (core 6.3.2).
func (w *walk) judgeWellKnown(l *lead, d *document) {
	switch {
	case d.err != nil || d.status/100 == 5: // Run returns it
	case d.status != http.StatusOK:
		w.report(ruleWellKnown, l.at, nil, "serve the Source Description there, or redirect to it",
			"it is answered %d %s", d.status, http.StatusText(d.status))
	case d.known && !d.is(payload.CapDescription):
		w.report(ruleWellKnownIs, l.at, nil, "serve the Source Description there", "it is a %s",
			kindOf(d.head.Capability, d.isIndex()))
	}
}

// robots queues the sitemaps that a robots.txt names (core 6.3.4).
func (w *walk) robots(ctx context.Context, at *url.URL) {
	a, err := w.get(ctx, http.MethodGet, at, w.cfg.Limits.Answer)
	if err != nil {
		w.limited(err, place{uri: at.String()}, at)
		return
	}
	defer a.close()
	if a.status != http.StatusOK {
		return // nobody must have one
	}
	d := &document{uri: at.String(), base: a.uri}
	lines := bufio.NewScanner(io.LimitReader(a.body, maxRobots))
	for n, found := 1, 0; lines.Scan() && found < maxSitemaps; n++ {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "\ufeff"), ":")
		value, _, _ = strings.Cut(value, " #")
		if !strings.EqualFold(strings.TrimSpace(name), "sitemap") {
			continue
		}
		found++
		if l := w.lead(d, roleSitemap, value, place{d.uri, n, "Sitemap"}, &lead{}); l != nil {
			w.push(*l)
		}
	}
}

// judgeSitemap: what robots.txt names is a Resource List, or a sitemap of a site that has
// others too.
func (w *walk) judgeSitemap(l *lead, d *document) {
	if d.known && d.head.Capability != "" && !d.is(payload.CapResourceList) {
		w.report(ruleSitemap, l.at, nil, "name Resource Lists only", "%s is a %s", w.says(l),
			kindOf(d.head.Capability, d.isIndex()))
	}
}

// judgeLinked: a resource links to the Capability List that covers it (core 6.3.3).
func (w *walk) judgeLinked(l *lead, d *document) {
	switch {
	case !d.known:
	case !d.is(payload.CapCapabilityList):
		w.report(ruleLinkedIs, l.at, nil, "link to the Capability List", "%s is a %s", w.says(l),
			kindOf(d.head.Capability, d.isIndex()))
	case l.from.isTopic():
		if w.isUnlisted(d, l.from) {
			w.report(ruleChannelListed, d.place(""), d, "add a url for it, with capability=change-notification and its hub", "the topic %s, which links to it with rel=resourcesync, is not listed", quote(l.from.uri))
		}
	case l.from.known || l.from.led(rolePage):
		// A document leads to its own Capability List, the page of a site to one of the site.
	default:
		w.pages = append(w.pages, page{l.from, d})
	}
}

// page is a resource that links to a Capability List.
type page struct{ d, list *document }

// judgePages: the Capability List that a resource links to covers it (core 6.3.3).
func (w *walk) judgePages() {
	for _, p := range w.pages {
		s := w.setAt(p.list.set)
		if s == nil || s.broken || s.resources.read == 0 {
			continue
		}
		_, asked := s.resources.where[p.d.uri]
		_, redirected := s.resources.where[p.d.base.String()]
		if !asked && !redirected {
			w.about = func() []*document { return s.documents }
			w.report(ruleLinkedCovers, p.d.place("link[rel=resourcesync]"), nil,
				"link to the Capability List of the set that the resource is in",
				"the Resource List of %s does not have this resource", quote(p.list.uri))
		}
	}
}

// judgeDescriptions: a site has a Source Description (core 6.3.2).
func (w *walk) judgeDescriptions() {
	for _, u := range w.undescribed {
		w.report(ruleDescription, place{uri: u.String()}, nil,
			"publish a Source Description at "+wellKnown,
			"no Source Description was found: not at %s, nor by links of the page or by robots.txt",
			wellKnown)
	}
}

package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"carillon/internal/fetch"
	"carillon/internal/weblink"
	"carillon/payload"
)

// walkFrom reads all that follows from the places, and returns which of them could not be read.
func (w *walk) walkFrom(ctx context.Context, places []string) (failed []error) {
	for _, place := range places {
		if err := w.start(ctx, place); err != nil {
			w.sum.Complete = false
			failed = append(failed, err)
		}
	}
	return failed
}

// start looks at a place that the caller named, and at all that follows from it. The error says
// why the place could not be looked at.
func (w *walk) start(ctx context.Context, at string) error {
	if !isWebPlace(at) {
		if !w.cfg.Files {
			return fmt.Errorf("%s is not an absolute http or https address", quote(at))
		}
		return w.startFile(ctx, at)
	}
	u, err := url.Parse(at)
	if err != nil || !fetch.Web(u) {
		return fmt.Errorf("%s is not an absolute http or https address without a user name",
			quote(at))
	}
	u = plain(u)
	if u.Path == "/" {
		err = w.site(ctx, u)
	} else {
		err = w.startAt(ctx, u)
	}
	w.run(ctx)
	return err
}

// startAt looks at an address, whatever is there.
func (w *walk) startAt(ctx context.Context, u *url.URL) error {
	l := lead{to: u, role: roleStart}
	d := w.arrive(ctx, &l)
	switch {
	case d.isHub():
		return fmt.Errorf("%s: it is a hub; begin at a topic, or at what a Source serves", u)
	case d.status != http.StatusOK && !(d.status/100 == 2 && d.isTopic()):
		return unread(d)
	}
	return nil
}

// unread returns why a place could not be looked at, and what helps.
func unread(d *document) error {
	answered := fmt.Sprintf("%s: it is answered %d %s", d.uri, d.status, http.StatusText(d.status))
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](d.err)
	switch {
	case untrusted:
		return fmt.Errorf(
			"%s: %w; renew the server's certificate, or name its issuers with SSL_CERT_FILE", d.uri, d.err,
		)
	case d.err != nil:
		return fmt.Errorf("%s: %w", d.uri, d.err)
	case d.status/100 == 5:
		return errors.New(answered + "; see that the server runs, and check again")
	}
	return errors.New(
		answered + "; correct the address, or begin at the site, " + d.base.ResolveReference(&url.URL{Path: "/"}).String(),
	)
}

// startFile looks at a local file.
func (w *walk) startFile(ctx context.Context, name string) error {
	a, err := w.openFile(name)
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "://") {
		return fmt.Errorf("%s is no http or https address, and there is no such file", quote(name))
	}
	if err != nil {
		return err
	}
	defer a.close()
	d := &document{served: served{uri: name, local: true, status: http.StatusOK}}
	w.documents = append(w.documents, d)
	l := &lead{role: roleStart}
	w.read(ctx, d, a, l)
	w.expand(d, l)
	w.run(ctx)
	return nil
}

const (
	// wellKnown is where a Source Description should be (core 6.3.2).
	wellKnown = "/.well-known/resourcesync"
	// robots is where a site names its sitemaps (core 6.3.4).
	robots = "/robots.txt"
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

// robots queues the sitemaps that a robots.txt names (core 6.3.4).
func (w *walk) robots(ctx context.Context, at *url.URL) {
	a, err := w.get(ctx, http.MethodGet, at, w.cfg.Limits.Answer)
	if err != nil {
		w.limited(err, place{uri: at.String()}, at)
		return
	}
	defer a.close()
	if a.status != http.StatusOK {
		return // it is optional
	}
	d := &document{served: served{uri: at.String(), base: a.uri}}
	found, _ := weblink.Sitemaps(a.body)
	for _, s := range found {
		at := place{d.uri, s.Line, "Sitemap"}
		if l := w.lead(d, roleSitemap, s.URI, at, &lead{}); l != nil {
			w.push(*l)
		}
	}
}

package lists_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

const site = "https://source.example"

// page is what a server has at an address. Status is 200 if it is 0.
type page struct {
	status int
	header map[string]string
	body   string
	// reader is the body instead, if it is set.
	reader io.Reader
}

// network are servers that a Client meets without a network. An address that begins with / is at site.
type network struct {
	t     testing.TB
	pages map[string]page
	// onAsk is called with each address before it is answered.
	onAsk func(uri string)

	mu       sync.Mutex
	asked    []string // guarded by mu
	warnings []lists.Warning
	logs     bytes.Buffer
	dir      string
}

func newNetwork(t testing.TB, pages map[string]page) *network {
	w := &network{t: t, pages: map[string]page{}, dir: t.TempDir()}
	for uri, p := range pages {
		w.put(uri, p)
	}
	return w
}

func (w *network) put(uri string, p page) {
	if strings.HasPrefix(uri, "/") {
		uri = site + uri
	}
	w.pages[uri] = p
}

func (w *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	uri := r.URL.String()
	if w.onAsk != nil {
		w.onAsk(uri)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	short := strings.TrimPrefix(uri, site)
	p, ok := w.pages[uri]
	if !ok {
		p = page{status: http.StatusNotFound}
	}
	header := http.Header{}
	for name, value := range p.header {
		header.Set(name, value)
	}
	if tag := header.Get("ETag"); tag != "" && r.Header.Get("If-None-Match") == tag ||
		header.Get("Last-Modified") != "" && r.Header.Get("If-Modified-Since") == header.Get("Last-Modified") {
		p = page{status: http.StatusNotModified}
		short += " 304"
	}
	w.asked = append(w.asked, short)
	if p.reader == nil {
		p.reader = strings.NewReader(p.body)
	}
	if p.status == 0 {
		p.status = http.StatusOK
	}
	return &http.Response{StatusCode: p.status, Header: header, Body: body{r.Context(), p.reader}, Request: r}, nil
}

// body ends with the request's context, as those of connections do.
type body struct {
	ctx context.Context
	io.Reader
}

func (b body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

func (body) Close() error { return nil }

// asks returns the addresses that were asked for since the last call.
func (w *network) asks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

func (w *network) client(cfg lists.Config) *lists.Client {
	w.t.Helper()
	cfg.Transport = w
	cfg.Dir = w.dir
	if cfg.Warn == nil {
		cfg.Warn = func(x lists.Warning) { w.warnings = append(w.warnings, x) }
	}
	cfg.Logger = slog.New(slog.NewTextHandler(&w.logs, nil))
	c, err := lists.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// warned reports whether there was a warning of the clause with the words.
func (w *network) warned(clause, words string) bool {
	return slices.ContainsFunc(w.warnings, func(x lists.Warning) bool {
		return x.Clause == clause && strings.Contains(x.Message, words)
	})
}

const spaces = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"`

func urlset(inside ...string) string {
	return "<urlset " + spaces + ">" + strings.Join(inside, "") + "</urlset>"
}

func sitemapindex(inside ...string) string {
	return "<sitemapindex " + spaces + ">" + strings.Join(inside, "") + "</sitemapindex>"
}

const up = `<rs:ln rel="up" href="` + site + `/capabilitylist.xml"/>`

func md(attrs string) string { return "<rs:md " + attrs + "/>" }

func link(rel, href string) string { return fmt.Sprintf(`<rs:ln rel="%s" href="%s"/>`, rel, href) }

// changed is the head of a Change List, of the minutes of one hour; an empty until is left out.
func changed(from, until string) string {
	attrs := `capability="changelist"`
	if from != "" {
		attrs += ` from="` + clock(from) + `"`
	}
	if until != "" {
		attrs += ` until="` + clock(until) + `"`
	}
	return up + md(attrs)
}

// clock is a W3C Datetime of a day long ago, of its hour and minute.
func clock(hhmm string) string { return "2026-03-01T" + hhmm + ":00Z" }

func at(hhmm string) time.Time {
	if hhmm == "" {
		return time.Time{}
	}
	t, err := payload.ParseDatetime(clock(hhmm))
	if err != nil {
		panic(err)
	}
	return t
}

// change is an update of /NAME; without a clock it has no datetime.
func change(name, hhmm string) string {
	datetime := ""
	if hhmm != "" {
		datetime = ` datetime="` + clock(hhmm) + `"`
	}
	return "<url><loc>" + site + "/" + name + `</loc><rs:md change="updated"` + datetime + "/></url>"
}

func listed(loc, from, until string) string {
	attrs := ""
	if from != "" {
		attrs += ` from="` + clock(from) + `"`
	}
	if until != "" {
		attrs += ` until="` + clock(until) + `"`
	}
	return "<sitemap><loc>" + loc + "</loc><rs:md" + attrs + "/></sitemap>"
}

// visits reads changes and returns the names of what was visited.
func visits(t testing.TB, c *lists.Client, uri, since string) (string, lists.Covered, error) {
	t.Helper()
	var names []string
	covered, err := c.Changes(t.Context(), uri, at(since), func(e payload.Entry) error {
		names = append(names, strings.TrimPrefix(e.Loc, site+"/"))
		return nil
	})
	if covered.Entries != len(names) {
		t.Errorf("%d entries are counted, %d were visited", covered.Entries, len(names))
	}
	return strings.Join(names, " "), covered, err
}

func packed(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

package lists_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// FuzzSource serves anything: readings end within their bounds, ask no other host, hand on nothing
// without a loc, and never claim that a page is unchanged without reason.
func FuzzSource(f *testing.F) {
	for _, seed := range []string{
		urlset(changed("10:00", "11:00"), link("index", "/2"), change("a", "10:10"), change("b", "")),
		sitemapindex(changed("10:00", ""), listed("/2", "10:00", "11:00"), listed("/3", "11:00", "")),
		urlset(taken("10:00", ""), resource("a")), lists1("a").body, description("/2").body,
		`<html><head><link rel="resourcesync" href="/2"></head>`, packed(f, urlset(changed("10:00", ""))),
	} {
		f.Add(seed, urlset(changed("11:00", ""), change("c", "11:10")), "Link: </2>; rel=resourcesync")
	}
	f.Add(urlset(dumped("10:00"), packageAt("1.zip", "10:00")), urlset(archiveOf("resourcelist"), packageAt("2", "10:00")), "")
	f.Add(sitemapindex(bundled("10:00", ""), listed("/2", "", "")), urlset(bundled("10:00", ""), packageOf("1.zip", "10:00", "10:10")), "")
	f.Add(urlset(changed("11:00", ""), link("archives", "/2")), urlset(archiveOf("changelist"), packageOf("1", "10:00", "11:00")), "")
	f.Add(urlset(changed("10:00", "11:00")), sitemapindex(changed("10:00", ""), listed("/2", "", "")), "Location: /2")
	f.Add(urlset(resource("a")), "Sitemap: /1\nsitemap: /1#\nSitemap: https://elsewhere.example/\n", "") // as robots.txt, too
	f.Fuzz(func(t *testing.T, first, other, header string) {
		asked := 0
		c, err := lists.New(lists.Config{
			Limits: lists.Limits{Bytes: 1 << 16, Entries: 100, Parts: 20, Documents: 20, Sets: 5},
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				asked++
				if r.URL.Host != "source.example" || r.URL.Scheme != "https" {
					t.Errorf("%s is asked", r.URL)
				}
				resp := &http.Response{StatusCode: 200, Header: http.Header{}, Request: r}
				if name, value, ok := strings.Cut(header, ": "); ok && name != "" && r.URL.Path == "/1" {
					resp.Header.Set(name, value)
					if name == "Location" {
						resp.StatusCode = http.StatusFound
					}
				}
				doc := other
				if r.URL.Path == "/1" {
					doc = first
				}
				resp.Body = io.NopCloser(strings.NewReader(doc))
				return resp, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		visit := func(e payload.Entry) error {
			if e.Loc == "" {
				t.Error("an entry without a loc")
			}
			return nil
		}
		check := func() {
			if asked > 20 {
				t.Errorf("%d documents", asked)
			}
			asked = 0
		}
		for _, since := range []time.Time{{}, at("10:05"), at("11:05")} {
			covered, err := c.Changes(t.Context(), site+"/1", since, visit)
			if err == nil && covered.Until.Before(since) {
				t.Errorf("since %v: %+v", since, covered)
			}
			check()
		}
		_, _ = c.Resources(t.Context(), site+"/1", visit)
		check()
		readDumps(t, c, check)
		for _, start := range []string{site + "/1", site} {
			sets, err := c.Discover(t.Context(), start)
			if err == nil && (len(sets) == 0 || len(sets) > 5) {
				t.Errorf("%d sets", len(sets))
			}
			check()
		}
	})
}

// readDumps reads what the Source serves as dumps and as archives.
func readDumps(t *testing.T, c *lists.Client, check func()) {
	t.Helper()
	home := func(uri string) {
		if u, err := url.Parse(uri); err != nil || u.Host != "source.example" {
			t.Errorf("%q is handed on", uri)
		}
	}
	visit := func(p lists.Package) error {
		home(p.URI)
		if p.Manifest != "" {
			home(p.Manifest)
		}
		if p.Length < -1 {
			t.Errorf("a length of %d", p.Length)
		}
		return nil
	}
	_, _ = c.ResourceDump(t.Context(), site+"/1", visit)
	check()
	since := at("10:05")
	covered, err := c.ChangeDump(t.Context(), site+"/1", since, func(p lists.Package) error {
		if !p.Until.IsZero() && !p.Until.After(since) {
			t.Errorf("a package that ends at %v", p.Until)
		}
		return visit(p)
	})
	if err == nil && covered.Until.Before(since) {
		t.Errorf("covered %+v", covered)
	}
	check()
	for _, capability := range []string{payload.CapResourceListArchive, payload.CapChangeDumpArchive} {
		_ = c.Archive(t.Context(), site+"/1", capability, func(a lists.Archived) error { home(a.URI); return nil })
		check()
	}
	set := lists.Set{ResourceList: site + "/1", ChangeDump: site + "/1"}
	if set, err := c.WithArchives(t.Context(), set); err == nil && set.ResourceListArchive != "" {
		home(set.ResourceListArchive)
	}
	check()
}

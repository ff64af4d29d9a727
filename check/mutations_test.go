package check_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"carillon/check"
)

// mutation breaks one rule of a good site.
type mutation struct {
	name   string
	change func(*site)
	// want is the finding: level, clause and document. Further ones are what follows from the
	// same fault.
	want []string
}

// gone answers 404 at an address.
func gone(name string) func(*site) { return func(s *site) { s.status[name] = http.StatusNotFound } }

// edited replaces texts in a file: old, new, old, new …
func edited(name string, pairs ...string) func(*site) {
	return func(s *site) {
		for i := 0; i < len(pairs); i += 2 {
			s.edit(name, pairs[i], pairs[i+1])
		}
	}
}

// both makes several changes.
func both(changes ...func(*site)) func(*site) {
	return func(s *site) {
		for _, change := range changes {
			change(s)
		}
	}
}

func headed(name, key, value string) func(*site) {
	return func(s *site) { s.header(name, key, value) }
}

// second adds a Capability List with an entry.
func second(entry string) func(*site) {
	return func(s *site) {
		s.files["b/capabilitylist.xml"] = regexpURLs.ReplaceAllString(s.files["a/capabilitylist.xml"], "")
		s.edit("b/capabilitylist.xml", "</urlset>", entry+"</urlset>")
		s.edit(".well-known/resourcesync", "</urlset>", `<url><loc>{base}/b/capabilitylist.xml</loc><rs:md capability="capabilitylist"/>
			<rs:ln rel="describedby" href="{base}/about"/></url></urlset>`)
	}
}

const (
	created = `<url><loc>{base}/r/5.txt</loc><rs:md change="created" datetime="2026-01-04T00:00:00Z"/></url></urlset>`

	up       = `<rs:ln rel="up" href="{base}/a/capabilitylist.xml"/>`
	upToSelf = `<rs:ln rel="up" href="{base}/a/changelist.xml"/>`
)

// mutations break one must or should each, by what takes two documents, or a document and how it is served.
// What one document shows by itself is in package payload.
var mutations = []mutation{
	// Discovery (core 6.3).
	{"no well-known address", gone(".well-known/resourcesync"), []string{
		"warning core 6.3.2 /.well-known/resourcesync", "error core 9 /a/capabilitylist.xml", "error core 6.3.2 /",
	}},
	{"another document at the well-known address", func(s *site) {
		s.files[".well-known/resourcesync"] = s.files["a/resourcelist-2.xml"] + "<!-- not a copy -->"
	}, []string{
		"error core 6.3.2 /.well-known/resourcesync", "error core 9 /a/capabilitylist.xml", "error core 6.3.2 /",
		"error core 10.2 /a/resourcelist.xml",
	}},
	{"a Sitemap line to nothing", edited("robots.txt", "/a/resourcelist.xml", "/nothing.xml"), []string{"warning core 6.3.4 /robots.txt"}},
	{"a Sitemap line to a Change List", edited("robots.txt", "/a/resourcelist.xml", "/a/changelist-1.xml"), []string{"error core 6.3.4 /robots.txt"}},
	{"a page that links to nothing", edited("index.html", "/a/capabilitylist.xml", "/nothing.xml"), []string{"error core 6.3.3 /"}},
	{"a page that links to a Resource List", edited("index.html", "/a/capabilitylist.xml", "/a/resourcelist.xml"), []string{"error core 6.3.3 /"}},

	// Source Description (core 8).
	{"a Capability List that is not there", func(s *site) {
		s.edit(
			".well-known/resourcesync", "</urlset>",
			"  <url><loc>{base}/b/capabilitylist.xml</loc><rs:md capability=\"capabilitylist\"/></url>\n</urlset>",
		)
	}, []string{"error core 8 /.well-known/resourcesync", "warning core 8 /.well-known/resourcesync"}},
	{"a Source Description that lists a Resource List", func(s *site) {
		s.edit(
			".well-known/resourcesync", "</urlset>",
			"  <url><loc>{base}/a/resourcelist.xml</loc><rs:md capability=\"capabilitylist\"/></url>\n</urlset>",
		)
	}, []string{"error core 8 /.well-known/resourcesync", "warning core 8 /.well-known/resourcesync"}},
	{"an old lastmod in the Source Description", both(
		edited(".well-known/resourcesync", "capabilitylist.xml</loc>", "capabilitylist.xml</loc><lastmod>2026-01-01T00:00:00Z</lastmod>"),
		headed("a/capabilitylist.xml", "Last-Modified", resourcesModified),
	), []string{"warning core 8 /.well-known/resourcesync"}},
	{"a Source Description with rel=up", edited(
		".well-known/resourcesync", "<rs:md capability=\"description\"/>", up+`<rs:md capability="description"/>`,
	), []string{
		"error core 8 /.well-known/resourcesync",
	}},
	{"a Source Description that does not list a Capability List", func(s *site) {
		s.files["b/capabilitylist.xml"] = strings.ReplaceAll(s.files["a/capabilitylist.xml"], "{base}/a/", "{base}/none/")
		s.files["b/capabilitylist.xml"] = regexpURLs.ReplaceAllString(s.files["b/capabilitylist.xml"], "")
		s.edit("index.html", "</head>", `<link rel="resourcesync" href="/b/capabilitylist.xml"></head>`)
	}, []string{"warning core 8 /.well-known/resourcesync"}},

	// Capability List (core 9).
	{"a Resource List that is not there", gone("a/resourcelist.xml"), []string{
		"error core 9 /a/capabilitylist.xml", "warning core 6.3.4 /robots.txt",
	}},
	{"an entry with another capability", edited(
		"a/capabilitylist.xml", `<rs:md capability="changedump"/>`, `<rs:md capability="resourcelist-x"/>`,
	), []string{
		"error core 9 /a/capabilitylist.xml", "note core 9 /a/capabilitylist.xml",
	}},
	{"an old lastmod in the Capability List", both(
		edited("a/capabilitylist.xml", "/a/changelist.xml</loc>", "/a/changelist.xml</loc><lastmod>2026-01-01T00:00:00Z</lastmod>"),
		headed("a/changelist.xml", "Last-Modified", resourcesModified),
	), []string{"warning core 9 /a/capabilitylist.xml"}},
	{"up to another Capability List", both(
		edited("a/changedump.xml", up, `<rs:ln rel="up" href="{base}/b/capabilitylist.xml"/>`),
		func(s *site) {
			s.files["b/capabilitylist.xml"] = regexpURLs.ReplaceAllString(s.files["a/capabilitylist.xml"], "")
			s.edit("b/capabilitylist.xml", "</urlset>", "<url><loc>{base}/a/changedump.xml</loc><rs:md capability=\"changedump\"/></url></urlset>")
			s.edit(
				".well-known/resourcesync", "</urlset>",
				"<url><loc>{base}/b/capabilitylist.xml</loc><rs:md capability=\"capabilitylist\"/></url></urlset>",
			)
		},
	), []string{"error core 6.2 /a/changedump.xml", "error core 13.2 /a/cd-1.zip!/manifest.xml", "warning core 8 /.well-known/resourcesync"}},
	{"a document that its Capability List does not list", edited("a/capabilitylist.xml",
		"  <url>\n    <loc>{base}/a/resourcelist.xml</loc>\n    <rs:md capability=\"resourcelist\"/>\n  </url>\n", ""), []string{"warning core 9 /a/capabilitylist.xml"}},
	{"a Capability List that links up to nothing", edited("a/capabilitylist.xml", "/.well-known/resourcesync", "/nothing.xml"), []string{
		"error core 9 /a/capabilitylist.xml",
	}},
	{"a Capability List that links up to a list", edited("a/capabilitylist.xml", "/.well-known/resourcesync", "/a/changelist.xml"), []string{
		"error core 9 /a/capabilitylist.xml",
	}},
	{"a resource that is not in the Resource Dump", both(
		edited("a/rd-2-manifest.xml", "/r/3.txt</loc>", "/r/3-other.txt</loc>"),
	), []string{"error core 9 /a/resourcelist-2.xml", "error core 9 /a/rd-2.zip!/manifest.xml"}},
	{"a resource in two parts of an index", func(s *site) {
		first := s.files["a/resourcelist-1.xml"]
		start, end := strings.Index(first, "  <url>"), strings.Index(first, "</url>\n")
		s.edit("a/resourcelist-2.xml", "</urlset>", first[start:end]+"</url>\n</urlset>")
	}, []string{"warning core 10.1 /a/resourcelist-2.xml"}},
	{"a change that is not in the Change List", edited("a/change/index", "/r/4.txt", "/r/5.txt"), []string{"error core 9 /a/change/"}},
	{"a change that is not in the Change Dump", edited("a/cd-1-manifest.xml",
		"  <url>\n    <loc>{base}/r/gone.txt</loc>\n    <rs:md change=\"deleted\" datetime=\"2026-01-03T00:00:00Z\"/>\n  </url>\n", "",
	), []string{"error core 13.2 /a/changelist-1.xml"}},
	{"a deleted resource in the Resource List", edited(
		"a/resourcelist-2.xml", "</urlset>", "<url><loc>{base}/r/gone.txt</loc></url></urlset>",
	), []string{
		"error core 7 /a/resourcelist-2.xml",
	}},
	{"a deleted resource in the Resource Dump", edited("a/rd-2-manifest.xml", "</urlset>",
		`<url><loc>{base}/r/gone.txt</loc><rs:md type="text/plain" path="/3.txt"/></url></urlset>`,
	), []string{"error core 7 /a/rd-2.zip!/manifest.xml"}},
	{"a created resource that the Resource List does not have", both(
		edited("a/changelist-1.xml", "</urlset>", created),
		edited("a/cd-1-manifest.xml", "</urlset>", strings.Replace(created, "/>", ` type="text/plain" path="/changes/1.txt"/>`, 1)),
	), []string{"error core 7 /a/changelist-1.xml"}},
	{"a document of two Capability Lists", both(
		second("<url><loc>{base}/a/changedump.xml</loc><rs:md capability=\"changedump\"/></url>"),
	), []string{"error core 6.2 /a/changedump.xml"}},
	{"a channel of two Capability Lists", both(
		second(`<url><loc>{base}/a/change/</loc><rs:md capability="change-notification"/><rs:ln rel="hub" href="{base}/hub"/></url>`),
	), []string{"error CN 2 /b/capabilitylist.xml"}},
	{"an interval that ends in the future", edited(
		"a/change/index", `until="2026-01-06T01:00:00Z"`, `until="2999-01-01T00:00:00Z"`,
	), []string{"error core 7 /a/change/"}},
	{"a change in the future", edited(
		"a/changelist-2.xml", `datetime="2026-01-06T00:30:00Z"`, `datetime="2999-01-01T00:00:00Z"`,
	), []string{"error core 7 /a/changelist-2.xml"}},
	{"a change of a dump that is not in the Change List", both(
		edited("a/cd-1-manifest.xml", "/r/gone.txt", "/r/away.txt"),
	), []string{"error core 9 /a/cd-1-manifest.xml", "error core 13.2 /a/changelist-1.xml"}},

	// Upwards and to indexes (core 6.2).
	{"a Resource List that links up to nothing", edited(
		"a/resourcelist-1.xml", "/a/capabilitylist.xml", "/nothing.xml",
	), []string{"error core 10.1 /a/resourcelist-1.xml"}},
	{"a Resource List Index that links up to a list", edited("a/resourcelist.xml", up, upToSelf), []string{
		"error core 10.2 /a/resourcelist.xml", "error core 6.2 /a/resourcelist.xml",
	}},
	{"a Change List that links up to a list", edited("a/changelist-1.xml", up, upToSelf), []string{"error core 12.1 /a/changelist-1.xml"}},
	{
		"a Change List Index that links up to nothing",
		edited("a/changelist.xml", "/a/capabilitylist.xml", "/nothing.xml"),
		[]string{"error core 12.2 /a/changelist.xml", "error core 6.2 /a/changelist.xml"},
	},
	{"a Resource Dump that links up to nothing", edited("a/resourcedump.xml", "/a/capabilitylist.xml", "/nothing.xml"), []string{
		"error core 11.1 /a/resourcedump.xml", "error core 6.2 /a/resourcedump.xml", "error core 11.2 /a/rd-1.zip!/manifest.xml", "error core 11.2 /a/rd-2.zip!/manifest.xml",
	}},
	{"a Change Dump that links up to a list", edited("a/changedump.xml", up, upToSelf), []string{
		"error core 13.1 /a/changedump.xml", "error core 6.2 /a/changedump.xml", "error core 13.2 /a/cd-1.zip!/manifest.xml",
	}},
	{"a Resource Dump Manifest that links up to nothing", edited(
		"a/rd-2-manifest.xml", "/a/capabilitylist.xml", "/nothing.xml",
	), []string{"error core 11.2 /a/rd-2.zip!/manifest.xml"}},
	{"a Change Dump Manifest that links up to nothing", edited("a/cd-1-manifest.xml", "/a/capabilitylist.xml", "/nothing.xml"), []string{
		"error core 13.2 /a/cd-1.zip!/manifest.xml", "error core 13.2 /a/cd-1-manifest.xml",
	}},
	{"an archive that links up to nothing", edited("a/resourcelist-archive.xml", "/a/capabilitylist.xml", "/nothing.xml"), []string{
		"error archives 3 /a/resourcelist-archive.xml", "error core 6.2 /a/resourcelist-archive.xml",
	}},
	{"rel=index to nothing", edited(
		"a/resourcelist-1.xml", "/a/resourcelist.xml", "/nothing.xml",
	), []string{"error core 10.1 /a/resourcelist-1.xml"}},
	{"rel=index to a list", edited(
		"a/resourcelist-1.xml", "/a/resourcelist.xml", "/a/resourcelist-2.xml",
	), []string{"error core 10.1 /a/resourcelist-1.xml"}},
	{"rel=index to an index of another capability", edited(
		"a/resourcelist-1.xml", "/a/resourcelist.xml", "/a/changelist.xml",
	), []string{"error core 7 /a/resourcelist-1.xml"}},
	{"no rel=index", edited(
		"a/changelist-1.xml", `  <rs:ln rel="index" href="{base}/a/changelist.xml"/>`+"\n", "",
	), []string{"warning core 12.1 /a/changelist-1.xml"}},

	// Indexes (core 10.2, 12.2).
	{"a part that is not there", gone("a/resourcelist-2.xml"), []string{"error core 10.2 /a/resourcelist.xml"}},
	{"a Change List of an index that is not there", gone("a/changelist-1.xml"), []string{"error core 12.2 /a/changelist.xml"}},
	{"a part that is an index", func(s *site) {
		s.edit("a/resourcelist-2.xml", "<urlset", "<sitemapindex")
		s.edit("a/resourcelist-2.xml", "</urlset", "</sitemapindex")
		s.files["a/resourcelist-2.xml"] = regexpURLs.ReplaceAllString(s.files["a/resourcelist-2.xml"], "")
	}, []string{"error core 10.2 /a/resourcelist.xml", "note core 7 /a/resourcelist-2.xml"}},
	{"a part of another capability", edited("a/resourcelist-2.xml", `capability="resourcelist"`, `capability="resourcedump"`), []string{
		"error core 7 /a/resourcelist.xml", "error core 7 /a/resourcelist-2.xml", "warning core 11.1 /a/resourcelist-2.xml",
	}},
	{"an index that does not list a part", edited(
		"a/resourcelist.xml", "/a/resourcelist-1.xml", "/a/resourcelist-3.xml",
	), []string{"error core 10.2 /a/resourcelist.xml"}},
	{"an index with another at for its part", edited(
		"a/resourcelist.xml", `<rs:md at="2026-01-05T00:05:00Z"`, `<rs:md at="2026-01-05T00:06:00Z"`,
	), []string{"error core 10.2 /a/resourcelist.xml"}},
	{
		"an index whose snapshot begins after its part's",
		edited("a/resourcelist.xml", `capability="resourcelist" at="2026-01-05T00:00:00Z"`, `capability="resourcelist" at="2026-01-05T00:02:00Z"`),
		[]string{"error core 10.2 /a/resourcelist.xml"},
	},
	{
		"an index whose snapshot ends before its part's",
		edited(
			"a/resourcelist.xml",
			`capability="resourcelist" at="2026-01-05T00:00:00Z" completed="2026-01-05T00:10:00Z"`,
			`capability="resourcelist" at="2026-01-05T00:00:00Z" completed="2026-01-05T00:09:00Z"`,
		),
		[]string{"error core 10.2 /a/resourcelist.xml"},
	},
	{"an index with an old lastmod", headed(
		"a/resourcelist-1.xml", "Last-Modified", resourcesModified,
	), []string{"warning core 10.2 /a/resourcelist.xml"}},
	{
		"an index with another from for its part",
		edited("a/changelist.xml", `<rs:md from="2026-01-06T00:00:00Z"/>`, `<rs:md from="2026-01-06T00:00:01Z"/>`),
		[]string{"error core 12.2 /a/changelist.xml", "warning core 12.2 /a/changelist.xml"},
	},
	{
		"an index without until for a closed part",
		edited("a/changelist.xml", ` until="2026-01-06T00:00:00Z"/>`, `/>`),
		[]string{"error core 12.2 /a/changelist.xml", "note core 12.2 /a/changelist.xml"},
	},
	{
		"an index with until for an open part",
		edited("a/changelist.xml", `<rs:md from="2026-01-06T00:00:00Z"/>`, `<rs:md from="2026-01-06T00:00:00Z" until="2026-01-07T00:00:00Z"/>`),
		[]string{"error core 12.2 /a/changelist.xml"},
	},
	{
		"an index that begins before its parts",
		edited("a/changelist.xml", `capability="changelist" from="2026-01-02T00:00:00Z"`, `capability="changelist" from="2026-01-01T00:00:00Z"`),
		[]string{"error core 12.2 /a/changelist.xml"},
	},
	{
		"an index that ends after its open part",
		edited(
			"a/changelist.xml", `capability="changelist" from="2026-01-02T00:00:00Z"`,
			`capability="changelist" from="2026-01-02T00:00:00Z" until="2026-02-01T00:00:00Z"`,
		),
		[]string{"error core 12.2 /a/changelist.xml"},
	},
	{"parts in the wrong order", func(s *site) {
		s.edit("a/changelist.xml", `    <rs:md from="2026-01-02T00:00:00Z" until="2026-01-06T00:00:00Z"/>`+"\n", "")
		s.edit("a/changelist.xml", `    <rs:md from="2026-01-06T00:00:00Z"/>`+"\n", "")
		s.edit("a/changelist.xml", "/a/changelist-1.xml", "/a/changelist-x.xml")
		s.edit("a/changelist.xml", "/a/changelist-2.xml", "/a/changelist-1.xml")
		s.edit("a/changelist.xml", "/a/changelist-x.xml", "/a/changelist-2.xml")
	}, []string{"error core 12.2 /a/changelist.xml", "warning core 12.2 /a/changelist.xml"}},
	{"a gap between parts", func(s *site) {
		s.edit("a/changelist.xml", `    <rs:md from="2026-01-06T00:00:00Z"/>`+"\n", "")
		s.edit("a/changelist-2.xml", `from="2026-01-06T00:00:00Z"`, `from="2026-01-06T00:10:00Z"`)
	}, []string{"warning core 12.2 /a/changelist.xml"}},
	{"parts that overlap", func(s *site) {
		s.edit("a/changelist.xml", `    <rs:md from="2026-01-06T00:00:00Z"/>`+"\n", "")
		s.edit("a/changelist-2.xml", `from="2026-01-06T00:00:00Z"`, `from="2026-01-05T23:00:00Z"`)
	}, []string{"note core 12.2 /a/changelist.xml", "warning core 12.2 /a/changelist.xml"}},
	{"an open part that is not the last", func(s *site) {
		s.edit("a/changelist.xml", `    <rs:md from="2026-01-02T00:00:00Z" until="2026-01-06T00:00:00Z"/>`+"\n", "")
		s.edit("a/changelist.xml", `    <rs:md from="2026-01-06T00:00:00Z"/>`+"\n", "")
		s.edit("a/changelist-1.xml", ` until="2026-01-06T00:00:00Z"`, "")
	}, []string{"note core 12.2 /a/changelist.xml", "warning core 12.2 /a/changelist.xml"}},
	{"a closed list that changes", func(s *site) {
		looks := 0
		s.before = func(r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/changelist-1.xml") {
				looks++
				s.header("a/changelist-1.xml", "ETag", fmt.Sprintf(`"%d"`, looks))
				s.files["a/changelist-1.xml"] += "\n"
			}
		}
	}, []string{"error core 12.1 /a/changelist-1.xml"}},

	// How documents are served (core 6.1, 7).
	{"a document that is no XML", func(s *site) { s.files["a/changelist-1.xml"] = "changes\n" }, []string{"error core 6.1 /a/changelist-1.xml"}},
	{"a document that breaks off", func(s *site) {
		s.files["a/changelist-2.xml"] = s.files["a/changelist-2.xml"][:600]
	}, []string{"error core 6.1 /a/changelist-2.xml"}},
	{
		"a document of another namespace",
		edited("a/changelist-1.xml", "http://www.sitemaps.org/schemas/sitemap/0.9", "http://www.google.com/schemas/sitemap/0.84"),
		[]string{"error core 6.1 /a/changelist-1.xml"},
	},
	{"a document served as HTML", headed("a/changelist-1.xml", "Content-Type", "text/html"), []string{"warning core 6.1 /a/changelist-1.xml"}},
	{"a document with more entries than there may be", func(s *site) {
		entry := "<url><loc>{base}/r/9.txt</loc></url>"
		s.edit("a/resourcelist-2.xml", "</urlset>", strings.Repeat(entry, 50_000)+"</urlset>")
	}, []string{"error core 7 /a/resourcelist-2.xml", "warning core 10.1 /a/resourcelist-2.xml"}},

	// Packages (core 11, 13).
	{"a package that is not there", gone("a/rd-2.zip"), []string{"error core 11.1 /a/resourcedump.xml"}},
	{"a package of a Change Dump that is not there", gone("a/cd-1.zip"), []string{"error core 13.1 /a/changedump.xml"}},
	{"a package with another length", edited(
		"a/resourcedump.xml", `length="{length a/rd-2.zip}"`, `length="17"`,
	), []string{"error core 11.1 /a/resourcedump.xml"}},
	{"a package with another lastmod", both(
		edited("a/resourcedump.xml", "/a/rd-2.zip</loc>", "/a/rd-2.zip</loc><lastmod>2026-01-05T00:00:00Z</lastmod>"),
		headed("a/rd-2.zip", "Last-Modified", resourcesModified),
	), []string{"warning core 11.1 /a/resourcedump.xml"}},
	{"a package with another hash", edited(
		"a/resourcedump.xml", `sha-256:{sha256 a/rd-2.zip}`, `md5:00000000000000000000000000000000`,
	), []string{"error core 11.1 /a/resourcedump.xml"}},
	{"a package served with another type", headed("a/cd-1.zip", "Content-Type", "text/plain"), []string{"warning core 13.1 /a/changedump.xml"}},
	{"a package of another format", func(s *site) { s.files["a/rd-2.zip"] = "tar" }, []string{"warning core 11.1 /a/resourcedump.xml"}},
	{"a package that is cut off", func(s *site) {
		s.fillIn()
		s.files["a/rd-2.zip"] = s.pack(s.packs["a/rd-2.zip"])[:100]
	}, []string{"error core 11.2 /a/rd-2.zip"}},
	{"a package with a path that leads out of it", func(s *site) {
		s.packs["a/rd-2.zip"] = append(s.packs["a/rd-2.zip"], packed{"../evil.txt", "r/3.txt"})
	}, []string{"error core 11.2 /a/rd-2.zip"}},
	{"a package with a name twice", func(s *site) {
		s.packs["a/cd-1.zip"] = append(s.packs["a/cd-1.zip"], packed{"changes/1.txt", "r/3.txt"})
	}, []string{"error core 13.2 /a/cd-1.zip"}},
	{"no manifest.xml", func(s *site) { s.packs["a/rd-2.zip"][0].name = "manifest.txt" }, []string{"error core 11.2 /a/rd-2.zip"}},
	{"manifest.xml in a folder", func(s *site) { s.packs["a/cd-1.zip"][0].name = "meta/manifest.xml" }, []string{"error core 13.2 /a/cd-1.zip"}},
	{"a manifest that is no XML", func(s *site) { s.files["a/rd-2-manifest.xml"] = "3.txt\n" }, []string{"error core 6.1 /a/rd-2.zip!/manifest.xml"}},
	{"a manifest of another capability", edited("a/rd-2-manifest.xml", "resourcedump-manifest", "changedump-manifest"), []string{
		"error core 11.2 /a/rd-2.zip!/manifest.xml",
		"error core 13.2 /a/rd-2.zip!/manifest.xml", "error core 7 /a/rd-2.zip!/manifest.xml", "note core 13.2 /a/rd-2.zip!/manifest.xml",
	}},
	{"a package with another at than its manifest", edited(
		"a/rd-2-manifest.xml", `at="2026-01-05T00:00:00Z"`, `at="2026-01-05T00:01:00Z"`,
	), []string{"error core 11.1 /a/resourcedump.xml"}},
	{"a package with another until than its manifest", edited("a/changedump.xml", `<rs:md type="application/zip" length="{length a/cd-1.zip}" hash="sha-256:{sha256 a/cd-1.zip}" from="2026-01-02T00:00:00Z" until="2026-01-06T00:00:00Z"`,
		`<rs:md type="application/zip" length="{length a/cd-1.zip}" hash="sha-256:{sha256 a/cd-1.zip}" from="2026-01-02T00:00:00Z" until="2026-01-05T00:00:00Z"`), []string{"error core 13.1 /a/changedump.xml"}},
	{"a path that is not in the package", edited(
		"a/rd-2-manifest.xml", `path="/3.txt"`, `path="/33.txt"`,
	), []string{"error core 11.2 /a/rd-2.zip!/manifest.xml"}},
	{"a path of a change that is not in the package", func(s *site) { s.packs["a/cd-1.zip"][1].name = "1.txt" }, []string{
		"error core 13.2 /a/cd-1.zip!/manifest.xml",
	}},
	{"a bitstream that the manifest does not list", func(s *site) {
		s.packs["a/rd-2.zip"] = append(s.packs["a/rd-2.zip"], packed{"4.txt", "r/4.txt"})
	}, []string{"error core 11.2 /a/rd-2.zip!/manifest.xml"}},
	{"a bitstream of another length", edited(
		"a/rd-2-manifest.xml", `length="{length r/3.txt}"`, `length="3"`,
	), []string{"error core 11.2 /a/rd-2.zip!/manifest.xml"}},
	{"a bitstream with another hash", func(s *site) {
		s.packs["a/cd-1.zip"][1].file = "r/copy-of-2.txt"
	}, []string{"error core 13.2 /a/cd-1.zip!/manifest.xml"}},
	{"a copy of a manifest that is not there", gone("a/rd-1-manifest.xml"), []string{"error core 11.1 /a/resourcedump.xml"}},
	{"a copy of a manifest that is another", edited(
		"a/changedump.xml", "/a/cd-1-manifest.xml", "/a/cd-2-manifest.xml",
	), []string{"error core 13.1 /a/changedump.xml"}},
	{"a copy of a manifest that says something else", func(s *site) {
		s.files["a/rd-1-copy.xml"] = strings.Replace(s.files["a/rd-1-manifest.xml"], "</urlset>", "<!-- a copy --></urlset>", 1)
		s.edit("a/resourcedump.xml", "/a/rd-1-manifest.xml", "/a/rd-1-copy.xml")
	}, []string{"error core 11.1 /a/resourcedump.xml"}},
	{
		"rel=contents with another type",
		edited("a/resourcedump.xml", `/a/rd-1-manifest.xml" type="application/xml"`, `/a/rd-1-manifest.xml" type="text/plain"`),
		[]string{"warning core 7 /a/resourcedump.xml"},
	},
	{"rel=contents with another length", edited(
		"a/resourcedump.xml", `/a/rd-1-manifest.xml" type`, `/a/rd-1-manifest.xml" length="17" type`,
	), []string{"warning core 7 /a/resourcedump.xml"}},
	{
		"rel=contents with another hash",
		edited("a/resourcedump.xml", `/a/rd-1-manifest.xml" type`, `/a/rd-1-manifest.xml" hash="sha-256:`+strings.Repeat("0", 64)+`" type`),
		[]string{"warning core 7 /a/resourcedump.xml"},
	},
	{
		"rel=contents with its length and hash",
		edited(
			"a/resourcedump.xml", `/a/rd-1-manifest.xml" type`,
			`/a/rd-1-manifest.xml" length="{length a/rd-1-manifest.xml}" hash="sha-256:{sha256 a/rd-1-manifest.xml}" type`,
		),
		nil,
	},
	{"rel=contents that is no manifest", edited(
		"a/resourcedump.xml", "/a/rd-1-manifest.xml", "/a/resourcelist-1.xml",
	), []string{"error core 11.1 /a/resourcedump.xml"}},

	{"packages in the wrong order", func(s *site) {
		second := s.files["a/changedump.xml"]
		second = second[strings.Index(second, "  <url>"):strings.Index(second, "</urlset>")]
		second = strings.ReplaceAll(second, "cd-1", "cd-0")
		times := ` from="2026-01-02T00:00:00Z" until="2026-01-06T00:00:00Z"/>`
		s.edit("a/changedump.xml", "</urlset>", second+"</urlset>")
		for range 2 {
			s.files["a/changedump.xml"] = strings.Replace(s.files["a/changedump.xml"], `"`+times, `"/>`, 1)
		}
		s.files["a/changedump.xml"] = strings.Replace(s.files["a/changedump.xml"], `"changedump"/>`, `"changedump"`+times, 1)
		s.files["a/changedump.xml"] = strings.ReplaceAll(s.files["a/changedump.xml"], `}"`+times, `}"/>`)
		s.files["a/cd-0-manifest.xml"] = opening + up + `<rs:md capability="changedump-manifest" from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"/></urlset>`
		s.packs["a/cd-0.zip"] = []packed{{"manifest.xml", "a/cd-0-manifest.xml"}}
	}, []string{"warning core 13.1 /a/changedump.xml"}},
	{"an archive in the wrong order", func(s *site) {
		s.files["a/changelist-archive-1.xml"] = regexpTimes.ReplaceAllString(s.files["a/changelist-archive-1.xml"], "")
		s.edit("a/changelist-archive-1.xml", "changelist-a.xml", "changelist-c.xml")
		s.edit("a/changelist-archive-1.xml", "changelist-b.xml", "changelist-a.xml")
		s.edit("a/changelist-archive-1.xml", "changelist-c.xml", "changelist-b.xml")
	}, []string{"error archives 5 /a/changelist-archive-1.xml"}},

	// Archives.
	{"rel=archives to nothing", edited(
		"a/resourcelist.xml", "/a/resourcelist-archive.xml", "/nothing.xml",
	), []string{"error archives 2.2 /a/resourcelist.xml"}},
	{"rel=archives to the archive of others", edited(
		"a/resourcelist.xml", "/a/resourcelist-archive.xml", "/a/changelist-archive.xml",
	), []string{"error archives 2.2 /a/resourcelist.xml"}},
	{"an archived Resource List that is not there", gone("a/archive/resourcelist.xml"), []string{"error archives 3 /a/resourcelist-archive.xml"}},
	{"an archived Resource Dump that is not there", gone("a/archive/resourcedump.xml"), []string{"error archives 4 /a/resourcedump-archive.xml"}},
	{"an archived Change List that is not there", gone("a/archive/changelist-a.xml"), []string{"error archives 5 /a/changelist-archive-1.xml"}},
	{"an archived Change Dump that is not there", gone("a/archive/changedump.xml"), []string{"error archives 6 /a/changedump-archive.xml"}},
	{
		"an archived document of another capability",
		edited("a/resourcelist-archive.xml", "/a/archive/resourcelist.xml", "/a/archive/changelist-a.xml"),
		[]string{"error archives 3 /a/resourcelist-archive.xml"},
	},
	{"an archive with another at", edited(
		"a/resourcelist-archive.xml", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z",
	), []string{"error archives 3 /a/resourcelist-archive.xml"}},
	{"an archive with another until", edited(
		"a/changedump-archive.xml", "2026-01-02T00:00:00Z", "2026-01-02T00:00:01Z",
	), []string{"error archives 6 /a/changedump-archive.xml"}},
	{"a part of an Archive Index that is not there", gone("a/changelist-archive-1.xml"), []string{"error archives 3.1 /a/changelist-archive.xml"}},
	{"a gap between the archive and the live lists", func(s *site) {
		s.edit("a/changelist.xml", `capability="changelist" from="2026-01-02T00:00:00Z"`, `capability="changelist" from="2026-01-02T00:00:01Z"`)
		s.edit("a/changelist.xml", `<rs:md from="2026-01-02T00:00:00Z"`, `<rs:md from="2026-01-02T00:00:01Z"`)
		s.edit("a/changelist-1.xml", `from="2026-01-02T00:00:00Z"`, `from="2026-01-02T00:00:01Z"`)
	}, []string{"warning archives 5 /a/changelist-archive.xml"}},

	// Topics (CN 4.1, 5; WebSub).
	{"a topic that is not there", gone("a/change/index"), []string{"error CN 5 /a/capabilitylist.xml"}},
	{"a topic that answers 202", func(s *site) { s.status["a/change/index"] = http.StatusAccepted }, []string{"error CN 4.1 /a/change/"}},
	{"a topic that does not answer HEAD", func(s *site) {
		s.head["a/change/index"] = http.StatusMethodNotAllowed
	}, []string{"error CN 4.1 /a/change/"}},
	{"a topic with another Content-Type", headed("a/change/index", "Content-Type", "text/xml"), []string{"error CN 4.1 /a/change/"}},
	{"a topic without rel=hub", headed("a/change/index", "Link", `<{base}/a/change/>; rel="self"`), []string{"error CN 4.1 /a/change/"}},
	{"a topic without rel=self", headed("a/change/index", "Link", `<{base}/hub>; rel="hub"`), []string{"error CN 4.1 /a/change/"}},
	{"a topic that names another", headed(
		"a/change/index", "Link", `<{base}/b/change/>; rel="self", <{base}/hub>; rel="hub"`,
	), []string{"error CN 4.1 /a/change/"}},
	{"a topic with two rel=self", headed(
		"a/change/index", "Link", `<{base}/a/change/>; rel="self", <{base}/b/>; rel="self", <{base}/hub>; rel="hub"`,
	), []string{"warning WebSub 4 /a/change/"}},
	{"an empty topic without Content-Length", func(s *site) {
		s.files["a/change/index"] = ""
		s.handlers["a/change/index"] = func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }
	}, []string{"warning CN 4.1 /a/change/"}},
	{"a topic that names another hub", headed(
		"a/change/index", "Link", `<{base}/a/change/>; rel="self", <{base}/hub?2>; rel="hub"`,
	), []string{"error CN 5 /a/capabilitylist.xml"}},
	{"a topic with another kind of notification", edited(
		"a/change/index", `"change-notification"`, `"framework-notification"`,
	), []string{"error CN 2 /a/change/"}},
	{"a topic that its Capability List does not list", edited(
		"a/capabilitylist.xml", "/a/change/", "/a/change/2",
	), []string{"error CN 5 /a/capabilitylist.xml"}},
	{"a hub that is not there", gone("hub"), []string{"warning WebSub 5 /a/change/"}},
	{"a hub that does not answer", func(s *site) {
		s.handlers["hub"] = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}, []string{"error WebSub 5 /a/change/"}},
	{"a notification without until", edited("a/change/index", ` until="2026-01-06T01:00:00Z"`, ""), []string{"error CN 3 /a/change/"}},
	{"a topic with a page", func(s *site) { s.files["a/change/index"] = "<html></html>" }, []string{"error core 6.1 /a/change/"}},

	// Resources (core 7, 10, 14).
	{"a resource that is not there", gone("r/3.txt"), []string{"error core 10.1 /a/resourcelist-2.xml"}},
	{"a resource of another length", func(s *site) {
		s.edit("a/resourcelist-2.xml", "{length r/3.txt}", "1")
	}, []string{"error core 7 /a/resourcelist-2.xml"}},
	{"a resource with another hash", edited(
		"a/resourcelist-2.xml", "sha-256:{sha256 r/3.txt}", "md5:00000000000000000000000000000000",
	), []string{"error core 7 /a/resourcelist-2.xml"}},
	{"a resource of another type", headed("r/3.txt", "Content-Type", "text/html"), []string{"warning core 7 /a/resourcelist-2.xml"}},
	{"a resource of another encoding", edited(
		"a/resourcelist-2.xml", `type="text/plain"`, `type="text/plain" encoding="gzip"`,
	), []string{"warning core 7 /a/resourcelist-2.xml"}},
	{"a resource with another lastmod", edited(
		"a/resourcelist-2.xml", "<lastmod>2026-01-02", "<lastmod>2026-01-01",
	), []string{"warning core 7 /a/resourcelist-2.xml"}},
	{"a duplicate that is another", func(s *site) {
		s.files["r/copy-of-1.txt"] = "resource 2\nresource 2\n"
	}, []string{"error core 14.2 /a/resourcelist-1.xml"}},
	{"an alternate that is not there", gone("r/2.html"), []string{"warning core 14.3 /a/resourcelist-1.xml"}},
	{"a canonical resource that is not there", gone("r/3-canonical.txt"), []string{"warning core 14.3 /a/resourcelist-2.xml"}},
	{"a patch that is not there", gone("r/4.patch"), []string{"error core 14.4 /a/changelist-2.xml"}},
	{"a patch of another length", edited("a/changelist-2.xml", "{length r/4.patch}", "1"), []string{"error core 14.4 /a/changelist-2.xml"}},
	{"a patch of another type", headed("r/4.patch", "Content-Type", "text/plain"), []string{"error core 14.4 /a/changelist-2.xml"}},
	{"a memento that is not there", gone("r/2-old.txt"), []string{"warning core 14.6 /a/resourcelist-1.xml"}},
	{"a description, a collection, a timegate and an original that are not there", gone("about"), []string{
		"warning core 14.5 /a/resourcelist-1.xml", "warning core 14.6 /a/resourcelist-1.xml", "warning core 14.7 /a/resourcelist-1.xml", "warning core 14.8 /a/resourcelist-2.xml",
	}},
}

// atPlaces are mutations that a walk from elsewhere finds.
var atPlaces = []struct {
	place string
	mutation
}{
	{"/r/page.html", mutation{"a page that its Capability List does not cover", func(*site) {}, []string{"error core 6.3.3 /r/page.html"}}},
	{"/r/3.txt", mutation{
		"a resource that links to a Resource List",
		headed("r/3.txt", "Link", `<{base}/a/resourcelist.xml>; rel="resourcesync"`),
		[]string{"error core 6.3.3 /r/3.txt"},
	}},
	{"/r/3.txt", mutation{
		"a resource that its Capability List covers",
		headed("r/3.txt", "Link", `<{base}/a/capabilitylist.xml>; rel="resourcesync"`), nil,
	}},
	{"/r/3.txt", mutation{"a resource that links to nothing", func(*site) {}, []string{"error core 6.3.3 /r/3.txt"}}},
	{"/a/change/", mutation{"a channel that its Capability List does not advertise", func(s *site) {
		s.edit("a/capabilitylist.xml", `
  <url>
    <loc>{base}/a/change/</loc>
    <rs:md capability="change-notification"/>
    <rs:ln rel="hub" href="{base}/hub"/>
  </url>`, "")
	}, []string{"error CN 5 /a/capabilitylist.xml"}}},
	{"/r/3.txt", mutation{
		"a topic of WebSub without rel=self", headed("r/3.txt", "Link", `<{base}/hub>; rel="hub"`),
		[]string{"error WebSub 4 /r/3.txt", "note WebSub 4 /r/3.txt"},
	}},
	{
		"/a/rd-2.zip",
		mutation{
			"a package with a bitstream of another length",
			edited("a/rd-2-manifest.xml", `length="{length r/3.txt}"`, `length="3"`),
			[]string{"error core 11.2 /a/rd-2.zip!/manifest.xml"},
		},
	},
	{"/a/cd-1.zip", mutation{
		"a package without a manifest",
		func(s *site) { s.packs["a/cd-1.zip"][0].name = "manifest" },
		[]string{"error core 11.2 /a/cd-1.zip"},
	}},
}

// Each mutation is found by the right clause and at the right document, and nothing else is. Each rule is broken by one.
func TestMutations(t *testing.T) {
	var mu sync.Mutex
	broken := map[int]bool{} // rules; guarded by mu
	ran := 0                 // guarded by mu
	try := func(place string, m *mutation) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			m.change(s)
			found, _ := s.look(check.Config{Sample: 100}, place)
			got := map[string]bool{}
			mu.Lock()
			defer mu.Unlock()
			ran++
			for i := range found {
				f := &found[i]
				got[fmt.Sprintf("%s %s %s", f.Level, f.Clause, strings.TrimPrefix(f.URI, s.base))] = true
				broken[check.RuleOf(f)] = true
			}
			want := slices.Sorted(slices.Values(m.want))
			if have := slices.Sorted(maps.Keys(got)); !slices.Equal(have, want) {
				t.Errorf("found %q\nwant %q\n%s", have, want, strings.Join(s.lines(found), "\n"))
			}
		})
	}
	t.Cleanup(func() { // after the parallel ones
		if ran < len(mutations)+len(atPlaces) {
			return // some were chosen
		}
		for _, r := range check.Rules() {
			if !broken[r.Number] {
				t.Errorf("no mutation breaks rule %d: %s %s", r.Number, r.Clause, r.Looks)
			}
		}
	})
	for i := range mutations {
		try("/", &mutations[i])
	}
	for i := range atPlaces {
		try(atPlaces[i].place, &atPlaces[i].mutation)
	}
	if len(mutations) < 60 {
		t.Errorf("%d mutations", len(mutations))
	}
}

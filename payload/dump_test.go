package payload_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// dumpHeads are the heads of the example documents about packages and archives.
var dumpHeads = map[string]payload.Head{
	"resourcedump.xml":          {Capability: payload.CapResourceDump, At: museum.From, Completed: museum.Until},
	"resourcedump-manifest.xml": {Capability: payload.CapResourceDumpManifest, At: museum.From, Completed: museum.Until},
	"changedump.xml":            {Capability: payload.CapChangeDump, From: museum.From},
	"changedump-manifest.xml":   {Capability: payload.CapChangeDumpManifest, From: museum.From, Until: museum.Until},
	"changelist-archive.xml":    {Capability: payload.CapChangeListArchive},
	"resourcelist-archive-index.xml": {
		Capability: payload.CapResourceListArchive, Index: true,
	},
}

// packed is an entry with the path of its bitstream.
func packed(e payload.Entry, path string) payload.Entry {
	e.Path = path
	return e
}

// dumpEntries write the entries of the same documents.
func dumpEntries(t *testing.T, name string, doc []byte) []byte {
	manifest := payload.Link{Rel: payload.RelContents, Href: "https://source.example/museum/1-manifest.xml", Type: "application/xml"}
	part := payload.Part{
		Loc: "https://source.example/museum/1.zip", Type: "application/zip", Length: "4765",
		Hash: md5, Links: []payload.Link{manifest},
	}
	all := museumEntries()
	add := func(write func([]byte) ([]byte, error)) { doc = put(t, doc, write) }
	switch name {
	case "resourcedump.xml":
		part.At, part.Completed = museum.From, museum.Until
		add(func(dst []byte) ([]byte, error) { return payload.AppendListed(dst, &part) })
	case "changedump.xml":
		part.From, part.Until, part.LastMod = museum.From, museum.Until, "2026-03-01T09:00:02Z"
		add(func(dst []byte) ([]byte, error) { return payload.AppendListed(dst, &part) })
	case "resourcedump-manifest.xml":
		e := packed(all[0], "/objects/bell & 1547")
		e.Change = ""
		add(func(dst []byte) ([]byte, error) { return payload.AppendBitstream(dst, &e) })
	case "changedump-manifest.xml":
		all[1].Links[2].Path = "/patches/cloche"
		for _, e := range []payload.Entry{packed(all[0], "/1"), packed(all[1], "/2"), all[2]} {
			add(func(dst []byte) ([]byte, error) { return payload.AppendBitstream(dst, &e) })
		}
	case "changelist-archive.xml":
		for n, loc := range []string{"https://source.example/archive/1.xml", "https://source.example/archive/2.xml"} {
			from := museum.From.Add(time.Duration(n) * time.Hour)
			p := payload.Part{Loc: loc, From: from, Until: from.Add(time.Hour)}
			add(func(dst []byte) ([]byte, error) { return payload.AppendListed(dst, &p) })
		}
	default:
		p := payload.Part{Loc: "https://source.example/archive/2026.xml"}
		add(func(dst []byte) ([]byte, error) { return payload.AppendPart(dst, &p) })
	}
	return doc
}

// TestDumpsAsWritten compares what is written of each document with the one in testdata.
func TestDumpsAsWritten(t *testing.T) {
	for name, h := range dumpHeads {
		t.Run(name, func(t *testing.T) {
			h.Links = []payload.Link{up}
			if h.Capability == payload.CapChangeDump {
				h.Links = append(h.Links, payload.Link{Rel: payload.RelArchives, Href: "https://source.example/changedump-archive.xml"})
			}
			doc := put(t, nil, func(dst []byte) ([]byte, error) { return payload.AppendHead(dst, h) })
			doc = payload.AppendTail(dumpEntries(t, name, doc), h.Index)
			if want := document(t, name); string(doc) != string(want) {
				t.Errorf("got\n%s", doc)
			}
		})
	}
}

func TestAppendBitstreamRefuses(t *testing.T) {
	patch := payload.Link{Rel: payload.RelPatch, Href: "https://source.example/patch", Type: "a/b", Path: "/patch"}
	for name, tt := range map[string]struct {
		field string
		spoil func(*payload.Entry)
	}{
		"no path":               {"path", func(e *payload.Entry) { e.Path = "" }},
		"no path of a resource": {"path", func(e *payload.Entry) { e.Path, e.Change = "", "" }},
		"a deleted bitstream":   {"path", func(e *payload.Entry) { e.Change = payload.Deleted }},
		"no slash":              {"path", func(e *payload.Entry) { e.Path = "a" }},
		"the root":              {"path", func(e *payload.Entry) { e.Path = "/" }},
		"a folder":              {"path", func(e *payload.Entry) { e.Path = "/a/" }},
		"upward":                {"path", func(e *payload.Entry) { e.Path = "/../a" }},
		"upward at the end":     {"path", func(e *payload.Entry) { e.Path = "/a/.." }},
		"two slashes":           {"path", func(e *payload.Entry) { e.Path = "/a//b" }},
		"here":                  {"path", func(e *payload.Entry) { e.Path = "/./b" }},
		"a backslash":           {"path", func(e *payload.Entry) { e.Path = `/a\b` }},
		"the manifest":          {"path", func(e *payload.Entry) { e.Path = "/Manifest.XML" }},
		"another change":        {"change", func(e *payload.Entry) { e.Change = "moved" }},
		"no datetime":           {"datetime", func(e *payload.Entry) { e.Datetime = time.Time{} }},
		"a late datetime":       {"datetime", func(e *payload.Entry) { e.Datetime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		"a patch outside":       {"ln[0].path", func(e *payload.Entry) { e.Links[0] = patch; e.Links[0].Path = "" }},
		"a patch of no type":    {"ln[0].type", func(e *payload.Entry) { e.Links[0] = patch; e.Links[0].Type = "" }},
		"a patch of a resource": {"ln[0].rel", func(e *payload.Entry) { e.Links[0], e.Change = patch, "" }},
		"a copy inside":         {"ln[1].path", func(e *payload.Entry) { e.Links[1].Path = "/b" }},
		"a patch upward":        {"ln[0].path", func(e *payload.Entry) { e.Links[0] = patch; e.Links[0].Path = "/../a" }},
	} {
		t.Run(name, func(t *testing.T) {
			e := packed(entry(), "/a")
			tt.spoil(&e)
			got, err := payload.AppendBitstream([]byte("before"), &e)
			wantFieldError(t, err, tt.field)
			if string(got) != "before" {
				t.Errorf("wrote %q", got)
			}
		})
	}
	for _, path := range []string{"/a", "/a/b.txt", "/a b", "/..a/b..", "/.a", "/\t\n\r", "/manifest.xml/a", "/é☃"} {
		e := packed(entry(), path)
		if _, err := payload.AppendBitstream(nil, &e); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// Links follow the rules of the document that they are in (core §14).
func TestLinksByDocument(t *testing.T) {
	patch := payload.Link{Rel: payload.RelPatch, Href: "https://source.example/patch", Type: "a/b"}
	contents := payload.Link{Rel: payload.RelContents, Href: "https://source.example/manifest.xml"}
	changed := payload.Entry{Loc: museumUp, Change: payload.Updated, Datetime: start, Links: []payload.Link{patch}}
	if _, err := payload.AppendEntry(nil, &changed); err != nil {
		t.Errorf("a patch of a change: %v", err)
	}
	changed.Links[0].Type = ""
	_, err := payload.AppendEntry(nil, &changed)
	wantFieldError(t, err, "ln[0].type")
	_, err = payload.AppendResource(nil, &payload.Entry{Loc: museumUp, Links: []payload.Link{patch}})
	wantFieldError(t, err, "ln[0].rel")
	_, err = payload.AppendResource(nil, &payload.Entry{Loc: museumUp, Path: "/a"})
	wantFieldError(t, err, "path")
	_, err = payload.AppendPart(nil, &payload.Part{Loc: museumUp, Links: []payload.Link{contents}})
	wantFieldError(t, err, "ln")
	_, err = payload.AppendListed(nil, &payload.Part{Loc: museumUp, Links: []payload.Link{contents, contents}})
	wantFieldError(t, err, "ln")
	_, err = payload.AppendListed(nil, &payload.Part{})
	wantFieldError(t, err, "loc")
}

// TestLines: entries and the root know the line where their start tag begins, however the
// document is broken over lines and buffers.
func TestLines(t *testing.T) {
	doc := "<?xml version=\"1.0\"?>\n<!--\n-->\r\n<urlset\n xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"\n>" + // the root is in line 4
		"<url><loc>http://a/6</loc></url><url\n><loc>http://a/6</loc>\n\n</url>\n" +
		"<url/>" + strings.Repeat("\n", 100_000) + "<url><loc>http://a/</loc></url></urlset>"
	r := payload.NewReader(strings.NewReader(doc), payload.Limits{})
	if h, err := r.Header(); err != nil || h.Line != 4 {
		t.Errorf("the root is in line %d, %v", h.Line, err)
	}
	for n, want := range []int{6, 6, 10, 100_010} {
		if e, err := r.Next(); err != nil || e.Line != want {
			t.Errorf("entry %d is in line %d, want %d; %v", n, e.Line, want, err)
		}
	}
}

// TestReadManifests reads the paths of bitstreams, unchanged: without a slash as well (reading X-8).
func TestReadManifests(t *testing.T) {
	for name, want := range map[string]string{
		"core-18-resourcedump-manifest.xml": "/resources/res1 /resources/res2",
		"core-1.1/resourcesync_ex_23.xml":   "/changes/res7.html /changes/res9.pdf - /changes/res7-v2.html",
		"core-05-resourcedump-manifest.xml": "/resources/res1 /resources/res2",
		"core-23-changedump-manifest.xml":   "/changes/res7.html /changes/res9.pdf - /changes/res7-v2.html",
		"core-1.1/resourcesync_ex_18.xml":   "/resources/res1 /resources/res2",
		"core-27-changelist-patch.xml":      "- -",
		"core-1.1/resourcesync_ex_5.xml":    "/resources/res1 /resources/res2",
	} {
		doc, err := os.ReadFile(filepath.Join("testdata", "examples", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		_, entries, err := readAll(string(doc), payload.Limits{})
		var got []string
		for _, e := range entries {
			got = append(got, cmp.Or(e.Path, "-"))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if _, entries, err := readAll(urlset(`<url><rs:md path="a b"/></url>`), payload.Limits{}); err != nil || entries[0].Path != "a b" {
		t.Errorf("%+v, %v", entries, err)
	}
}

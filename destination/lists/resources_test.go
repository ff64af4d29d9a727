package lists_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// taken is the head of a Resource List or its index.
func taken(when, completed string) string {
	attrs := `capability="resourcelist"`
	if when != "" {
		attrs += ` at="` + clock(when) + `"`
	}
	if completed != "" {
		attrs += ` completed="` + clock(completed) + `"`
	}
	return up + md(attrs)
}

func resource(name string) string { return "<url><loc>" + site + "/" + name + "</loc></url>" }

func partOf(loc, when string) string {
	rs := ""
	if when != "" {
		rs = md(`at="` + clock(when) + `"`)
	}
	return "<sitemap><loc>" + site + loc + "</loc>" + rs + "</sitemap>"
}

func TestResources(t *testing.T) {
	for name, tt := range map[string]struct {
		pages              map[string]page
		at, completed      string
		want, asked, words string
	}{
		"a list": {
			map[string]page{"/r": {body: urlset(taken("10:00", "10:05"), resource("a"), resource("b"))}},
			"10:00", "10:05", "a b", "/r", "",
		},
		"an empty list": {map[string]page{"/r": {body: urlset(taken("10:00", ""))}}, "10:00", "", "", "/r", ""},
		"a sitemap":     {map[string]page{"/r": {body: urlset(resource("a"))}}, "", "", "a", "/r", "rs:md"},
		"an index": {
			map[string]page{
				"/r": {body: sitemapindex(taken("10:00", ""), partOf("/1", "10:00"), partOf("/2", ""))},
				"/1": {body: urlset(taken("10:00", "10:02"), resource("a"))}, "/2": {body: urlset(taken("10:01", "10:03"), resource("b"))},
			},
			"10:00", "10:03", "a b", "/r /1 /2 /r /1 /2", "",
		},
		"an index without at": {
			map[string]page{
				"/r": {body: sitemapindex(taken("", ""), partOf("/1", ""), partOf("/2", ""))},
				"/1": {body: urlset(taken("10:02", ""), resource("a"))}, "/2": {body: urlset(taken("10:01", ""), resource("b"))},
			},
			"10:01", "", "a b", "/r /1 /2 /1 /2", "at is missing",
		},
		"nobody says when": {
			map[string]page{
				"/r": {body: sitemapindex(taken("", ""), partOf("/1", ""), partOf("/2", ""))},
				"/1": {body: urlset(taken("10:02", ""), resource("a"))}, "/2": {body: urlset(resource("b"))},
			},
			"", "", "a b", "/r /1 /2", "at is missing",
		},
		"an earlier part": {
			map[string]page{
				"/r": {body: sitemapindex(taken("10:00", ""), partOf("/1", ""))},
				"/1": {body: urlset(taken("09:00", ""), resource("a"))},
			},
			"09:00", "", "a", "/r /1 /r /1", "",
		},
		"a part replaced meanwhile": {
			map[string]page{
				"/r": {body: sitemapindex(taken("10:00", ""), partOf("/1", "10:00"))},
				"/1": {body: urlset(taken("11:00", ""), resource("a"))},
			},
			"10:00", "", "a", "/r /1 /r /1", "replaced",
		},
		"a part twice": {
			map[string]page{
				"/r": {body: sitemapindex(taken("10:00", ""), partOf("/1", ""), partOf("/1", ""))},
				"/1": {body: urlset(taken("10:00", ""), resource("a"))},
			},
			"10:00", "", "a", "/r /1", "",
		},
		"packed files": {
			map[string]page{
				"/r": {body: packed(
					t, sitemapindex(taken("10:00", ""), partOf("/1.xml.gz", "")),
				), header: map[string]string{"Content-Encoding": "gzip"}},
				// As they stand, and packed once more on the way.
				"/1.xml.gz": {body: packed(
					t, packed(t, urlset(taken("10:00", ""), resource("a"))),
				), header: map[string]string{"Content-Encoding": "gzip"}},
			},
			"10:00", "", "a", "/r /1.xml.gz", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			var names []string
			got, err := w.client(lists.Config{}).Resources(t.Context(), site+"/r", func(e payload.Entry) error {
				names = append(names, strings.TrimPrefix(e.Loc, site+"/"))
				return nil
			})
			want := lists.Snapshot{At: at(tt.at), Completed: at(tt.completed), Entries: len(names), Documents: len(strings.Fields(tt.asked))}
			if err != nil || got != want || strings.Join(names, " ") != tt.want {
				t.Errorf("visited %q, want %q\ngot  %+v\nwant %+v: %v", names, tt.want, got, want, err)
			}
			if asked := strings.Join(w.asks(), " "); asked != tt.asked {
				t.Errorf("asked for %s, want %s", asked, tt.asked)
			}
			listed := tt.words == "" && len(w.warnings) == 0
			for _, x := range w.warnings {
				listed = listed || tt.words != "" && strings.Contains(x.Message, tt.words)
			}
			if !listed {
				t.Errorf("warnings %v, want one about %q", w.warnings, tt.words)
			}
		})
	}
}

// The lists are made anew, in place, while they are read: x moves from the second to the first,
// and is in neither as it was read.
func TestResourceListsThatAreMadeAnew(t *testing.T) {
	w := newNetwork(t, map[string]page{
		"/r": {body: sitemapindex(taken("10:00", ""), partOf("/1", ""), partOf("/2", ""))},
		"/1": {body: urlset(taken("10:00", ""), resource("a"), resource("b"))},
		"/2": {body: urlset(taken("10:00", ""), resource("x"), resource("y"))},
	})
	w.onAsk = func(uri string) {
		if uri == site+"/2" {
			w.put("/1", page{body: urlset(taken("12:00", ""), resource("a"), resource("x"))})
			w.put("/2", page{body: urlset(taken("12:00", ""), resource("y"))})
		}
	}
	c := w.client(lists.Config{})
	all := func(payload.Entry) error { return nil }
	if got, err := c.Resources(t.Context(), site+"/r", all); !errors.Is(err, lists.ErrAnswer) || !strings.Contains(err.Error(), "anew") || !strings.Contains(err.Error(), "/1 is of 2026-03-01T12:00") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := c.Resources(t.Context(), site+"/r", all); err != nil || got.Entries != 3 || got.At != at("10:00") {
		t.Errorf("the next time: %+v, %v", got, err)
	}
}

func TestResourcesEndWithTheVisit(t *testing.T) {
	enough := errors.New("enough")
	w := newNetwork(t, map[string]page{"/r": {body: urlset(taken("10:00", ""), resource("a"), resource("b"))}})
	got, err := w.client(lists.Config{}).Resources(t.Context(), site+"/r", func(e payload.Entry) error {
		if strings.HasSuffix(e.Loc, "b") {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || got.Entries != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Entries stand as the document has them; a document that does not fit into memory is put down
// in a file, and nothing of it is left.
func TestLargeDocument(t *testing.T) {
	var doc []byte
	doc, err := payload.AppendHead(
		doc,
		payload.Head{Capability: payload.CapResourceList, At: at("10:00"), Links: []payload.Link{{Rel: "up", Href: site + "/c"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	const n = 8_000
	e := payload.Entry{Loc: site + "/a", LastMod: "2026-01-01", Hash: "md5:1e0d5cb8ef6ba40c99b14c0237be735e", Length: "8876", Type: "text/html"}
	for range n {
		if doc, err = payload.AppendResource(doc, &e); err != nil {
			t.Fatal(err)
		}
	}
	doc = payload.AppendTail(doc, false)
	w := newNetwork(t, map[string]page{"/r": {body: string(doc)}})
	c := w.client(lists.Config{})
	files := 0
	got, err := c.Resources(t.Context(), site+"/r", func(got payload.Entry) error {
		if got.Hash != e.Hash || got.Length != e.Length || got.Loc != e.Loc {
			t.Fatalf("got %+v", got)
		}
		files = max(files, filesIn(t, w.dir))
		return nil
	})
	if err != nil || got.Entries != n || got.At != time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC) {
		t.Errorf("%+v, %v", got, err)
	}
	if left := filesIn(t, w.dir); left != 0 || files != 0 && runtime.GOOS == "linux" {
		t.Errorf("%d files are left behind; a crash would have left %d", left, files)
	}
	if err := os.Remove(w.dir); err != nil {
		t.Fatal(err)
	}
	_, err = c.Resources(t.Context(), site+"/r", func(payload.Entry) error { t.Error("visited"); return nil })
	if err == nil || !strings.Contains(err.Error(), "putting down") {
		t.Errorf("without a directory: %v", err)
	}
}

// An entry without a loc is counted: with it, the Source's set is not fully known.
func TestUnnamed(t *testing.T) {
	w := newNetwork(t, map[string]page{
		"/r": {body: sitemapindex(taken("10:00", ""), "<sitemap></sitemap>", partOf("/1", "10:00"))},
		"/1": {body: urlset(taken("10:00", ""), resource("a"), "<url><lastmod>2026-01-01</lastmod></url>", resource("b"))},
	})
	got, err := w.client(lists.Config{}).Resources(t.Context(), site+"/r", func(payload.Entry) error { return nil })
	if err != nil || got.Unnamed != 2 || got.Entries != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

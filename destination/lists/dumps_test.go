package lists_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"carillon/destination/lists"
)

// dumped is the head of a Resource Dump.
func dumped(when string) string {
	return strings.Replace(taken(when, ""), "resourcelist", "resourcedump", 1)
}

// bundled is the head of a Change Dump.
func bundled(from, until string) string {
	return strings.Replace(changed(from, until), "changelist", "changedump", 1)
}

// packageAt is a package of a Resource Dump, packageOf one of a Change Dump.
func packageAt(loc, when string) string {
	return strings.NewReplacer("sitemap>", "url>").Replace(partOf("/"+loc, when))
}

func packageOf(loc, from, until string) string {
	return strings.ReplaceAll(listed("/"+loc, from, until), "sitemap>", "url>")
}

func TestResourceDump(t *testing.T) {
	for name, tt := range map[string]struct {
		pages             map[string]page
		at, got           string
		asked, warned     string
		entries, nameless int
	}{
		"one package": {
			map[string]page{"/r": {body: urlset(dumped("10:00"), packageAt("1.zip", ""))}},
			"10:00", "/1.zip 10:00", "/r", "", 1, 0,
		},
		"packages with times of their own": {
			map[string]page{"/r": {body: urlset(dumped("10:00"), packageAt("1.zip", "10:01"), packageAt("2.zip", "10:02"))}},
			"10:00", "/1.zip 10:01, /2.zip 10:02", "/r", "", 2, 0,
		},
		"a package that is older than its dump": {
			map[string]page{"/r": {body: urlset(dumped("10:00"), packageAt("1.zip", "09:00"), packageAt("2.zip", ""))}},
			"09:00", "/1.zip 09:00, /2.zip 10:00", "/r", "", 2, 0,
		},
		"nobody says when": {
			map[string]page{"/r": {body: urlset(dumped(""), packageAt("1.zip", "09:00"), packageAt("2.zip", ""))}},
			"", "/1.zip 09:00, /2.zip ", "/r", "at is missing", 2, 0,
		},
		"only the packages say when": {
			map[string]page{"/r": {body: urlset(dumped(""), packageAt("1.zip", "09:02"), packageAt("2.zip", "09:01"))}},
			"09:01", "/1.zip 09:02, /2.zip 09:01", "/r", "at is missing", 2, 0,
		},
		"a package without a loc": {
			map[string]page{"/r": {body: urlset(dumped("10:00"), packageAt("1.zip", ""), "<url></url>")}},
			"10:00", "/1.zip 10:00", "/r", "loc is missing", 1, 1,
		},
		"an index, by its root element": {
			map[string]page{
				"/r": {body: sitemapindex(dumped("10:00"), partOf("/1", "10:00"), partOf("/2", "10:05"))},
				"/1": {body: urlset(dumped("10:00"), packageAt("1.zip", ""))},
				"/2": {body: urlset(dumped("10:05"), packageAt("2.zip", "10:06"))},
			},
			"10:00", "/1.zip 10:00, /2.zip 10:06", "/r /1 /2 /r /1 /2", "", 2, 0,
		},
		"an index that says what its dumps do not": {
			map[string]page{
				"/r": {body: sitemapindex(dumped("10:00"), partOf("/1", "10:01"), partOf("/2", ""))},
				"/1": {body: urlset(dumped(""), packageAt("1.zip", ""))},
				"/2": {body: urlset(dumped(""), packageAt("2.zip", ""))},
			},
			"10:00", "/1.zip 10:01, /2.zip 10:00", "/r /1 /2", "at is missing", 2, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			var got []string
			seen, err := w.client(lists.Config{}).ResourceDump(t.Context(), site+"/r", func(p lists.Package) error {
				when := ""
				if !p.At.IsZero() {
					when = p.At.Format("15:04")
				}
				got = append(got, strings.TrimPrefix(p.URI, site)+" "+when)
				return nil
			})
			if err != nil || strings.Join(got, ", ") != tt.got || !seen.At.Equal(at(tt.at)) || seen.Entries != tt.entries || seen.Unnamed != tt.nameless {
				t.Errorf("got %q, %+v, %v", got, seen, err)
			}
			if asked := strings.Join(w.asks(), " "); asked != tt.asked || seen.Documents != len(strings.Fields(asked)) {
				t.Errorf("asked for %s", asked)
			}
			if tt.warned != "" && !w.warned("core §11.1", tt.warned) && !w.warned("core §7", tt.warned) || tt.warned == "" && len(w.warnings) > 0 {
				t.Errorf("warned of %v, want %q", w.warnings, tt.warned)
			}
		})
	}
}

// All that a dump says of a package is handed on, as it says it.
func TestWhatADumpSaysOfAPackage(t *testing.T) {
	const hash = "sha-256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	whole := "<url><loc> /1.zip#x </loc><lastmod>2026-03-01T10:03:00Z</lastmod>" +
		md(`type="application/zip" length="4765" hash="`+hash+`" at="`+clock("10:01")+`" completed="`+clock("10:02")+`"`) +
		link("contents", "m/1.xml") + link("contents", "/later.xml") + "</url>"
	odd := "<url><loc>/2.zip</loc>" + md(`length="-1" at="soon"`) + link("contents", "https://elsewhere.example/m.xml") + "</url>"
	w := newNetwork(t, map[string]page{"/d/r": {body: urlset(dumped("10:00"), whole, odd)}, "/moved": redirect("/d/r")})
	var got []lists.Package
	if _, err := w.client(lists.Config{}).ResourceDump(t.Context(), site+"/moved", func(p lists.Package) error {
		got = append(got, p)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []lists.Package{
		{
			URI: site + "/1.zip", Type: "application/zip", Hash: hash, LastMod: "2026-03-01T10:03:00Z", Length: 4765,
			Manifest: site + "/d/m/1.xml", At: at("10:01"), Completed: at("10:02"), Dump: site + "/d/r",
		},
		{URI: site + "/2.zip", Length: -1, At: at("10:00"), Dump: site + "/d/r"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if !strings.Contains(w.logs.String(), "manifest is not read") {
		t.Errorf("nothing is said of the manifest at another host: %s", &w.logs)
	}
}

// dumps is a Source with two closed Change Dumps and an open one, in an index.
func dumps() map[string]page {
	ix := link("index", "/index.xml")
	return map[string]page{
		"/capabilitylist.xml": {body: urlset(md(`capability="capabilitylist"`), "<url><loc>/index.xml</loc>"+md(`capability="changedump"`)+"</url>")},
		"/index.xml": {body: sitemapindex(bundled("10:00", ""),
			listed("/1.xml", "10:00", "11:00"), listed("/2.xml", "11:00", "12:00"), listed("/3.xml", "12:00", ""))},
		"/1.xml": {body: urlset(bundled("10:00", "11:00"), ix, packageOf("a", "10:00", "10:30"), packageOf("b", "10:30", "11:00"))},
		"/2.xml": {body: urlset(bundled("11:00", "12:00"), packageOf("c", "", ""), packageOf("d", "11:30", ""))},
		"/3.xml": {body: urlset(bundled("12:00", ""), ix, packageOf("e", "12:00", "12:10"), packageOf("f", "12:10", "12:20"))},
	}
}

// packages reads a Change Dump and returns the names of the packages, with from and until.
func packages(t testing.TB, c *lists.Client, uri, since string) (string, lists.Covered, error) {
	t.Helper()
	var names []string
	covered, err := c.ChangeDump(t.Context(), uri, at(since), func(p lists.Package) error {
		names = append(names, strings.TrimPrefix(p.URI, site+"/")+span(p.From, p.Until))
		return nil
	})
	if covered.Entries != len(names) {
		t.Errorf("%d packages are counted, %d were visited", covered.Entries, len(names))
	}
	return strings.Join(names, " "), covered, err
}

// span is an interval as hours and minutes.
func span(from, until time.Time) string {
	short := func(t time.Time) string {
		if t.IsZero() {
			return "?"
		}
		return t.Format("15:04")
	}
	return "[" + short(from) + "-" + short(until) + "]"
}

func TestChangeDump(t *testing.T) {
	const a, b, c, d, e, f = "a[10:00-10:30] ", "b[10:30-11:00] ", "c[11:00-11:30] ", "d[11:30-12:00] ", "e[12:00-12:10] ", "f[12:10-12:20]"
	one := map[string]page{"/1.xml": {body: urlset(bundled("10:00", ""), packageOf("a", "10:00", "10:30"), packageOf("b", "", ""))}}
	for name, tt := range map[string]struct {
		pages       map[string]page
		uri, since  string
		want, until string
		open        bool
		asked       string
	}{
		"an index, all of it":             {dumps(), "/index.xml", "", a + b + c + d + e + f, "12:20", true, "/index.xml /1.xml /2.xml /3.xml"},
		"an index, from within a package": {dumps(), "/index.xml", "10:45", b + c + d + e + f, "12:20", true, "/index.xml /1.xml /2.xml /3.xml"},
		"an index, from a seam":           {dumps(), "/index.xml", "12:00", e + f, "12:20", true, "/index.xml /2.xml /3.xml"},
		"an index, nothing new":           {dumps(), "/index.xml", "12:20", "", "12:20", true, "/index.xml /3.xml"},
		"an open dump that begins later":  {dumps(), "/3.xml", "11:40", d + e + f, "12:20", true, "/3.xml /index.xml /2.xml /3.xml"},
		"a closed dump without an index":  {dumps(), "/2.xml", "11:30", d + e + f, "12:20", true, "/2.xml /capabilitylist.xml /index.xml /3.xml"},
		"a package that nobody dates":     {one, "/1.xml", "10:10", a + "b[10:30-?]", "10:30", true, "/1.xml"},
		"the same, read once more":        {one, "/1.xml", "10:30", "b[10:30-?]", "10:30", true, "/1.xml"},
		"packages out of order": {
			map[string]page{"/1": {body: urlset(bundled("10:00", "12:00"), packageOf("d", "11:30", ""), packageOf("c", "11:00", "11:30"))}},
			"/1", "11:00", c + strings.TrimSpace(d), "12:00", false, "/1 /capabilitylist.xml",
		},
		"no from": {
			map[string]page{"/1": {body: urlset(md(`capability="changedump"`), packageOf("c", "11:00", "11:30"))}},
			"/1", "11:10", strings.TrimSpace(c), "11:30", true, "/1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			got, covered, err := packages(t, w.client(lists.Config{}), site+tt.uri, tt.since)
			if err != nil || got != tt.want || !covered.Until.Equal(at(tt.until)) || covered.Open != tt.open {
				t.Errorf("visited %q, want %q; %+v, %v", got, tt.want, covered, err)
			}
			if asked := strings.Join(w.asks(), " "); asked != tt.asked || covered.Documents != len(strings.Fields(asked)) {
				t.Errorf("asked for %s, want %s", asked, tt.asked)
			}
		})
	}
}

// Changes that a Change Dump lacks are not passed over.
func TestChangeDumpThatBeginsLater(t *testing.T) {
	w := newNetwork(t, dumps())
	c := w.client(lists.Config{})
	for _, uri := range []string{"/index.xml", "/3.xml"} {
		got, covered, err := packages(t, c, site+uri, "09:00")
		gone, is := errors.AsType[*lists.GoneError](err)
		if !is || !gone.Earliest.Equal(at("10:00")) || got != "" || !covered.Until.Equal(at("09:00")) {
			t.Errorf("%s: visited %q, %+v, %v", uri, got, covered, err)
		}
	}
	w.put("/2.xml", page{body: urlset(bundled("11:30", "12:00"), packageOf("d", "11:30", ""))})
	got, covered, err := packages(t, c, site+"/index.xml", "10:40")
	if got != "b[10:30-11:00]" || err != nil || !covered.Until.Equal(at("11:00")) {
		t.Errorf("up to the hole: %q, %+v, %v", got, covered, err)
	}
	if got, _, err := packages(t, c, site+"/index.xml", "11:10"); got != "" || !errors.Is(err, lists.ErrGone) {
		t.Errorf("from the hole: %q, %v", got, err)
	}
}

// A stranger's documents are bounded, and broken ones hand on nothing.
func TestBadDumps(t *testing.T) {
	small := lists.Limits{Bytes: 4000, Entries: 5, Parts: 3, Documents: 4}
	for name, tt := range map[string]struct {
		head  func(string, string) string
		body  []string
		want  error
		words string
	}{
		"too many packages": {bundled, []string{strings.Repeat(packageOf("a", "", ""), 6)}, nil, "5"},
		"a package at another host": {bundled, []string{
			packageOf("a", "", ""), "<url><loc>https://elsewhere.example/1.zip</loc></url>",
		}, lists.ErrOtherHost, "elsewhere"},
		"a package in a file": {bundled, []string{
			packageOf("a", "", ""), "<url><loc>file:///etc/passwd</loc></url>",
		}, lists.ErrAnswer, "file"},
		"a package of a user": {bundled, []string{"<url><loc>https://a:b@source.example/1.zip</loc></url>"}, lists.ErrAnswer, "user"},
		"a Change List":       {changed, nil, lists.ErrAnswer, "changelist"},
		"a manifest": {func(string, string) string {
			return md(`capability="changedump-manifest"`)
		}, nil, lists.ErrAnswer, "manifest"},
		"broken off":                    {bundled, []string{packageOf("a", "", ""), "<url>"}, nil, "10"},
		"an index within an index":      {func(string, string) string { return "" }, nil, lists.ErrLoop, "within"},
		"an index that leads to itself": {func(string, string) string { return " " }, nil, lists.ErrLoop, "itself"},
	} {
		for _, capability := range []string{"changedump", "resourcedump"} {
			t.Run(name+" for a "+capability, func(t *testing.T) {
				doc := strings.ReplaceAll(urlset(tt.head("10:00", ""), strings.Join(tt.body, "")), "changedump", capability)
				pages := map[string]page{"/l": {body: doc}}
				switch tt.head("10:00", "") {
				case "":
					pages["/l"], pages["/m"] = page{body: sitemapindex(partOf("/m", ""))}, page{body: sitemapindex(partOf("/n", ""))}
				case " ":
					pages["/l"] = page{body: sitemapindex(partOf("/l", ""))}
				}
				w := newNetwork(t, pages)
				c := w.client(lists.Config{Limits: small})
				visit := func(p lists.Package) error {
					t.Errorf("%s was visited", p.URI)
					return nil
				}
				var err error
				if capability == "changedump" {
					_, err = c.ChangeDump(t.Context(), site+"/l", time.Time{}, visit)
				} else {
					_, err = c.ResourceDump(t.Context(), site+"/l", visit)
				}
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) || tt.want != nil && !strings.Contains(fmt.Sprint(err), tt.words) {
					t.Errorf("error %v, want %v about %q", err, tt.want, tt.words)
				}
				if n := filesIn(t, w.dir); n > 0 {
					t.Errorf("%d files are left behind", n)
				}
			})
		}
	}
}

// A dump that was taken is asked for again only with what reports whether it has changed.
func TestUnchangedDump(t *testing.T) {
	w := newNetwork(t, map[string]page{"/d": tagged(urlset(bundled("10:00", ""), packageOf("a", "10:00", "10:30")))})
	c := w.client(lists.Config{})
	if got, _, err := packages(t, c, site+"/d", "10:00"); got != "a[10:00-10:30]" || err != nil {
		t.Fatalf("visited %q, %v", got, err)
	}
	got, covered, err := packages(t, c, site+"/d", "10:30")
	if got != "" || err != nil || !covered.Unchanged || !covered.Until.Equal(at("10:30")) {
		t.Errorf("visited %q, %+v, %v", got, covered, err)
	}
	if asked := strings.Join(w.asks(), " "); asked != "/d /d 304" {
		t.Errorf("asked for %s", asked)
	}
}

// An error of visit ends the reading, and counts as not taken.
func TestDumpsEndWithTheVisit(t *testing.T) {
	enough := errors.New("enough")
	w := newNetwork(t, map[string]page{
		"/d": {body: urlset(bundled("10:00", ""), packageOf("a", "10:00", "10:30"), packageOf("b", "10:30", "11:00"))},
		"/r": {body: urlset(dumped("10:00"), packageAt("a", ""), packageAt("b", ""))},
	})
	visit := func(p lists.Package) error {
		if strings.HasSuffix(p.URI, "b") {
			return enough
		}
		return nil
	}
	c := w.client(lists.Config{})
	covered, err := c.ChangeDump(t.Context(), site+"/d", at("10:00"), visit)
	if !errors.Is(err, enough) || covered.Entries != 1 || !covered.Until.Equal(at("10:00")) {
		t.Errorf("%+v, %v", covered, err)
	}
	if seen, err := c.ResourceDump(t.Context(), site+"/r", visit); !errors.Is(err, enough) || seen.Entries != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := c.ResourceDump(ctx, site+"/r", func(lists.Package) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

package lists_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// history is a Source with two closed lists and an open one: the index names them, and
// the Capability List names what capability says.
func history(capability string) map[string]page {
	ix := link("index", "/index.xml")
	return map[string]page{
		"/capabilitylist.xml": {body: urlset(link("up", "/.well-known/resourcesync"), md(`capability="capabilitylist"`),
			"<url><loc>"+site+capability+`</loc><rs:md capability="changelist"/></url>`)},
		"/index.xml": {body: sitemapindex(changed("10:00", ""),
			listed(site+"/1.xml", "10:00", "11:00"), listed(site+"/2.xml", "11:00", "12:00"), listed(site+"/3.xml", "12:00", ""))},
		"/1.xml":    {body: urlset(changed("10:00", "11:00"), ix, change("a", "10:10"), change("b", "10:20"))},
		"/2.xml":    {body: urlset(changed("11:00", "12:00"), ix, change("c", "11:10"), change("d", "11:20"))},
		"/3.xml":    {body: urlset(changed("12:00", ""), ix, change("e", "12:10"), change("f", "12:20"))},
		"/open.xml": {body: urlset(changed("12:00", ""), ix, change("e", "12:10"), change("f", "12:20"))},
	}
}

func TestChanges(t *testing.T) {
	plain := map[string]page{"/list.xml": {body: urlset(changed("10:00", ""), change("a", "10:10"), change("b", "10:20"))}}
	for name, tt := range map[string]struct {
		pages      map[string]page
		uri, since string
		want       string // the names that are visited
		until      string
		open       bool
		asked      string
	}{
		"an open list, all of it":           {plain, "/list.xml", "", "a b", "10:20", true, "/list.xml"},
		"an open list, the end of it":       {plain, "/list.xml", "10:20", "b", "10:20", true, "/list.xml"},
		"an open list, nothing new":         {plain, "/list.xml", "10:30", "", "10:30", true, "/list.xml"},
		"an index, all of it":               {history("/index.xml"), "/index.xml", "", "a b c d e f", "12:20", true, "/index.xml /1.xml /2.xml /3.xml"},
		"an index, lists that are past":     {history("/index.xml"), "/index.xml", "11:01", "c d e f", "12:20", true, "/index.xml /2.xml /3.xml"},
		"an index, a list that ends there":  {history("/index.xml"), "/index.xml", "11:00", "c d e f", "12:20", true, "/index.xml /1.xml /2.xml /3.xml"},
		"an index, in the middle of a list": {history("/index.xml"), "/index.xml", "11:15", "d e f", "12:20", true, "/index.xml /2.xml /3.xml"},
		"an open list that begins later":    {history("/open.xml"), "/open.xml", "10:15", "b c d e f", "12:20", true, "/open.xml /index.xml /1.xml /2.xml /3.xml"},
		"a closed list, and what follows":   {history("/index.xml"), "/1.xml", "10:00", "a b c d e f", "12:20", true, "/1.xml /index.xml /2.xml /3.xml"},
		"a closed list that is past":        {history("/index.xml"), "/1.xml", "11:20", "d e f", "12:20", true, "/1.xml /index.xml /2.xml /3.xml"},
		"a closed list without an index":    {withoutIndex(history("/open.xml"), "/1.xml"), "/2.xml", "11:00", "c d e f", "12:20", true, "/2.xml /capabilitylist.xml /open.xml"},
		"a closed list that is the last":    {withoutIndex(history("/2.xml"), "/3.xml"), "/2.xml", "11:15", "d", "12:00", false, "/2.xml /capabilitylist.xml"},
		"a closed list whose index is away": {without(history("/index.xml"), "/index.xml"), "/1.xml", "10:15", "b", "11:00", false, "/1.xml /index.xml"},
		"a closed list whose Capability is away": {without(
			withoutIndex(history("/2.xml")), "/capabilitylist.xml",
		), "/1.xml", "10:15", "b", "11:00", false, "/1.xml /capabilitylist.xml"},
		"an open list that is empty": {map[string]page{
			"/e": {body: urlset(changed("10:00", ""))},
		}, "/e", "10:30", "", "10:30", true, "/e"},
		"a closed list that is empty": {
			map[string]page{"/e": {body: urlset(md(`capability="changelist" from="2026-03-01T10:00:00Z" until="2026-03-01T11:00:00Z"`))}},
			"/e", "10:30", "", "11:00", false, "/e",
		},
		"an index that says nothing of its lists": {silent(history("/index.xml")), "/index.xml", "11:15", "d e f", "12:20", true, "/index.xml /1.xml /2.xml /3.xml"},
		"an index out of order":                   {reversed(history("/index.xml")), "/index.xml", "11:15", "d e f", "12:20", true, "/index.xml /2.xml /3.xml"},
		"an index whose last list is past": {
			map[string]page{"/i": {body: sitemapindex(changed("10:00", "11:00"), listed(site+"/1.xml", "10:00", "11:00"))}},
			"/i", "11:01", "", "11:01", false, "/i",
		},
		"an index that says a list twice": {
			map[string]page{
				"/i": {body: sitemapindex(changed("10:00", ""), listed("/l", "", ""), listed("/l", "", ""))},
				"/l": {body: urlset(changed("10:00", ""), change("a", "10:10"))},
			},
			"/i", "", "a", "10:10", true, "/i /l",
		},
		"an index that is ahead of its list": {
			map[string]page{
				"/i": {body: sitemapindex(changed("10:00", ""), listed("/l", "10:00", "11:00"))},
				"/l": {body: urlset(changed("10:00", ""), change("a", "10:10"))},
			},
			"/i", "", "a", "10:10", true, "/i /l",
		},
		"no index, but the Capability List has one": {withoutIndex(history("/index.xml")), "/open.xml", "11:15", "d e f", "12:20", true, "/open.xml /capabilitylist.xml /index.xml /2.xml /3.xml"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			got, covered, err := visits(t, w.client(lists.Config{}), site+tt.uri, tt.since)
			if err != nil || got != tt.want {
				t.Errorf("visited %q, want %q (error %v)", got, tt.want, err)
			}
			if !covered.Until.Equal(at(tt.until)) || covered.Open != tt.open || tt.since != "" && !covered.From.Equal(at(tt.since)) {
				t.Errorf("covered %+v, want until %s, open %v", covered, tt.until, tt.open)
			}
			if asked := strings.Join(w.asks(), " "); asked != tt.asked || covered.Documents != len(strings.Fields(tt.asked)) {
				t.Errorf("asked for %s, want %s (%d documents)", asked, tt.asked, covered.Documents)
			}
		})
	}
}

// withoutIndex leaves out the links to the index, but of some.
func withoutIndex(pages map[string]page, but ...string) map[string]page {
	for uri, p := range pages {
		if !slices.Contains(but, uri) {
			p.body = strings.Replace(p.body, link("index", "/index.xml"), "", 1)
			pages[uri] = p
		}
	}
	return pages
}

func without(pages map[string]page, uri string) map[string]page {
	delete(pages, uri)
	return pages
}

// silent has an index that says only where its lists are.
func silent(pages map[string]page) map[string]page {
	pages["/index.xml"] = page{body: sitemapindex(changed("10:00", ""),
		"<sitemap><loc>/1.xml</loc></sitemap><sitemap><loc>/2.xml</loc></sitemap><sitemap><loc>/3.xml</loc></sitemap>")}
	return pages
}

func reversed(pages map[string]page) map[string]page {
	pages["/index.xml"] = page{body: sitemapindex(changed("10:00", ""),
		listed(site+"/3.xml", "12:00", ""), listed(site+"/2.xml", "11:00", "12:00"), listed(site+"/1.xml", "10:00", "11:00"))}
	return pages
}

func TestWhatIsNotKeptIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		pages      map[string]page
		uri, since string
		earliest   string
	}{
		"an index":       {history("/index.xml"), "/index.xml", "09:59", "10:00"},
		"an open list":   {history("/open.xml"), "/open.xml", "09:59", "10:00"},
		"no index":       {without(history("/open.xml"), "/index.xml"), "/open.xml", "10:10", "12:00"},
		"no link at all": {map[string]page{"/l": {body: urlset(md(`capability="changelist" from="2026-03-01T12:00:00Z"`))}}, "/l", "10:10", "12:00"},
		"no from": {map[string]page{
			"/l": {body: urlset(md(`capability="changelist"`), change("a", "12:10"), change("b", "12:20"))},
		}, "/l", "12:00", "12:10"},
		"an empty index": {map[string]page{"/i": {body: sitemapindex(changed("12:00", ""))}}, "/i", "10:00", "12:00"},
		"410": {
			map[string]page{"/m": {status: http.StatusGone, header: map[string]string{"X-Hub-Memory-Earliest": clock("12:30")}}},
			"/m", "10:00", "12:30",
		},
		"410 without a time": {map[string]page{"/m": {status: http.StatusGone}}, "/m", "10:00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			got, covered, err := visits(t, w.client(lists.Config{}), site+tt.uri, tt.since)
			gone, ok := errors.AsType[*lists.GoneError](err)
			if !ok || !errors.Is(err, lists.ErrGone) || !gone.Earliest.Equal(at(tt.earliest)) {
				t.Fatalf("error %v, want one that says %s", err, tt.earliest)
			}
			if guessed := name == "no from"; gone.Guessed != guessed || strings.Contains(err.Error(), "first change") != guessed {
				t.Errorf("guessed %v: %v", gone.Guessed, err)
			}
			if got != "" || !covered.Until.Equal(at(tt.since)) {
				t.Errorf("visited %q, covered %+v", got, covered)
			}
		})
	}
}

// Changes behind a hole are not visited: first the part before it counts, and the next reading from
// there returns the hole.
func TestAHoleIsNotPassedOver(t *testing.T) {
	pages := history("/index.xml")
	pages["/index.xml"] = page{body: sitemapindex(changed("10:00", ""),
		listed(site+"/1.xml", "10:00", "11:00"), listed(site+"/3.xml", "12:00", ""))}
	w := newNetwork(t, pages)
	c := w.client(lists.Config{})
	got, covered, err := visits(t, c, site+"/index.xml", "10:15")
	if got != "b" || err != nil || !covered.Until.Equal(at("11:00")) || covered.Open {
		t.Errorf("visited %q, covered %+v, %v", got, covered, err)
	}
	got, _, err = visits(t, c, site+"/index.xml", "11:00")
	if gone, ok := errors.AsType[*lists.GoneError](err); !ok || got != "" || !gone.Earliest.Equal(at("12:00")) {
		t.Errorf("visited %q, %v", got, err)
	}
	if !w.warned("core §12.2", "") {
		t.Errorf("the hole is not told: %v", w.warnings)
	}
}

// The same change is in both of two lists that overlap: it is visited once.
func TestListsThatOverlap(t *testing.T) {
	w := newNetwork(t, map[string]page{
		"/i": {body: sitemapindex(changed("10:00", ""), listed(site+"/1", "10:00", "11:00"), listed(site+"/2", "10:30", ""))},
		"/1": {body: urlset(changed("10:00", "11:00"), change("a", "10:10"), change("b", "10:40"))},
		"/2": {body: urlset(changed("10:30", ""), change("b", "10:40"), change("c", "11:10"))},
	})
	if got, _, err := visits(t, w.client(lists.Config{}), site+"/i", ""); got != "a b c" || err != nil {
		t.Errorf("visited %q, %v", got, err)
	}
	if !w.warned("core §12.2", "") {
		t.Errorf("it is not told: %v", w.warnings)
	}
}

// The last list is closed and a new one begun, after the index was read.
func TestAnIndexThatIsOld(t *testing.T) {
	pages := history("/index.xml")
	pages["/3.xml"] = page{body: urlset(changed("12:00", "13:00"), change("e", "12:10"))}
	pages["/4.xml"] = page{body: urlset(changed("13:00", ""), change("g", "13:10"))}
	w := newNetwork(t, pages)
	w.onAsk = func(uri string) {
		if uri == site+"/3.xml" {
			w.put(
				"/index.xml",
				page{body: sitemapindex(changed("10:00", ""), listed(site+"/3.xml", "12:00", "13:00"), listed(site+"/4.xml", "13:00", ""))},
			)
		}
	}
	got, covered, err := visits(t, w.client(lists.Config{}), site+"/index.xml", "11:15")
	if got != "d e g" || err != nil || !covered.Open || !covered.Until.Equal(at("13:10")) {
		t.Errorf("visited %q, covered %+v, %v", got, covered, err)
	}
	if asked := strings.Join(w.asks(), " "); asked != "/index.xml /2.xml /3.xml /index.xml /4.xml" {
		t.Errorf("asked for %s", asked)
	}
}

// The same, of an index that says nothing of its lists: those that are past are not read again.
func TestASilentIndexThatIsOld(t *testing.T) {
	pages := silent(history("/index.xml"))
	pages["/3.xml"] = page{body: urlset(changed("12:00", "13:00"), change("e", "12:10"))}
	pages["/4.xml"] = page{body: urlset(changed("13:00", ""), change("g", "13:10"))}
	w := newNetwork(t, pages)
	w.onAsk = func(uri string) {
		if uri == site+"/3.xml" {
			ix := pages["/index.xml"].body
			w.put("/index.xml", page{body: strings.Replace(ix, "</sitemapindex>", "<sitemap><loc>/4.xml</loc></sitemap></sitemapindex>", 1)})
		}
	}
	got, _, err := visits(t, w.client(lists.Config{}), site+"/index.xml", "11:15")
	if asked := strings.Join(w.asks(), " "); got != "d e g" || err != nil || asked != "/index.xml /1.xml /2.xml /3.xml /index.xml /4.xml" {
		t.Errorf("visited %q, asked for %s, %v", got, asked, err)
	}
}

// An interval has both of its ends (core §7): the change at the seam of two lists may be in
// the one that is closed.
func TestAChangeAtTheSeam(t *testing.T) {
	w := newNetwork(t, map[string]page{
		"/index.xml": {body: sitemapindex(changed("10:00", ""),
			listed(site+"/1.xml", "10:00", "11:00"), listed(site+"/2.xml", "11:00", ""))},
		"/1.xml": {body: urlset(changed("10:00", "11:00"), change("a", "10:30"), change("seam", "11:00"))},
		"/2.xml": {body: urlset(changed("11:00", ""), change("b", "11:30"))},
	})
	if got, _, err := visits(t, w.client(lists.Config{}), site+"/index.xml", "11:00"); got != "seam b" || err != nil {
		t.Errorf("visited %q, %v", got, err)
	}
}

// An open list gets one more change of the moment of its last, and is closed with it.
func TestAChangeAtTheSeamOfAListThatWasOpen(t *testing.T) {
	w := newNetwork(t, map[string]page{
		"/list.xml": {body: urlset(changed("10:00", ""), change("a", "10:30"), change("d", "11:00"))},
		"/capabilitylist.xml": {body: urlset(md(`capability="capabilitylist"`),
			"<url><loc>"+site+"/list2.xml</loc>"+md(`capability="changelist"`)+"</url>")},
	})
	c := w.client(lists.Config{})
	if got, covered, err := visits(t, c, site+"/list.xml", "10:00"); got != "a d" || err != nil || !covered.Until.Equal(at("11:00")) {
		t.Errorf("visited %q, covered %+v, %v", got, covered, err)
	}
	w.put("/list.xml", page{body: urlset(changed("10:00", "11:00"), change("a", "10:30"), change("d", "11:00"), change("e", "11:00"))})
	w.put("/list2.xml", page{body: urlset(changed("11:00", ""), change("f", "11:30"))})
	if got, _, err := visits(t, c, site+"/list.xml", "11:00"); got != "d e f" || err != nil {
		t.Errorf("visited %q, %v", got, err)
	}
}

// An undated entry of a list in order is past if a later datetime shows it; one that may be new is
// visited, where it stands.
func TestWithoutDatetime(t *testing.T) {
	for _, tt := range []struct{ body, since, want string }{
		{urlset(
			changed("10:00", ""), change("a", ""), change("b", "10:20"), change("c", ""),
			change("d", "10:40"), change("e", ""),
		), "", "a b c d e"},
		{urlset(
			changed("10:00", ""), change("a", ""), change("b", "10:20"), change("c", ""),
			change("d", "10:40"), change("e", ""),
		), "10:30", "c d e"},
		{urlset(changed("10:00", ""), change("a", ""), change("b", "")), "10:30", "a b"},
		{urlset(changed("10:00", ""), change("c", "10:40"), change("d", ""), change("a", "10:10"), change("b", "")), "", "a b c d"},
		{urlset(changed("10:00", ""), change("c", "10:40"), change("d", ""), change("a", "10:10"), change("b", "")), "10:30", "b c d"},
	} {
		w := newNetwork(t, map[string]page{"/l": {body: tt.body}})
		if got, _, err := visits(t, w.client(lists.Config{}), site+"/l", tt.since); got != tt.want || err != nil {
			t.Errorf("%s since %q: visited %q, want %q (%v)", tt.body, tt.since, got, tt.want, err)
		}
	}
}

// A list that was begun anew has another name; one that is open has the name that it has in the index.
func TestNamesOfLists(t *testing.T) {
	pages := history("/index.xml")
	pages["/bare.xml"] = page{body: urlset(md(`capability="changelist"`), change("a", "10:10"), change("b", "10:20"))}
	pages["/bare2.xml"] = page{body: urlset(md(`capability="changelist"`), change("b", "10:20"))}
	c := newNetwork(t, pages).client(lists.Config{})
	names := func(uri string) (got []string) {
		ctx := lists.WithNames(t.Context(), func(list string) { got = append(got, list) })
		if _, err := c.Changes(ctx, site+uri, time.Time{}, func(payload.Entry) error { return nil }); err != nil {
			t.Error(err)
		}
		return got
	}
	all, open := names("/index.xml"), names("/open.xml")
	if len(all) != 3 || all[0] == all[1] || all[1] == all[2] || len(open) != 1 || open[0] != all[2] {
		t.Errorf("the lists are %q, the last of them is %q", all, open)
	}
	if one, two := names("/bare.xml"), names("/bare2.xml"); len(one) != 1 || one[0] == "" || slices.Equal(one, two) {
		t.Errorf("lists that do not tell when they begin are %q and %q", one, two)
	}
}

// The oddities of real Sources are taken, and reported with their clauses.
func TestOddLists(t *testing.T) {
	for name, tt := range map[string]struct{ body, clause, words string }{
		"out of order": {urlset(changed("10:00", ""), change("b", "10:40"), change("a", "10:10")), "core §12.1", ""},
		"an offset": {urlset(
			changed("10:00", ""),
			strings.Replace(change("a", "12:10"), "12:10:00Z", "12:10:00+02:00", 1),
			change("b", "10:40"),
		), "core §7", "UTC"},
		"rs:md before loc": {
			urlset(
				changed("10:00", ""),
				"<url>"+md(`change="created" datetime="2026-03-01T10:10:00Z"`)+"<loc>"+site+"/a</loc></url>",
				change("b", "10:40"),
			),
			"core §7", "before loc",
		},
		"no datetime":   {urlset(changed("10:00", ""), change("a", ""), change("b", "10:40")), "core §12.1", "datetime"},
		"no from":       {urlset(up+md(`capability="changelist"`), change("a", "10:10"), change("b", "10:40")), "core §12.1", "from"},
		"no capability": {urlset(up+md(`from="2026-03-01T10:00:00Z"`), change("a", "10:10"), change("b", "10:40")), "core §7", "capability"},
		"no rel=up": {urlset(
			md(`capability="changelist" from="2026-03-01T10:00:00Z"`), change("a", "10:10"), change("b", "10:40"),
		), "core §12.1", "up"},
		"no loc": {urlset(
			changed("10:00", ""), change("a", "10:10"), "<url>"+md(`change="deleted"`)+"</url>", change("b", "10:40"),
		), "core §7", "loc"},
		"a head at its end": {urlset(change("a", "10:10"), change("b", "10:40"), changed("10:00", "")), "core §7", "behind"},
		"a hash of no kind": {urlset(
			changed("10:00", ""),
			strings.Replace(change("a", "10:10"), "datetime", `hash="crc:1" datetime`, 1),
			change("b", "10:40"),
		), "core §7", "hash"},
		"a future": {urlset(
			changed("10:00", ""), change("a", "10:10"), strings.Replace(change("b", "10:40"), "2026", "3026", 1),
		), "core §7", "future"},
		"a notification": {
			urlset(
				md(`capability="change-notification" from="2026-03-01T10:00:00Z" until="2026-03-01T11:00:00Z"`),
				change("a", "10:10"), change("b", "10:40"),
			),
			"core §7", "capability",
		},
		"a day for datetime": {urlset(
			changed("10:00", ""), strings.Replace(change("a", "10:10"), "T10:10:00Z", "", 1), change("b", "10:40"),
		), "core §7", "complete"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, map[string]page{"/l": {body: tt.body}})
			c := w.client(lists.Config{})
			got, covered, err := visits(t, c, site+"/l", "10:05")
			if name == "no from" { // then only what it has is sure
				got, covered, err = visits(t, c, site+"/l", "10:10")
			}
			if got != "a b" || err != nil {
				t.Errorf("visited %q, %v", got, err)
			}
			if !w.warned(tt.clause, tt.words) {
				t.Errorf("warnings %v, want one of %s about %q", w.warnings, tt.clause, tt.words)
			}
			if covered.Until.Year() != 2026 {
				t.Errorf("covered %+v: nobody knows what will be", covered)
			}
			n := len(w.warnings)
			if _, _, _ = visits(t, c, site+"/l", "10:10"); len(w.warnings) != n {
				t.Errorf("told again: %v", w.warnings[n:])
			}
		})
	}
}

// Entries that are out of order are put in order also where not all of them are held at a time.
func TestOutOfOrderAndLong(t *testing.T) {
	const entries = 59 // of 4,000 links each, 34 MB in memory
	links := strings.Repeat("<rs:ln/>", 4000) + "</url>"
	inside, want := make([]string, entries), make([]string, entries)
	for i := range entries {
		name := fmt.Sprintf("%02d", i)
		want[i] = name
		inside[(i+entries/2)%entries] = strings.Replace(change(name, "10:"+name), "</url>", links, 1)
	}
	w := newNetwork(t, map[string]page{"/l": {body: urlset(changed("10:00", ""), strings.Join(inside, ""))}})
	if got, _, err := visits(t, w.client(lists.Config{}), site+"/l", ""); got != strings.Join(want, " ") || err != nil {
		t.Errorf("visited %q, %v", got, err)
	}
}

// A server whose clock is ahead by years promises nothing for them.
func TestAClockThatIsYearsAhead(t *testing.T) {
	w := newNetwork(t, map[string]page{"/l": {
		header: map[string]string{"Date": "Thu, 01 Mar 3026 12:00:00 GMT"},
		body:   urlset(md(`capability="changelist" from="2026-03-01T10:00:00Z" until="3026-03-01T11:00:00Z"`), change("a", "10:10")),
	}})
	got, covered, err := visits(t, w.client(lists.Config{}), site+"/l", "10:00")
	if got != "a" || err != nil || covered.Until.Year() == 3026 || !w.warned("core §7", "future") {
		t.Errorf("visited %q, covered %+v, %v, warnings %v", got, covered, err, w.warnings)
	}
}

// A list is asked for with what reports whether it has changed, once all of it was taken.
func TestUnchanged(t *testing.T) {
	old := map[string]string{"Last-Modified": "Sun, 01 Mar 2026 12:20:00 GMT", "Date": "Sun, 01 Mar 2026 12:20:30 GMT"}
	young := map[string]string{"Last-Modified": "Sun, 01 Mar 2026 12:20:00 GMT", "Date": "Sun, 01 Mar 2026 12:20:01 GMT"}
	for name, tt := range map[string]struct {
		header map[string]string
		again  string // what the second reading asks for
	}{
		"ETag":          {map[string]string{"ETag": `"1"`}, "/3.xml 304"},
		"Last-Modified": {old, "/3.xml 304"},
		"Last-Modified that the document may outrun": {young, "/3.xml"},
		"an ETag that may be of that second": {map[string]string{
			"ETag": `"1"`, "Last-Modified": young["Last-Modified"], "Date": young["Date"],
		}, "/3.xml"},
		"a long ETag": {map[string]string{"ETag": `"` + strings.Repeat("1", 3000) + `"`}, "/3.xml"},
	} {
		t.Run(name, func(t *testing.T) {
			pages := history("/index.xml")
			p := pages["/3.xml"]
			p.header = tt.header
			pages["/3.xml"] = p
			w := newNetwork(t, pages)
			c := w.client(lists.Config{})
			for _, tt := range []struct{ since, want, asked string }{
				{"12:00", "e f", "/3.xml"},
				{"12:10", "e f", "/3.xml"}, // it was not all taken, says since
				{"12:20", "", tt.again},
				{"12:20", "", tt.again},
			} {
				got, covered, err := visits(t, c, site+"/3.xml", tt.since)
				unchanged := strings.HasSuffix(tt.asked, "304")
				if !unchanged && tt.want == "" {
					tt.want = "f"
				}
				if asked := strings.Join(w.asks(), " "); got != tt.want || err != nil || asked != tt.asked || covered.Unchanged != unchanged {
					t.Errorf(
						"since %s: visited %q, want %q, asked for %s, want %s; covered %+v, %v",
						tt.since, got, tt.want, asked, tt.asked, covered, err,
					)
				}
				if !covered.Open || !covered.Until.Equal(at("12:20")) {
					t.Errorf("covered %+v", covered)
				}
			}
			c.Forget()
			if got, _, err := visits(t, c, site+"/3.xml", "12:20"); got != "f" || err != nil {
				t.Errorf("after Forget: visited %q, %v", got, err)
			}
		})
	}
}

// A list that was closed since it was read, and one that ended when it was read, lead
// on to the index also when they are not read again.
func TestUnchangedListsOfAnIndex(t *testing.T) {
	pages := history("/index.xml")
	for uri, p := range pages {
		p.header = map[string]string{"ETag": `"` + uri + `"`}
		pages[uri] = p
	}
	w := newNetwork(t, pages)
	c := w.client(lists.Config{})
	for _, tt := range []struct{ uri, want, asked string }{
		{"/1.xml", "f", "/1.xml /index.xml /3.xml"},
		{"/1.xml", "", "/1.xml 304 /index.xml /3.xml 304"},
		{"/index.xml", "", "/index.xml /3.xml 304"},
	} {
		got, covered, err := visits(t, c, site+tt.uri, "12:20")
		if asked := strings.Join(w.asks(), " "); got != tt.want || err != nil || asked != tt.asked {
			t.Errorf("%s: visited %q, want %q, asked for %s, want %s; %v", tt.uri, got, tt.want, asked, tt.asked, err)
		}
		if covered.Unchanged != (tt.want == "") || !covered.Until.Equal(at("12:20")) || !covered.Open {
			t.Errorf("%s: covered %+v", tt.uri, covered)
		}
	}
	// The index closes the list, which stays as it was: it does not say until itself.
	w.put("/index.xml", page{body: sitemapindex(changed("10:00", ""), listed(site+"/3.xml", "12:00", "13:00"), listed(site+"/4.xml", "13:00", ""))})
	w.put("/4.xml", page{body: urlset(changed("13:00", ""), change("g", "13:10"))})
	if got, covered, err := visits(t, c, site+"/index.xml", "12:20"); got != "g" || err != nil || !covered.Until.Equal(at("13:10")) {
		t.Errorf("visited %q, covered %+v, %v", got, covered, err)
	}
}

// An error of visit ends the reading; the list is read whole the next time.
func TestVisitEndsTheReading(t *testing.T) {
	enough := errors.New("enough")
	pages := history("/index.xml")
	p := pages["/3.xml"]
	p.header = map[string]string{"ETag": `"3"`}
	pages["/3.xml"] = p
	w := newNetwork(t, pages)
	c := w.client(lists.Config{})
	n := 0
	covered, err := c.Changes(t.Context(), site+"/index.xml", at("11:15"), func(payload.Entry) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || covered.Entries != 2 || !covered.Until.Equal(at("12:00")) {
		t.Errorf("covered %+v, %v", covered, err)
	}
	if got, _, err := visits(t, c, site+"/index.xml", "12:20"); got != "f" || err != nil {
		t.Errorf("visited %q, %v", got, err)
	}
}

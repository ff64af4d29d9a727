package lists_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"carillon/destination/lists"
	"carillon/payload"
)

// archiveOf is the head of an archive.
func archiveOf(capability string) string { return up + md(`capability="`+capability+`-archive"`) }

func TestArchive(t *testing.T) {
	const rl = payload.CapResourceListArchive
	month := func(loc, when string) string { return packageAt(loc, when) }
	whole := "<url><loc>1.xml</loc><lastmod>2026-03-02</lastmod>" + md(`at="`+clock("10:00")+`" completed="`+clock("10:05")+`"`) + "</url>"
	for name, tt := range map[string]struct {
		pages map[string]page
		want  []lists.Archived
	}{
		"an archive": {
			map[string]page{"/a/": {body: urlset(archiveOf("resourcelist"), whole, month("2.xml", "11:00"), "<url></url>")}},
			[]lists.Archived{
				{URI: site + "/a/1.xml", Capability: "resourcelist", LastMod: "2026-03-02", At: at("10:00"), Completed: at("10:05")},
				{URI: site + "/2.xml", Capability: "resourcelist", At: at("11:00")},
			},
		},
		"an index of archives, by its root element": {
			map[string]page{
				"/a/":  {body: sitemapindex(archiveOf("resourcelist"), partOf("/a/1", ""), partOf("/a/2", ""), partOf("/a/1", ""))},
				"/a/1": {body: urlset(archiveOf("resourcelist"), month("1.xml", "10:00"))},
				"/a/2": {body: urlset(archiveOf("resourcelist"), month("2.xml", "11:00"))},
			},
			[]lists.Archived{
				{URI: site + "/1.xml", Capability: "resourcelist", At: at("10:00")},
				{URI: site + "/2.xml", Capability: "resourcelist", At: at("11:00")},
			},
		},
		"a list at another host": {
			map[string]page{
				"/a/": {body: urlset(archiveOf("resourcelist"), "<url><loc>https://elsewhere.example/1.xml</loc></url>", month("2.xml", ""))},
			},
			[]lists.Archived{{URI: site + "/2.xml", Capability: "resourcelist"}},
		},
		"an empty archive": {map[string]page{"/a/": {body: urlset(archiveOf("resourcelist"))}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			var got []lists.Archived
			err := w.client(lists.Config{}).Archive(t.Context(), site+"/a/", rl, func(a lists.Archived) error {
				got = append(got, a)
				return nil
			})
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, tt.want)
			}
			if strings.Contains(name, "another host") != strings.Contains(w.logs.String(), "elsewhere.example") {
				t.Errorf("logged %s", &w.logs)
			}
		})
	}
	for name, tt := range map[string]struct {
		pages      map[string]page
		capability string
		want       error
		words      string
	}{
		"another archive":   {map[string]page{"/a/": {body: urlset(archiveOf("changelist"))}}, rl, lists.ErrAnswer, `"changelist-archive"`},
		"what is archived":  {map[string]page{"/a/": {body: urlset(taken("10:00", ""))}}, rl, lists.ErrAnswer, `"resourcelist"`},
		"no archive's name": {nil, payload.CapResourceList, nil, "changelist-archive"},
		"an index within an index": {map[string]page{
			"/a/": {body: sitemapindex(partOf("/b", ""))}, "/b": {body: sitemapindex()},
		}, rl, lists.ErrLoop, "within"},
		"an index to another host": {map[string]page{
			"/a/": {body: sitemapindex(listed("https://elsewhere.example/", "", ""))},
		}, rl, lists.ErrOtherHost, "elsewhere"},
		"nothing": {nil, rl, lists.ErrAnswer, "404"},
		"more documents than limit": {map[string]page{
			"/a/": {body: sitemapindex(partOf("/b", ""), partOf("/c", ""))}, "/b": {body: urlset()},
			"/c": {body: urlset()},
		}, rl, lists.ErrLoop, "2"},
	} {
		c := newNetwork(t, tt.pages).client(lists.Config{Limits: lists.Limits{Documents: 2}})
		err := c.Archive(t.Context(), site+"/a/", tt.capability, func(lists.Archived) error { return nil })
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.words) {
			t.Errorf("%s: %v, want %v about %q", name, err, tt.want, tt.words)
		}
	}
	enough := errors.New("enough")
	c := newNetwork(t, map[string]page{"/a/": {body: urlset(archiveOf("resourcelist"), whole)}}).client(lists.Config{})
	if err := c.Archive(t.Context(), site+"/a/", rl, func(lists.Archived) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("an error of visit: %v", err)
	}
}

// A Capability List names archives; where it does not, a live document may link to its own (archives §2).
func TestWithArchives(t *testing.T) {
	named := func(capability string) string {
		return "<url><loc>/" + capability + ".xml</loc>" + md(`capability="`+capability+`"`) + "</url>"
	}
	body := md(`capability="capabilitylist"`)
	want := lists.Set{CapabilityList: site + "/c"}
	for capability, to := range map[string]*string{
		"resourcelist": &want.ResourceList, "changelist": &want.ChangeList, "resourcedump": &want.ResourceDump, "changedump": &want.ChangeDump,
		"resourcelist-archive": &want.ResourceListArchive, "changedump-archive": &want.ChangeDumpArchive,
	} {
		body += named(capability)
		*to = site + "/" + capability + ".xml"
	}
	pages := map[string]page{
		"/c":                {body: urlset(body)},
		"/resourcelist.xml": {body: urlset(link("archives", "/not-asked-for"), taken("10:00", ""))},
		"/changelist.xml":   {body: urlset(link("archives", "cl-archive"), changed("10:00", ""), change("a", "10:10"))},
		"/resourcedump.xml": {body: urlset(link("archives", "https://elsewhere.example/"), dumped("10:00"))},
	}
	w := newNetwork(t, pages)
	c := w.client(lists.Config{})
	sets, err := c.Discover(t.Context(), site+"/c")
	if err != nil || len(sets) != 1 || !reflect.DeepEqual(sets[0], want) {
		t.Fatalf("got  %+v, %v\nwant %+v", sets, err, want)
	}
	got, err := c.WithArchives(t.Context(), sets[0])
	want.ChangeListArchive = site + "/cl-archive"
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	if !strings.Contains(w.logs.String(), "elsewhere.example") {
		t.Errorf("logged %s", &w.logs)
	}
	w.put("/changelist.xml", page{status: http.StatusServiceUnavailable})
	if _, err := c.WithArchives(t.Context(), sets[0]); err == nil {
		t.Error("trouble that may pass is passed over")
	}
}

// past is a Source that keeps the two closed lists of history in its archive alone. The live document
// says where that is; or its Capability List does.
func past(capability bool) map[string]page {
	pages := withoutIndex(history("/open.xml"))
	delete(pages, "/index.xml")
	pages["/archive.xml"] = page{body: urlset(archiveOf("changelist"), packageOf("1.xml", "10:00", "11:00"), packageOf("2.xml", "11:00", "12:00"))}
	if capability {
		c := pages["/capabilitylist.xml"].body
		pages["/capabilitylist.xml"] = page{
			body: strings.Replace(c, "</urlset>", "<url><loc>/archive.xml</loc>"+md(`capability="changelist-archive"`)+"</url></urlset>", 1),
		}
		return pages
	}
	ar := link("archives", "/archive.xml")
	pages["/open.xml"] = page{body: urlset(changed("12:00", ""), ar, change("e", "12:10"), change("f", "12:20"))}
	pages["/index.xml"] = page{body: sitemapindex(changed("12:00", ""), ar, listed("/3.xml", "12:00", ""))}
	return pages
}

// A Destination that lags behind the live lists goes on by the archive, without a gap.
func TestChangesByTheArchive(t *testing.T) {
	with := func(pages map[string]page, uri, body string) map[string]page {
		pages[uri] = page{body: body}
		return pages
	}
	indexed := with(with(past(false), "/first.xml", urlset(archiveOf("changelist"), packageOf("1.xml", "10:00", "11:00"))),
		"/second.xml", urlset(archiveOf("changelist"), packageOf("2.xml", "11:00", "12:00")))
	for name, tt := range map[string]struct {
		pages      map[string]page
		uri, since string
		want       string
		asked      string
	}{
		"of an open list":    {past(false), "/open.xml", "10:15", "b c d e f", "/open.xml /capabilitylist.xml /archive.xml /1.xml /2.xml"},
		"of an index":        {past(false), "/index.xml", "10:15", "b c d e f", "/index.xml /3.xml /archive.xml /1.xml /2.xml"},
		"by the Capability":  {past(true), "/open.xml", "11:15", "d e f", "/open.xml /capabilitylist.xml /capabilitylist.xml /archive.xml /2.xml"},
		"nothing is missing": {past(false), "/open.xml", "12:15", "f", "/open.xml"},
		"all that there is":  {past(false), "/open.xml", "", "e f", "/open.xml"},
		"an index of archives": {
			with(
				indexed, "/archive.xml",
				sitemapindex(archiveOf("changelist"), listed("/second.xml", "11:00", ""), listed("/first.xml", "10:00", "")),
			),
			"/index.xml", "10:15", "b c d e f",
			"/index.xml /3.xml /archive.xml /first.xml /1.xml /second.xml /2.xml",
		},
		"an archived index": {
			with(
				with(
					past(false), "/old.xml",
					sitemapindex(changed("10:00", "12:00"), listed("/1.xml", "10:00", "11:00"), listed("/2.xml", "11:00", "12:00")),
				),
				"/archive.xml",
				urlset(archiveOf("changelist"), packageOf("old.xml", "10:00", "12:00")),
			),
			"/index.xml", "10:15", "b c d e f",
			"/index.xml /3.xml /archive.xml /old.xml /1.xml /2.xml",
		},
		"an archive out of order": {
			with(
				past(false), "/archive.xml",
				urlset(archiveOf("changelist"), packageOf("2.xml", "11:00", "12:00"), packageOf("1.xml", "10:00", "11:00")),
			),
			"/index.xml", "10:15", "b c d e f", "/index.xml /3.xml /archive.xml /1.xml /2.xml",
		},
		"an archive without times": {
			with(past(false), "/archive.xml", urlset(archiveOf("changelist"), packageOf("1.xml", "", ""), packageOf("2.xml", "", ""))),
			"/index.xml", "10:15", "b c d e f", "/index.xml /3.xml /archive.xml /1.xml /2.xml",
		},
		"a list that is live, too": {
			with(
				past(false), "/archive.xml",
				urlset(
					archiveOf("changelist"), packageOf("1.xml", "10:00", "11:00"),
					packageOf("2.xml", "11:00", "12:00"), packageOf("3.xml", "12:00", ""),
				),
			),
			"/index.xml", "10:15", "b c d e f", "/index.xml /3.xml /archive.xml /1.xml /2.xml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			got, covered, err := visits(t, w.client(lists.Config{}), site+tt.uri, tt.since)
			if err != nil || got != tt.want || !covered.Until.Equal(at("12:20")) || !covered.Open {
				t.Errorf("visited %q, want %q; %+v, %v", got, tt.want, covered, err)
			}
			if asked := strings.Join(w.asks(), " "); asked != tt.asked {
				t.Errorf("asked for %s, want %s", asked, tt.asked)
			}
		})
	}
}

// An archive that has a hole, or begins later, or is broken, is no bridge: its content counts, and the
// rest is reported.
func TestAnArchiveThatDoesNotReach(t *testing.T) {
	with := func(uri string, p page) map[string]page {
		pages := past(false)
		pages[uri] = p
		return pages
	}
	for name, tt := range map[string]struct {
		pages          map[string]page
		since          string
		want, until    string
		earliest, logs string
	}{
		"begins later": {past(false), "09:00", "", "09:00", "10:00", ""},
		"a hole in it": {with(
			"/archive.xml", page{body: urlset(archiveOf("changelist"), packageOf("1.xml", "10:00", "11:00"))},
		), "10:15", "b", "11:00", "", ""},
		"the hole, from there": {with(
			"/archive.xml", page{body: urlset(archiveOf("changelist"), packageOf("1.xml", "10:00", "11:00"))},
		), "11:00", "", "11:00", "12:00", ""},
		"a list is away":   {with("/2.xml", page{status: 404}), "10:15", "b", "11:00", "", "404"},
		"a list is broken": {with("/1.xml", page{body: "<urlset"}), "10:15", "", "10:15", "12:00", "well-formed"},
		"it is away":       {with("/archive.xml", page{status: 404}), "10:15", "", "10:15", "12:00", "404"},
		"it is no archive": {with("/archive.xml", page{body: urlset(taken("10:00", ""))}), "10:15", "", "10:15", "12:00", "resourcelist"},
		"it is at another host": {
			with(
				"/index.xml",
				page{body: sitemapindex(changed("12:00", ""), link("archives", "https://elsewhere.example/"), listed("/3.xml", "12:00", ""))},
			),
			"10:15", "", "10:15", "12:00", "elsewhere",
		},
		"its lists lead to it": {with(
			"/archive.xml", page{body: urlset(archiveOf("changelist"), packageOf("archive.xml", "10:00", "12:00"))},
		), "10:15", "", "10:15", "12:00", "changelist-archive"},
		"an index has the hole": {with(
			"/archive.xml", page{body: urlset(archiveOf("changelist"), packageOf("old.xml", "10:00", "12:00"))},
		), "10:15", "", "10:15", "12:00", "404"},
		"an empty live index": {with(
			"/index.xml", page{body: sitemapindex(changed("12:00", ""), link("archives", "/archive.xml"))},
		), "10:15", "b c d", "12:00", "", ""},
		"it leads to itself": {with(
			"/archive.xml", page{body: sitemapindex(listed("/archive.xml", "", ""))},
		), "10:15", "", "10:15", "12:00", "itself"},
		"a list at another host": {
			with("/archive.xml", page{body: urlset(archiveOf("changelist"), "<url><loc>https://elsewhere.example/1.xml</loc></url>")}),
			"10:15", "", "10:15", "12:00", "elsewhere",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			got, covered, err := visits(t, w.client(lists.Config{}), site+"/index.xml", tt.since)
			if got != tt.want || !covered.Until.Equal(at(tt.until)) {
				t.Errorf("visited %q, %+v", got, covered)
			}
			gone, is := errors.AsType[*lists.GoneError](err)
			if is != (tt.earliest != "") || is && !gone.Earliest.Equal(at(tt.earliest)) || !is && err != nil {
				t.Errorf("error %v, want one that says %q", err, tt.earliest)
			}
			if !strings.Contains(w.logs.String(), tt.logs) {
				t.Errorf("%q is not logged: %s", tt.logs, &w.logs)
			}
		})
	}
	for _, uri := range []string{"/archive.xml", "/1.xml"} {
		w := newNetwork(t, with(uri, page{status: http.StatusServiceUnavailable}))
		_, covered, err := visits(t, w.client(lists.Config{}), site+"/index.xml", "10:15")
		if _, busy := errors.AsType[*lists.BusyError](err); !busy || !covered.Until.Equal(at("10:15")) {
			t.Errorf("%s is busy: %+v, %v", uri, covered, err)
		}
	}
	enough := fmt.Errorf("enough: %w", lists.ErrAnswer)
	w := newNetwork(t, past(false))
	_, err := w.client(lists.Config{}).Changes(t.Context(), site+"/index.xml", at("10:15"), func(payload.Entry) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("the error of a visit: %v", err)
	}
}

// Change Dumps go on by their archive, too.
func TestChangeDumpByTheArchive(t *testing.T) {
	pages := dumps()
	pages["/index.xml"] = page{body: sitemapindex(bundled("12:00", ""), link("archives", "/archive.xml"), listed("/3.xml", "12:00", ""))}
	pages["/archive.xml"] = page{body: urlset(archiveOf("changedump"), packageOf("1.xml", "10:00", "11:00"), packageOf("2.xml", "11:00", "12:00"))}
	got, covered, err := packages(t, newNetwork(t, pages).client(lists.Config{}), site+"/index.xml", "10:40")
	want := "b[10:30-11:00] c[11:00-11:30] d[11:30-12:00] e[12:00-12:10] f[12:10-12:20]"
	if err != nil || got != want || !covered.Until.Equal(at("12:20")) {
		t.Errorf("visited %q, %+v, %v", got, covered, err)
	}
}

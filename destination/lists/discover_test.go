package lists_test

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"carillon/destination/lists"
	"carillon/payload"
)

func lists1(set string) page {
	return page{body: urlset(link("up", site+"/.well-known/resourcesync"), md(`capability="capabilitylist"`),
		"<url><loc>/"+set+`/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>`,
		"<url><loc>"+site+"/"+set+`/changelist.xml</loc><rs:md capability="changelist"/></url>`,
		"<url><loc>"+site+"/"+set+`/dump.xml</loc><rs:md capability="resourcedump"/></url>`,
		"<url><loc>"+site+"/"+set+`/change/</loc><rs:md capability="change-notification"/>`+link("hub", "https://hub.example/")+link("hub", "https://hub2.example/")+link("hub", "https://hub.example/")+"</url>")}
}

func set(name string) lists.Set {
	return lists.Set{
		CapabilityList: site + "/" + name + "/capabilitylist.xml", Description: site + "/.well-known/resourcesync",
		ResourceList: site + "/" + name + "/resourcelist.xml", ChangeList: site + "/" + name + "/changelist.xml",
		ResourceDump: site + "/" + name + "/dump.xml",
		Topic:        site + "/" + name + "/change/", Hubs: []string{"https://hub.example/", "https://hub2.example/"},
	}
}

func description(locs ...string) page {
	body := md(`capability="description"`)
	for _, loc := range locs {
		body += "<url><loc>" + loc + `</loc><rs:md capability="capabilitylist"/></url>`
	}
	return page{body: urlset(body)}
}

// source is a Source with two sets of resources.
func source() map[string]page {
	toA := map[string]string{"Link": `</a/change/>; rel=self, <https://hub.example/>; rel=hub, </a/capabilitylist.xml>; rel="resourcesync"`}
	return map[string]page{
		"/.well-known/resourcesync": description(site+"/a/capabilitylist.xml", "/b/capabilitylist.xml"),
		"/a/capabilitylist.xml":     lists1("a"),
		"/b/capabilitylist.xml":     lists1("b"),
		"/a/resourcelist.xml": {body: urlset(
			link("up", "/a/capabilitylist.xml"),
			md(`capability="resourcelist" at="2026-03-01T10:00:00Z"`),
			strings.Repeat(resource("a"), 10),
		)},
		"/a/change/": {header: toA},
		"/a/latest/": {header: toA, body: urlset(
			link("up", "/b/capabilitylist.xml"), md(`capability="change-notification"`),
			strings.Repeat(change("a", "10:10"), 10),
		)},
		"/a/photo": {header: toA, body: "\xff\xd8\xff"},
		"/b/page": {
			header: map[string]string{"Content-Type": "text/html"},
			body:   `<!DOCTYPE html><html><head><link rel="resourcesync" href="capabilitylist.xml"></head><body><p>text</body></html>`,
		},
		"/b/xhtml": {
			header: map[string]string{"Content-Type": "application/xhtml+xml"},
			body:   `<html xmlns="http://www.w3.org/1999/xhtml"><head><link rel="resourcesync" href="capabilitylist.xml"/></head><body><p>text</p></body></html>`,
		},
		"/descriptions": {body: sitemapindex(md(`capability="description"`), partOf("/.well-known/resourcesync", ""), partOf("/second", ""))},
		"/second":       description("/b/capabilitylist.xml", "/c/capabilitylist.xml"),
		"/c/capabilitylist.xml": {body: urlset(md(`capability="capabilitylist"`),
			`<url><loc>https://elsewhere.example/changelist.xml</loc><rs:md capability="changelist"/></url>`,
			`<url><loc>/c/1.xml</loc><rs:md capability="resourcelist"/></url>`, `<url><loc>/c/2.xml</loc><rs:md capability="resourcelist"/></url>`)},
		"/bare":  {body: "<html><head></head></html>", header: map[string]string{"Content-Type": "text/html"}},
		"/moved": redirect("/a/capabilitylist.xml"),
	}
}

func TestDiscover(t *testing.T) {
	a, b := set("a"), set("b")
	c := lists.Set{CapabilityList: site + "/c/capabilitylist.xml", Description: site + "/second", ResourceList: site + "/c/1.xml"}
	for start, want := range map[string][]lists.Set{
		"/.well-known/resourcesync": {a, b},
		"":                          {a, b},
		"/":                         {a, b},
		"/a/capabilitylist.xml":     {a},
		"/moved":                    {a},
		"/a/resourcelist.xml":       {a},
		"/a/change/":                {a},
		"/a/latest/":                {a},
		"/a/photo":                  {a},
		"/b/page":                   {b},
		"/b/xhtml":                  {b},
		"/descriptions":             {a, b, c},
	} {
		t.Run("of "+start, func(t *testing.T) {
			w := newNetwork(t, source())
			got, err := w.client(lists.Config{}).Discover(t.Context(), site+start)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v\ngot  %+v\nwant %+v\nasked for %v", err, got, want, w.asks())
			}
			if start == "/descriptions" && (!w.warned("core §9", "") || !strings.Contains(w.logs.String(), "elsewhere.example")) {
				t.Errorf("neither warned of two lists nor of another host: %v\n%s", w.warnings, &w.logs)
			}
			if logs := w.logs.String(); start == "/descriptions" && !strings.Contains(logs, "read="+site+"/c/1.xml not_read=/c/2.xml") {
				t.Errorf("it is not said which list is read and which is not:\n%s", logs)
			}
		})
	}
}

// A site whose description is not where it should be is looked for on its first page.
func TestDiscoverBySite(t *testing.T) {
	pages := without(source(), "/.well-known/resourcesync")
	pages["/"] = page{
		header: map[string]string{"Content-Type": "text/html"},
		body:   `<html><head><link rel="resourcesync" href="/b/capabilitylist.xml"></head></html>`,
	}
	got, err := newNetwork(t, pages).client(lists.Config{}).Discover(t.Context(), site+"/")
	if err != nil || !reflect.DeepEqual(got, []lists.Set{set("b")}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A list without a link to a Capability List is read by itself. For any other document the error
// names what is missing.
func TestDiscoverBare(t *testing.T) {
	pages := map[string]page{
		"/resources.xml": {body: urlset(md(`capability="resourcelist" at="2026-03-01T10:00:00Z"`), resource("a"))},
		"/changes.xml":   {body: urlset(md(`capability="changelist" from="2026-03-01T10:00:00Z"`), change("a", "10:10"))},
		"/sitemap.xml":   {body: urlset(resource("a"))},
		"/index.xml":     {body: sitemapindex(partOf("/sitemap.xml", ""))},
		"/lost.xml":      {body: urlset(link("up", "/none.xml"), md(`capability="resourcelist"`), resource("a"))},
		"/away.xml":      {body: urlset(link("up", "/busy.xml"), md(`capability="resourcelist"`), resource("a"))},
		"/busy.xml":      {status: http.StatusServiceUnavailable},
		"/dump.xml":      {body: urlset(md(`capability="resourcedump" at="2026-03-01T10:00:00Z"`))},
		"/archive.xml":   {body: urlset(md(`capability="changelist-archive"`))},
		"/manifest.xml":  {body: urlset(md(`capability="resourcedump-manifest"`))},
		"/deep/page":     {body: "<html><head></head></html>", header: map[string]string{"Content-Type": "text/html"}},
	}
	for start, want := range map[string]lists.Set{
		"/resources.xml": {ResourceList: site + "/resources.xml"}, "/changes.xml": {ChangeList: site + "/changes.xml"},
		"/sitemap.xml": {ResourceList: site + "/sitemap.xml"}, "/index.xml": {ResourceList: site + "/index.xml"}, "/lost.xml": {ResourceList: site + "/lost.xml"},
		"/dump.xml": {ResourceDump: site + "/dump.xml"}, "/archive.xml": {ChangeListArchive: site + "/archive.xml"},
	} {
		w := newNetwork(t, pages)
		got, err := w.client(lists.Config{}).Discover(t.Context(), site+start)
		if err != nil || !reflect.DeepEqual(got, []lists.Set{want}) || !strings.Contains(w.logs.String(), "rel=up, core §6.2") {
			t.Errorf("%s: got %+v, %v\n%s", start, got, err, &w.logs)
		}
	}
	for start, says := range map[string]string{
		"/manifest.xml": "without a link to its Capability List (rel=up, core §6.2)", "/away.xml": "503",
		"/deep/page": "/.well-known/resourcesync and robots.txt were not looked at: begin at " + site + "/",
	} {
		if got, err := newNetwork(t, pages).client(lists.Config{}).Discover(t.Context(), site+start); len(got) > 0 || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %+v, %v", start, got, err)
		}
	}
}

// A site that says nothing else is found by the sitemaps of its robots.txt (core §6.3.4), each of which may lead up.
func TestDiscoverByRobots(t *testing.T) {
	pages := without(source(), "/.well-known/resourcesync")
	pages["/robots.txt"] = page{
		body: "\ufeffSitemap: /sitemap.xml # all\r\nUser-agent: *\nDisallow: /x\nsitemap:" + site + "/a/resourcelist.xml\nSitemap:\nSitemap: https://elsewhere.example/s.xml\nSitemap: /none.xml",
	}
	pages["/sitemap.xml"] = page{body: urlset(resource("a"))}
	want := []lists.Set{{ResourceList: site + "/sitemap.xml"}, set("a")}
	for _, start := range []string{"", "/"} {
		w := newNetwork(t, pages)
		got, err := w.client(lists.Config{}).Discover(t.Context(), site+start)
		if err != nil || !reflect.DeepEqual(got, want) || !strings.Contains(w.logs.String(), "elsewhere.example") {
			t.Errorf("%q: got %+v, %v\n%s", start, got, err, &w.logs)
		}
	}
	pages["/robots.txt"] = page{status: http.StatusServiceUnavailable}
	got, err := newNetwork(t, pages).client(lists.Config{}).Discover(t.Context(), site)
	if _, ok := errors.AsType[*lists.BusyError](err); !ok {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNothingToDiscover(t *testing.T) {
	self := page{body: sitemapindex(md(`capability="description"`), partOf("/i", ""), partOf("/j", ""))}
	for name, tt := range map[string]struct {
		pages map[string]page
		start string
		want  error
	}{
		"a page without a link": {source(), "/bare", lists.ErrNone},
		"404":                   {source(), "/none", lists.ErrAnswer},
		"a site that is away":   {without(source(), "/.well-known/resourcesync"), "/", lists.ErrAnswer},
		"a broken Capability List": {map[string]page{
			"/c": {body: urlset(md(`capability="capabilitylist"`), "<url>")},
		}, "/c", payload.ErrSyntax},
		"a description of nothing":       {map[string]page{"/d": description()}, "/d", lists.ErrNone},
		"a description of broken things": {map[string]page{"/d": description("/1", "/2"), "/2": {body: urlset()}}, "/d", lists.ErrAnswer},
		"another host":                   {map[string]page{"/d": description("https://elsewhere.example/")}, "/d", lists.ErrOtherHost},
		"a link to another host": {map[string]page{
			"/t": {header: map[string]string{"Link": "<https://elsewhere.example/>; rel=resourcesync"}},
		}, "/t", lists.ErrOtherHost},
		"an index of indexes":   {map[string]page{"/i": self, "/j": self}, "/i", lists.ErrLoop},
		"what points to itself": {map[string]page{"/t": {header: map[string]string{"Link": "</t>; rel=resourcesync"}}}, "/t", lists.ErrNone},
		"too many sets": {
			map[string]page{
				"/d":                    description("/a/capabilitylist.xml", "/b/capabilitylist.xml"),
				"/a/capabilitylist.xml": lists1("a"), "/b/capabilitylist.xml": lists1("b"),
			},
			"/d", lists.ErrLoop,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			got, err := w.client(lists.Config{Limits: lists.Limits{Sets: 1}}).Discover(t.Context(), site+tt.start)
			if !errors.Is(err, tt.want) || len(got) > 0 {
				t.Errorf("got %+v, error %v, want %v", got, err, tt.want)
			}
		})
	}
}

// One Capability List of several that is broken is left out; one that is away for a
// while is worth another try.
func TestDiscoverWhatThereIs(t *testing.T) {
	pages := source()
	pages["/a/capabilitylist.xml"] = page{body: "gone mad"}
	w := newNetwork(t, pages)
	got, err := w.client(lists.Config{}).Discover(t.Context(), site)
	if err != nil || !reflect.DeepEqual(got, []lists.Set{set("b")}) || !strings.Contains(w.logs.String(), "left out") {
		t.Errorf("got %+v, %v\n%s", got, err, &w.logs)
	}
	pages["/a/capabilitylist.xml"] = page{status: http.StatusServiceUnavailable}
	got, err = newNetwork(t, pages).client(lists.Config{}).Discover(t.Context(), site)
	if _, ok := errors.AsType[*lists.BusyError](err); !ok {
		t.Errorf("got %+v, %v", got, err)
	}
}

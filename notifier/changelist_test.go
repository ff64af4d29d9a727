package notifier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/payload"
)

// list is a Change List, or an Index of them, as a Destination reads it.
type list struct {
	payload.Header
	entries []payload.Entry
}

// readDoc reads what was answered; a document that is otherwise than the clauses have
// it is an error.
func readDoc(got *httptest.ResponseRecorder) (list, error) {
	if got.Code != http.StatusOK {
		return list{}, fmt.Errorf("status %d: %s", got.Code, got.Body)
	}
	r := payload.NewReader(bytes.NewReader(got.Body.Bytes()), payload.Limits{})
	inspector := payload.NewInspector(payload.CapChangeList)
	var l list
	var err error
	if l.Header, err = r.Header(); err != nil {
		return l, err
	}
	inspector.Head(l.Header)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return l, err
		}
		inspector.Entry(&e)
		l.entries = append(l.entries, e)
	}
	if l.Header, err = r.Header(); err != nil {
		return l, err
	}
	inspector.End(l.Header)
	if all := inspector.Violations(); len(all) > 0 {
		return l, fmt.Errorf("%v in\n%s", all, got.Body)
	}
	return l, nil
}

// link is where the document's link with the relation leads.
func (l list) link(rel string) string {
	for _, link := range l.Links {
		if link.Rel == rel {
			return link.Href
		}
	}
	return ""
}

func (l list) locs() string {
	var locs []string
	for _, e := range l.entries {
		locs = append(locs, strings.TrimPrefix(e.Loc, "http://a.example/"))
	}
	return strings.Join(locs, " ")
}

// get sends a GET to a public address, given as a path or as a URL.
func (w *world) get(path string, headers ...string) *httptest.ResponseRecorder {
	return ask(w.Public(), "GET", "/"+strings.TrimPrefix(path, base), "", headers...)
}

func (w *world) list(path string) list {
	w.t.Helper()
	l, err := readDoc(w.get(path))
	if err != nil {
		w.t.Errorf("%s: %v", path, err)
	}
	return l
}

// want looks at a Change List.
func (w *world) want(path, locs string, closed bool) list {
	w.t.Helper()
	l := w.list(path)
	if l.Root != payload.RootURLSet || l.locs() != locs || closed == l.UntilTime.IsZero() {
		w.t.Errorf("%s is a %s until %q with %s; want a urlset with %s, closed: %t", path, l.Root, l.Until, l.locs(), locs, closed)
	}
	return l
}

// wantIndex looks at the Index; it returns the addresses of the lists.
func (w *world) wantIndex(path string, lists int) (addresses []string) {
	w.t.Helper()
	l := w.list(path)
	if l.Root != payload.RootSitemapIndex || len(l.entries) != lists || len(l.entries) > 0 && l.From != l.entries[0].From {
		w.t.Errorf("%s is a %s with %d lists from %s, want a sitemapindex of %d:\n%+v", path, l.Root, len(l.entries), l.From, lists, l.entries)
	}
	for i, e := range l.entries {
		if i > 0 && e.From != l.entries[i-1].Until || (e.Until == "") != (i == len(l.entries)-1) {
			w.t.Errorf("list %d is from %s until %q", i, e.From, e.Until)
		}
		addresses = append(addresses, e.Loc)
	}
	return addresses
}

// TestChangeListWhileThereIsOne: it has the events as soon as they are in the journal,
// whatever the hub says to them.
func TestChangeListWhileThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{Sets: []string{"a", "b"}}, &hub{answer: always(500)})
		made := time.Now()
		if l := w.want("a/changelist.xml", "", false); !l.FromTime.Equal(made) {
			t.Errorf("the empty list is from %s, want %s", l.From, made)
		}
		time.Sleep(time.Minute)
		w.add([]string{"a"}, "1", "2")
		w.add([]string{"b"}, "3")
		from := made.UTC().Format("20060102T150405.000000Z")
		for _, path := range []string{"a/changelist.xml", "a/changelist/open.xml", "a/changelist/" + from + ".xml"} {
			l := w.want(path, "1 2", false)
			if up := l.link("up"); up != base+"a/capabilitylist.xml" || l.link("index") != "" {
				t.Errorf("%s: up %q, index %q", path, up, l.link("index"))
			}
			if !l.entries[0].Datetime.Equal(time.Now()) {
				t.Errorf("%s: the first change is at %s", path, l.entries[0].Datetime)
			}
		}
		if got := w.get("a/changelist-index.xml"); got.Code != 404 || !strings.Contains(got.Body.String(), base+"a/changelist.xml") {
			t.Errorf("the Index: %d %s", got.Code, got.Body)
		}
		capabilities := w.get("a/capabilitylist.xml").Body.String()
		if !strings.Contains(strings.ReplaceAll(capabilities, "\n", ""), "<loc>"+base+`a/changelist.xml</loc><rs:md capability="changelist"/>`) {
			t.Errorf("the Capability List has no Change List:\n%s", capabilities)
		}
	})
}

func always(code int) func(int, *http.Request) (*http.Response, error) {
	return func(int, *http.Request) (*http.Response, error) { return status(code), nil }
}

// TestChangeListsByCount: lists are closed where they are full, however many events came at once. A
// client that polls one by its address sees that and finds the next.
func TestChangeListsByCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{ChangeListEntries: 3}, &hub{})
		w.add(inDefault, "1", "2")
		first := w.list("default/changelist.xml")
		address := "default/changelist/" + first.FromTime.Format("20060102T150405.000000Z") + ".xml"
		before := w.get(address)
		w.add(inDefault, "3", "4", "5", "6", "7")
		time.Sleep(2 * time.Second)
		addresses := w.wantIndex("default/changelist.xml", 3)
		if again := w.wantIndex("default/changelist-index.xml", 3); !slices.Equal(again, addresses) {
			t.Errorf("the Index has %v and %v", addresses, again)
		}
		if addresses[0] != base+address {
			t.Errorf("the first list is at %s, and was at %s", addresses[0], base+address)
		}
		index := base + "default/changelist-index.xml"
		from := first.From
		for i, locs := range []string{"1 2 3", "4 5 6", "7"} {
			l := w.want(addresses[i], locs, i < 2)
			if l.From != from || l.link("index") != index || l.link("up") != base+"default/capabilitylist.xml" {
				t.Errorf("%s is from %s, want %s; its links: %v", addresses[i], l.From, from, l.Links)
			}
			from = l.Until
			got := w.get(addresses[i]).Header()
			if lasting := strings.Contains(got.Get("Cache-Control"), "immutable"); lasting != (i < 2) {
				t.Errorf("%s: Cache-Control %q", addresses[i], got.Get("Cache-Control"))
			}
		}
		w.want("default/changelist/open.xml", "7", false)
		if after := w.get(address, "If-None-Match: "+before.Header().Get("ETag"),
			"If-Modified-Since: "+before.Header().Get("Last-Modified")); after.Code != 200 {
			t.Errorf("the list that was closed, asked for by the tag of before: %d", after.Code)
		}
		w.add(inDefault, "8", "9")
		time.Sleep(2 * time.Second)
		w.wantIndex("default/changelist.xml", 4)
		w.want("default/changelist/open.xml", "", false) // legal, and there is nothing else to say
	})
}

func TestChangeListsByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{ChangeListFor: time.Minute}, &hub{})
		time.Sleep(5 * time.Minute)
		w.want("default/changelist.xml", "", false) // nothing to close
		w.add(inDefault, "1")
		time.Sleep(30 * time.Second)
		w.add(inDefault, "2")
		time.Sleep(29 * time.Second)
		w.want("default/changelist.xml", "1 2", false)
		time.Sleep(2 * time.Second)
		addresses := w.wantIndex("default/changelist.xml", 2)
		l := w.want(addresses[0], "1 2", true)
		if !l.UntilTime.Equal(l.entries[1].Datetime.Add(time.Microsecond)) {
			t.Errorf("until is %s, the last change at %s", l.Until, l.entries[1].Datetime)
		}
		w.want(addresses[1], "", false)
	})
}

// TestChangeListsBySize: however large the events are.
func TestChangeListsBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{ChangeListBytes: 2 << 20}, &hub{})
		large := journaltest.Created("http://a.example/", inDefault...)
		for range 400 {
			large.Links = append(large.Links, payload.Link{Rel: "related", Href: "http://a.example/" + strings.Repeat("x", 1500)})
		}
		for range 7 { // of 600 kB each
			if err := w.Append(context.Background(), []notifier.Event{large}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		for i, address := range w.wantIndex("default/changelist.xml", 3) {
			got := w.get(address)
			if l, err := readDoc(got); err != nil || len(l.entries) != min(3, 7-3*i) || got.Body.Len() > 2<<20 {
				t.Errorf("%s has %d entries and %d bytes, %v", address, len(l.entries), got.Body.Len(), err)
			}
		}
	})
}

// TestOldChangeListsGo: whole lists go, with their events; a request for one gets the address of the
// others.
func TestOldChangeListsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{ChangeListFor: time.Minute, Keep: 10 * time.Minute}, &hub{})
		w.add(inDefault, "1")
		time.Sleep(4 * time.Minute)
		w.add(inDefault, "2")
		time.Sleep(2 * time.Minute)
		addresses := w.wantIndex("default/changelist.xml", 3)
		time.Sleep(4*time.Minute + time.Second) // the first ended over ten minutes ago
		got := w.get(addresses[0])
		index := base + "default/changelist-index.xml"
		if got.Code != 410 || !strings.Contains(got.Body.String(), index) || got.Header().Get("Link") != "<"+index+`>; rel="index"` {
			t.Errorf("the list that is gone: %d %v %s", got.Code, got.Header(), got.Body)
		}
		w.wantIndex("default/changelist.xml", 2)
		w.want(addresses[1], "2", true)
		w.restart()
		w.wantIndex("default/changelist.xml", 2)
		time.Sleep(10 * time.Minute)
		w.want("default/changelist.xml", "", false)
		if got := w.get(addresses[1]); got.Code != 410 || !strings.Contains(got.Body.String(), base+"default/changelist.xml") {
			t.Errorf("the last closed one, gone: %d %s", got.Code, got.Body)
		}
		if got := w.get("default/changelist-index.xml"); got.Code != 404 {
			t.Errorf("the Index of one: %d", got.Code)
		}
		for path, code := range map[string]int{
			"default/changelist/99991231T235959.999999Z.xml":   404,
			"default/changelist/20260101T000000Z.xml":          404, // no microseconds
			"default/changelist/20261301T000000.000000Z.xml":   404, // no month
			"default/changelist/x.xml":                         404,
			"default/changelist/19700101T000000.000000Z.xml":   410,
			"default/changelist/":                              404,
			"default/changelist/20260101T000000.000000Z.xml/x": 404,
		} {
			if got := w.get(path); got.Code != code {
				t.Errorf("%s: %d, want %d", path, got.Code, code)
			}
		}
		if got := ask(w.Public(), "POST", "/default/changelist.xml", ""); got.Code != 405 || got.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("POST: %d %v", got.Code, got.Header())
		}
	})
}

// TestChangeListsAfterARestart: every document is the one that it was.
func TestChangeListsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{ChangeListEntries: 2}, &hub{})
		w.add(inDefault, "1", "2", "3", "4", "5")
		time.Sleep(2 * time.Second)
		paths := append(w.wantIndex("default/changelist.xml", 3), "default/changelist.xml", "default/changelist/open.xml")
		var before []*httptest.ResponseRecorder
		for _, path := range paths {
			before = append(before, w.get(path))
		}
		time.Sleep(time.Minute)
		w.restart()
		for i, path := range paths {
			after := w.get(path)
			if !bytes.Equal(after.Body.Bytes(), before[i].Body.Bytes()) || after.Header().Get("ETag") != before[i].Header().Get("ETag") {
				t.Errorf("%s is another:\n%s\n%s", path, before[i].Body, after.Body)
			}
		}
	})
}

func TestLastmodAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{LastmodAlways: true}, &hub{})
		deleted := journaltest.Created("http://a.example/1", inDefault...)
		deleted.Change = payload.Deleted
		told := journaltest.Created("http://a.example/2", inDefault...)
		told.LastMod = "2020-01-01T00:00:00Z"
		if err := w.Append(context.Background(), []notifier.Event{deleted, told}); err != nil {
			t.Fatal(err)
		}
		w.drain()
		for what, entries := range map[string][]payload.Entry{
			"the list": w.list("default/changelist.xml").entries, "the notification": w.hub.notes(t, "default")[0].entries,
		} {
			if len(entries) != 2 || entries[0].LastMod != payload.FormatDatetime(entries[0].Datetime) || entries[1].LastMod != "2020-01-01T00:00:00Z" {
				t.Errorf("%s has %+v", what, entries)
			}
		}
		tag := w.get("default/changelist.xml").Header().Get("ETag")
		w.cfg.LastmodAlways = false
		w.restart()
		if l := w.list("default/changelist.xml"); l.entries[0].LastMod != "" {
			t.Errorf("without it lastmod is %q", l.entries[0].LastMod)
		}
		if w.get("default/changelist.xml").Header().Get("ETag") == tag {
			t.Error("the ETag is that of the document with lastmod")
		}
	})
}

// TestLastmodAlwaysLeavesClosedLists: one that is closed never becomes another (core §12.1), whatever is set
// at a later start; the open one does.
func TestLastmodAlwaysLeavesClosedLists(t *testing.T) {
	for _, at := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, notifier.Config{ChangeListEntries: 1, LastmodAlways: at}, &hub{})
			w.add(inDefault, "1")
			time.Sleep(time.Minute)
			path := w.wantIndex("default/changelist.xml", 2)[0]
			before := w.get(path)
			w.cfg.LastmodAlways = !at
			w.restart()
			after := w.get(path)
			if before.Code != 200 || strings.Contains(before.Body.String(), "<lastmod>") != at || !bytes.Equal(after.Body.Bytes(), before.Body.Bytes()) ||
				after.Header().Get("ETag") != before.Header().Get("ETag") {
				t.Errorf("closed with it %v, it is another later: %d\n%s\n%s", at, before.Code, before.Body, after.Body)
			}
		})
	}
}

// TestLastmodAlwaysKeepsTheSize: it counts where a notification is closed by size.
func TestLastmodAlwaysKeepsTheSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{LastmodAlways: true, MaxBytes: 2 << 20}, &hub{})
		w.add(inDefault, make([]string, 17_000)...) // of over 2 MiB with lastmod, and less without
		w.drain()
		posts := w.hub.received()
		for i, p := range posts {
			if len(p.body) > 2<<20 {
				t.Errorf("notification %d has %d bytes", i, len(p.body))
			}
		}
		if len(posts) != 2 {
			t.Errorf("%d notifications, want 2", len(posts))
		}
	})
}

func TestHideChannel(t *testing.T) {
	w := newWorld(t, notifier.Config{Sets: []string{"a", "b"}, HideChannels: []string{"b"}}, &hub{})
	for set, shown := range map[string]bool{"a": true, "b": false} {
		got := w.get(set + "/capabilitylist.xml").Body.String()
		if strings.Contains(got, "change-notification") != shown || !strings.Contains(got, base+set+"/changelist.xml") {
			t.Errorf("the Capability List of %s:\n%s", set, got)
		}
	}
	if got := w.get("b/change/"); got.Code != 200 {
		t.Errorf("the topic that is not shown: %d", got.Code)
	}
}

// Documents for people are linked to from where the standard recommends it.
func TestDescribedBy(t *testing.T) {
	w := newWorld(t, notifier.Config{Sets: []string{"a", "b"}, DescribedBy: map[string]string{
		"": "https://source.example/about?x=1&y=2", "b": "https://source.example/about/b",
	}}, &hub{})
	link := func(uri string) string {
		return `<rs:ln rel="describedby" href="` + strings.ReplaceAll(uri, "&", "&amp;") + `"/>`
	}
	source, b := link("https://source.example/about?x=1&y=2"), link("https://source.example/about/b")
	for path, counts := range map[string][2]int{
		".well-known/resourcesync": {1, 1}, "a/capabilitylist.xml": {0, 0}, "b/capabilitylist.xml": {0, 1},
	} {
		got := w.get(path).Body.String()
		if strings.Count(got, source) != counts[0] || strings.Count(got, b) != counts[1] {
			t.Errorf("%s:\n%s", path, got)
		}
	}
}

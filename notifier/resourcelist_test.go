package notifier_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
	"carillon/payload"
	"carillon/store/pebblestore"
)

// eventOf is an event of the set "a".
func eventOf(kind payload.Change, name, hash string) notifier.Event {
	return notifier.Event{Sets: []string{"a"}, Entry: payload.Entry{Loc: "http://a.example/" + name, Change: kind, Hash: hash}}
}

const (
	md5One = "md5:00000000000000000000000000000001"
	md5Two = "md5:00000000000000000000000000000002"
)

// record appends events.
func (w *world) record(events ...notifier.Event) {
	w.t.Helper()
	if err := w.Append(w.t.Context(), events); err != nil {
		w.t.Fatal(err)
	}
}

// ask asks for a public document.
func (w *world) ask(method, path string, header ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, strings.TrimPrefix(path, "http://source.example"), nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	w.Public().ServeHTTP(answer, r)
	return answer
}

// resourceDoc is a document as a Destination reads it.
type resourceDoc struct {
	payload.Header
	entries []payload.Entry
}

func (l resourceDoc) locs() string {
	var all []string
	for _, e := range l.entries {
		all = append(all, strings.TrimPrefix(e.Loc, "http://a.example/"))
	}
	return strings.Join(all, " ")
}

func (l resourceDoc) link(rel string) string {
	for _, link := range l.Links {
		if link.Rel == rel {
			return link.Href
		}
	}
	return ""
}

// read reads a list or an index, and holds it to the clauses.
func (w *world) read(path string) resourceDoc {
	w.t.Helper()
	answer := w.ask(http.MethodGet, path)
	if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "application/xml" {
		w.t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	if length := answer.Header().Get("Content-Length"); length != "" && length != strconv.Itoa(answer.Body.Len()) {
		w.t.Errorf("%s: Content-Length %s, but there are %d bytes", path, length, answer.Body.Len())
	}
	l, err := readList(answer.Body)
	if err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
	return l
}

func readList(from io.Reader) (l resourceDoc, err error) {
	r := payload.NewReader(from, payload.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return l, err
		}
		l.entries = append(l.entries, e)
	}
	l.Header, err = r.Header()
	return l, err
}

// resources reads the Resource List, whole.
func (w *world) resources() (at time.Time, locs string) {
	w.t.Helper()
	l := w.read("/a/resourcelist.xml")
	at, err := time.Parse(time.RFC3339, l.At)
	if err != nil || l.Capability != payload.CapResourceList || l.link("up") != base+"a/capabilitylist.xml" {
		w.t.Fatalf("the head of the Resource List is %+v, %v", l.Header, err)
	}
	if l.Root != payload.RootSitemapIndex {
		return at, l.locs()
	}
	var parts []string
	for _, part := range l.entries {
		p := w.read(part.Loc)
		if p.At != l.At || p.link("index") == "" || p.link("up") != base+"a/capabilitylist.xml" {
			w.t.Errorf("the head of %s is %+v", part.Loc, p.Header)
		}
		parts = append(parts, p.locs())
	}
	return at, strings.Join(parts, " ")
}

// listed is a world that makes Resource Lists of the set "a".
func listed(t *testing.T, cfg notifier.Config) *world {
	t.Helper()
	cfg.Sets, cfg.ResourceLists, cfg.ResourceListDir = []string{"a"}, []string{"a"}, filepath.Join(t.TempDir(), "lists")
	return newWorld(t, cfg, &hub{})
}

func TestResourceList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := listed(t, notifier.Config{})
		if answer := w.ask(http.MethodGet, "/a/resourcelist.xml"); answer.Code != http.StatusNotFound {
			t.Errorf("before there is a resource: %d", answer.Code)
		}
		if text := w.ask(http.MethodGet, "/a/capabilitylist.xml").Body.String(); strings.Contains(text, "resourcelist") {
			t.Errorf("the Capability List names what is not there:\n%s", text)
		}
		patched := eventOf(payload.Updated, "2", md5Two)
		patched.Links = []payload.Link{
			{Rel: "http://www.openarchives.org/rs/terms/patch", Href: "http://a.example/patch"}, // core §14.4
			{Rel: "describedby", Href: "http://a.example/about"},
		}
		w.record(eventOf(payload.Created, "2", md5One), eventOf(payload.Created, "1", ""), eventOf(payload.Created, "gone", ""))
		w.record(eventOf(payload.Deleted, "gone", ""), patched)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		l := w.read("/a/resourcelist.xml")
		if l.Root == payload.RootSitemapIndex || l.locs() != "1 2" || l.Completed == "" || l.Completed < l.At || l.link("index") != "" {
			t.Errorf("the Resource List is %+v", l)
		}
		if e := l.entries[1]; e.Hash != md5Two || e.Change != "" || !e.Datetime.IsZero() || len(e.Links) != 1 {
			t.Errorf("a resource is %+v", e)
		}
		if text := w.ask(http.MethodGet, "/a/capabilitylist.xml").Body.String(); !strings.Contains(text, base+"a/resourcelist.xml") {
			t.Errorf("the Capability List does not name it:\n%s", text)
		}
		testRepresentations(t, w, "/a/resourcelist.xml", "no-cache")
		part := "/a/resourcelist/" + strings.NewReplacer("-", "", ":", "").Replace(l.At) + "/1.xml"
		testRepresentations(t, w, part, "public, max-age=2592000, immutable")
	})
}

// testRepresentations asks for a document packed and unpacked, and again by its validators.
func testRepresentations(t *testing.T, w *world, path, caching string) {
	t.Helper()
	plain := w.ask(http.MethodGet, path)
	packed := w.ask(http.MethodGet, path, "Accept-Encoding", "gzip")
	unpacked, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if text, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(text, plain.Body.Bytes()) {
		t.Errorf("%s: packed it is another: %v", path, err)
	}
	if packed.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Content-Encoding") != "" ||
		packed.Header().Get("ETag") == plain.Header().Get("ETag") || plain.Header().Get("Vary") != "Accept-Encoding" ||
		plain.Header().Get("Cache-Control") != caching {
		t.Errorf("%s: the heads are %v and, packed, %v", path, plain.Header(), packed.Header())
	}
	head := w.ask(http.MethodHead, path)
	if head.Body.Len() > 0 || head.Header().Get("Content-Length") != strconv.Itoa(plain.Body.Len()) {
		t.Errorf("%s: HEAD has %d bytes, and tells of %s", path, head.Body.Len(), head.Header().Get("Content-Length"))
	}
	for name, value := range map[string]string{
		"If-None-Match":     plain.Header().Get("ETag"),
		"If-Modified-Since": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat),
	} {
		if name == "If-Modified-Since" {
			time.Sleep(2 * time.Second) // the second in which it was made is over
		}
		if again := w.ask(http.MethodGet, path, name, value); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s with %s: %d, %d bytes", path, name, again.Code, again.Body.Len())
		}
	}
	if answer := w.ask(http.MethodPost, path); answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("%s: POST is %d", path, answer.Code)
	}
}

func TestResourceListIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := listed(t, notifier.Config{ResourceListEntries: 3})
		for _, n := range []int{1, 2, 3} { // one list that is just full, and then an Index
			w.record(eventOf(payload.Created, strconv.Itoa(n), ""))
		}
		w.RenewResourceList("a")
		synctest.Wait()
		if l := w.read("/a/resourcelist.xml"); l.Root == payload.RootSitemapIndex || l.locs() != "1 2 3" {
			t.Fatalf("with three resources: %+v", l)
		}
		w.record(eventOf(payload.Created, "4", ""), eventOf(payload.Created, "5", ""), eventOf(payload.Created, "6", ""), eventOf(payload.Created, "7", ""))
		w.RenewResourceList("a")
		synctest.Wait()
		index := w.read("/a/resourcelist.xml")
		if _, locs := w.resources(); index.Root != payload.RootSitemapIndex || len(index.entries) != 3 || locs != "1 2 3 4 5 6 7" {
			t.Errorf("the Index is %+v, its parts have %s", index, locs)
		}
		first := index.entries[0].Loc
		part := w.read(first)
		lasting := part.link("index")
		if got := w.read(lasting); got.Root != payload.RootSitemapIndex || got.At != index.At || index.entries[0].At != index.At {
			t.Errorf("rel=index of a part, %s, is %+v", lasting, got)
		}
		testRepresentations(t, w, lasting, "public, max-age=2592000, immutable")
		w.record(eventOf(payload.Deleted, "1", ""))
		w.RenewResourceList("a")
		synctest.Wait()
		if _, locs := w.resources(); locs != "2 3 4 5 6 7" {
			t.Errorf("the next list has %s", locs)
		}
		if got := w.read(first); got.locs() != "1 2 3" {
			t.Errorf("a part of the list before is %s", got.locs())
		}
		for path, status := range map[string]int{
			strings.Replace(first, "/1.xml", "/4.xml", 1):                      http.StatusNotFound,
			strings.Replace(first, "/1.xml", "/0.xml", 1):                      http.StatusNotFound,
			strings.Replace(first, "/1.xml", "/01.xml", 1):                     http.StatusNotFound,
			"/a/resourcelist/19991231T235959.000000Z/1.xml":                    http.StatusGone,
			"/a/resourcelist/29991231T235959.000000Z/1.xml":                    http.StatusNotFound,
			"/a/resourcelist/29991231T235959.000000Z/entries":                  http.StatusNotFound,
			"/a/resourcelist/29/1.xml":                                         http.StatusNotFound,
			"/a/resourcelist/../../1.xml":                                      http.StatusNotFound,
			"/a/resourcelist/" + strings.Repeat("1", 100) + "/1.xml":           http.StatusNotFound,
			strings.Replace(first, "/1.xml", "/%2e%2e/%2e%2e/events/1.xml", 1): http.StatusNotFound,
		} {
			if answer := w.ask(http.MethodGet, path); answer.Code != status {
				t.Errorf("%s: %d, want %d", path, answer.Code, status)
			}
		}
	})
}

// TestResourceListsComeAndGo: when lists are made, and for how long they are there.
func TestResourceListsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := listed(t, notifier.Config{ResourceListEvery: 3 * time.Minute})
		w.record(eventOf(payload.Created, "1", ""))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		first := w.read("/a/resourcelist.xml")
		firstPart := "/a/resourcelist/" + strings.NewReplacer("-", "", ":", "").Replace(first.At) + "/1.xml"
		for range 9 {
			w.record(eventOf(payload.Created, strconv.FormatInt(time.Now().UnixMicro(), 10), ""))
		}
		w.wantListOf(first.At, "at once after another")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		second := w.read("/a/resourcelist.xml").At
		if second == first.At {
			t.Error("no other list although there were more events than it has resources")
		}
		w.record(eventOf(payload.Updated, "1", ""))
		time.Sleep(2*time.Minute + 50*time.Second)
		synctest.Wait()
		w.wantListOf(second, "before its time")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		third := w.read("/a/resourcelist.xml").At
		if third == second {
			t.Error("no other list in time")
		}
		w.cfg.ResourceListEvery = notifier.DefaultKeep
		w.restart()
		synctest.Wait()
		w.wantListOf(third, "by a restart")
		time.Sleep(23 * time.Hour)
		w.RenewResourceList("a")
		synctest.Wait()
		if got := w.read(firstPart); got.locs() != "1" {
			t.Errorf("within a day the first list is %s", got.locs())
		}
		time.Sleep(2 * time.Hour)
		w.RenewResourceList("a")
		synctest.Wait()
		gone := w.ask(http.MethodGet, firstPart)
		if gone.Code != http.StatusGone || !strings.Contains(gone.Body.String(), base+"a/resourcelist.xml") {
			t.Errorf("after a day the first list is %d %s", gone.Code, gone.Body)
		}
		if names, err := os.ReadDir(filepath.Join(w.cfg.ResourceListDir, "a")); err != nil || len(names) != 3 { // with the one of 23 hours
			t.Errorf("%d lists are kept, %v", len(names), err)
		}
	})
}

// wantListOf wants no other Resource List than that.
func (w *world) wantListOf(at, when string) {
	w.t.Helper()
	if got := w.read("/a/resourcelist.xml").At; got != at {
		w.t.Errorf("another Resource List is made %s, %s", when, got)
	}
}

// TestResourceListRemains: useless leftovers that a start finds are removed.
func TestResourceListRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := listed(t, notifier.Config{})
		w.record(eventOf(payload.Created, "1", ""))
		w.RenewResourceList("a")
		synctest.Wait()
		dir := filepath.Join(w.cfg.ResourceListDir, "a")
		good, err := os.ReadDir(dir)
		if err != nil || len(good) != 1 {
			t.Fatal(good, err)
		}
		w.stop()
		spoiled := func(name string, spoil func(dir string) error) {
			t.Helper()
			copied := filepath.Join(dir, name)
			if err := errors.Join(os.CopyFS(copied, os.DirFS(filepath.Join(dir, good[0].Name()))), datedAs(copied), spoil(copied)); err != nil {
				t.Fatal(err)
			}
		}
		nothing := func(string) error { return nil }
		spoiled("19990101T000000.000001Z.making", nothing)
		spoiled("19990101T000000.000002Z", func(dir string) error { return os.Remove(filepath.Join(dir, "generation.json")) })
		spoiled("19990101T000000.000003Z", func(dir string) error { return os.Truncate(filepath.Join(dir, "1.xml.gz"), 3) })
		spoiled("19990101T000000.000004Z", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "generation.json"), []byte("{}"), 0o600)
		})
		spoiled("19990101T000000.000005Z", func(dir string) error { // of another time than it says
			return errors.Join(os.Rename(dir, dir+"x"), os.Rename(dir+"x", strings.Replace(dir, "05Z", "06Z", 1)))
		})
		spoiled("29990101T000000.000000Z", nothing) // of another journal
		spoiled("mine", nothing)
		w.start()
		synctest.Wait()
		var names []string
		left, err := os.ReadDir(dir)
		for _, entry := range left {
			names = append(names, entry.Name())
		}
		if want := []string{good[0].Name(), "mine"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("%v are left, %v; want %v", names, err, want)
		}
		if _, locs := w.resources(); locs != "1" {
			t.Errorf("the list is %s", locs)
		}
		// One that is away is an error of its own, and nothing else.
		if err := os.Remove(filepath.Join(dir, good[0].Name(), "1.xml.gz")); err != nil {
			t.Fatal(err)
		}
		if answer := w.ask(http.MethodGet, "/a/resourcelist.xml"); answer.Code != http.StatusInternalServerError {
			t.Errorf("a list whose file is away: %d", answer.Code)
		}
	})
}

// datedAs has the list in a directory say that it is of the time of its name.
func datedAs(dir string) error {
	name := filepath.Join(dir, "generation.json")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	told, err := time.Parse("20060102T150405.000000Z", strings.TrimSuffix(filepath.Base(dir), ".making"))
	if err != nil {
		return nil // it has no such name
	}
	at, _, _ := strings.Cut(strings.TrimPrefix(string(text), `{"version":1,"at":"`), `"`)
	return os.WriteFile(name, bytes.Replace(text, []byte(at), []byte(told.Format(time.RFC3339Nano)), 1), 0o600)
}

// TestResourceListsCannotBeMade: trouble with the disk leaves what is there, and is tried again.
func TestResourceListsCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "lists")
		w := newWorld(t, notifier.Config{Sets: []string{"a"}, ResourceLists: []string{"a"}, ResourceListDir: dir}, &hub{})
		if err := os.WriteFile(dir, nil, 0o600); err != nil { // where a directory should be
			t.Fatal(err)
		}
		w.record(eventOf(payload.Created, "1", ""))
		w.RenewResourceList("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		if answer := w.ask(http.MethodGet, "/a/resourcelist.xml"); answer.Code != http.StatusNotFound {
			t.Errorf("a list that could not be made: %d", answer.Code)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, locs := w.resources(); locs != "1" {
			t.Errorf("later the list is %s", locs)
		}
		// An earlier request still counts, where there is a list already.
		w.record(eventOf(payload.Created, "2", ""))
		old := filepath.Join(t.TempDir(), "old")
		if err := errors.Join(os.Rename(dir, old), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		w.RenewResourceList("a")
		synctest.Wait()
		if err := errors.Join(os.Remove(dir), os.Rename(old, dir)); err != nil {
			t.Fatal(err)
		}
		if _, locs := w.resources(); locs != "1" {
			t.Errorf("the list that stays is %s", locs)
		}
		time.Sleep(20 * time.Second) // an overtaken list is made anew after a minute only
		synctest.Wait()
		if _, locs := w.resources(); locs != "1 2" {
			t.Errorf("after the trouble the list is %s", locs)
		}
	})
}

// journal opens the journal of a world that was stopped.
func (w *world) journal(t *testing.T) notifier.Store {
	t.Helper()
	j, err := pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: w.fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func TestResourceListConfig(t *testing.T) {
	w := newWorld(t, notifier.Config{Sets: []string{"a", "b"}}, &hub{})
	w.record(eventOf(payload.Created, "1", ""))
	w.stop()
	ok := notifier.Config{URL: base, Hub: hubURL, Sets: []string{"a"}}
	for want, change := range map[string]func(*notifier.Config){
		`resource-list: "b" is no set here`:              func(c *notifier.Config) { c.ResourceLists = []string{"b"} },
		"resource-list-every must be 1m0s to":            func(c *notifier.Config) { c.ResourceListEvery = time.Second },
		"resource-list-every must be 1m0s to 744h0m0s":   func(c *notifier.Config) { c.ResourceListEvery = 745 * time.Hour },
		"ResourceListEntries must be 1 to 50000, not -1": func(c *notifier.Config) { c.ResourceListEntries = -1 },
		"ResourceListBytes must be 2097152 to 50000000":  func(c *notifier.Config) { c.ResourceListBytes = 1 },
	} {
		c := ok
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	w.cfg.ResourceLists = []string{"b"}
	w.start()
	w.stop()
	j := w.journal(t)
	cfg := w.cfg
	cfg.Journal, cfg.ResourceLists = j, []string{"a"}
	if _, err := notifier.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "notifier import a < resources.ndjson") {
		t.Errorf("a set that had events before: %v", err)
	}
}

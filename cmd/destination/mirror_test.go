package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/payload"
	"carillon/store/pebblestore"
)

// shelf is a Source without push: resources, a Resource List of when it was listed, and a Change
// List since.
type shelf struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	files   map[string]string
	listed  []payload.Entry
	at      time.Time
	changes []payload.Entry
	clock   time.Time
	topic   string              // if there is one
	got     map[string]chan any // closed when the file is fetched
}

func newShelf(t *testing.T) *shelf {
	s := &shelf{t: t, files: map[string]string{}, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), got: map[string]chan any{}}
	s.at = s.clock
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// withHub has the shelf push its changes, too.
func (s *shelf) withHub() *site {
	hub := newSite(s.t)
	inner := hub.Config.Handler
	hub.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r)
		w.Header().Add("Link", "<"+s.URL+"/caps.xml>; rel=resourcesync")
	})
	s.topic = hub.topic()
	return hub
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := []payload.Link{{Rel: "up", Href: s.URL + "/caps.xml"}}
	switch r.URL.Path {
	case "/.well-known/resourcesync":
		s.must(payload.WriteSourceDescription(w, payload.SourceDescription{CapabilityLists: []payload.CapabilityListRef{{Loc: s.URL + "/caps.xml"}}}))
	case "/caps.xml":
		all := []payload.Capability{
			{Loc: s.URL + "/resources.xml", Capability: payload.CapResourceList}, {Loc: s.URL + "/changes.xml", Capability: payload.CapChangeList},
		}
		if s.topic != "" {
			all = append(
				all,
				payload.Capability{Loc: s.topic, Capability: payload.ChangeNotification, Links: []payload.Link{{Rel: "hub", Href: s.topic + "hub"}}},
			)
		}
		s.must(payload.WriteCapabilityList(w, payload.CapabilityList{Up: s.URL + "/.well-known/resourcesync", Capabilities: all}))
	case "/resources.xml":
		s.list(w, payload.Head{Capability: payload.CapResourceList, At: s.at, Links: up}, s.listed, payload.AppendResource)
	case "/changes.xml":
		s.list(w, payload.Head{Capability: payload.CapChangeList, From: s.at, Links: up}, s.changes, payload.AppendEntry)
	default:
		text, ok := s.files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text))
		if got := s.got[r.URL.Path]; got != nil {
			close(got)
			delete(s.got, r.URL.Path)
		}
	}
}

func (s *shelf) must(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

func (s *shelf) list(w http.ResponseWriter, head payload.Head, entries []payload.Entry, add func([]byte, *payload.Entry) ([]byte, error)) {
	doc, err := payload.AppendHead(nil, head)
	s.must(err)
	for i := range entries {
		doc, err = add(doc, &entries[i])
		s.must(err)
	}
	_, _ = w.Write(payload.AppendTail(doc, false))
}

// put changes a resource; "" deletes it.
func (s *shelf) put(path, text string) *payload.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(time.Minute)
	e := payload.Entry{Loc: s.URL + path, Change: payload.Deleted, Datetime: s.clock}
	delete(s.files, path)
	if text != "" {
		s.files[path] = text
		e.Change, e.Hash, e.Length = payload.Updated, fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(text))), fmt.Sprint(len(text))
		e.LastMod = payload.FormatDatetime(s.clock)
	}
	s.changes = append(s.changes, e)
	return &s.changes[len(s.changes)-1]
}

// snapshot makes a new Resource List, and drops the changes before.
func (s *shelf) snapshot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := map[string]payload.Entry{}
	for _, e := range append(s.listed, s.changes...) {
		last[e.Loc] = e
	}
	s.listed = nil
	for _, e := range last {
		if e.Change != payload.Deleted {
			e.Change, e.Datetime = "", time.Time{}
			s.listed = append(s.listed, e)
		}
	}
	s.clock = s.clock.Add(time.Minute)
	s.at, s.changes = s.clock, nil
}

// mirrored runs the commands on one mirror.
type mirrored struct {
	t         *testing.T
	shelf     *shelf
	dir, data string
}

func (m *mirrored) run(command string, status int, args ...string) (stdout, stderr string) {
	m.t.Helper()
	var out, logs bytes.Buffer
	args = append([]string{command, "--source", m.shelf.URL, "--mirror", m.dir, "--data", m.data, "--min-free", "1B"}, args...)
	if got := run(m.t.Context(), args, &out, &logs); got != status {
		m.t.Fatalf("%s: status %d, want %d\n%s%s", command, got, status, &out, &logs)
	}
	return out.String(), logs.String()
}

func (m *mirrored) want(path, text string) {
	m.t.Helper()
	host := strings.Replace(strings.TrimPrefix(m.shelf.URL, "http://"), ":", "+", 1)
	got, err := os.ReadFile(filepath.Join(m.dir, host, path))
	if string(got) != text || (err == nil) != (text != "") {
		m.t.Errorf("%s is %q, %v; want %q", path, got, err, text)
	}
}

func newMirrored(t *testing.T) *mirrored {
	return &mirrored{t, newShelf(t), filepath.Join(t.TempDir(), "copies"), filepath.Join(t.TempDir(), "data")}
}

// A baseline, what has changed since, and audits before and after.
func TestMirrorCommands(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	s.put("/a.txt", "one")
	s.put("/b/c.txt", "two")
	s.put("/gone.txt", "three")
	s.snapshot()
	s.put("/late.txt", "after the list")

	_, logs := m.run("incremental", 1)
	if !strings.Contains(logs, "take a baseline first, or say it by --since") {
		t.Errorf("incremental before a baseline: %s", logs)
	}
	out, _ := m.run("baseline", 0)
	if !strings.HasPrefix(out, "baseline: 4 fetched (0.0 MB), 0 unchanged") {
		t.Errorf("baseline: %s", out)
	}
	m.want("b/c.txt", "two")
	m.want("late.txt", "after the list")
	if out, _ := m.run("audit", 0); !strings.HasPrefix(out, "audit: in sync: 3 resources listed and 1 changes since; 0 missing") {
		t.Errorf("audit: %s", out)
	}

	s.put("/a.txt", "changed")
	s.put("/gone.txt", "")
	out, _ = m.run("audit", 1, "--json")
	var findings []map[string]any
	for line := range strings.Lines(out) {
		var f map[string]any
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		findings = append(findings, f)
	}
	if len(findings) != 3 || findings[0]["finding"] != "differs" || findings[0]["loc"] != s.URL+"/a.txt" || fmt.Sprint(findings[0]["by"]) != "[length lastmod hash]" ||
		findings[1]["finding"] != "extra" || findings[2]["in_sync"] != false || findings[2]["differing"] != 1.0 {
		t.Errorf("audit: %s", out)
	}
	if out, _ := m.run("audit", 1); !strings.Contains(out, `differs "`+s.URL+`/a.txt" by length, lastmod, hash; lastmod `) {
		t.Errorf("audit: %s", out)
	}

	out, _ = m.run("incremental", 0, "--json")
	var done struct {
		Command                             string
		Fetched, Whole, Kept, Failed, Bytes int
	}
	if err := json.Unmarshal([]byte(out), &done); err != nil || done.Command != "incremental" || done.Fetched != 1 || done.Whole != 3 || done.Kept != 1 || done.Bytes != 7 {
		t.Errorf("incremental: %v %s", err, out)
	}
	m.want("a.txt", "changed")
	m.want("gone.txt", "three")
	if out, _ := m.run("audit", 0); !strings.Contains(out, "1 kept though deleted") {
		t.Errorf("audit: %s", out)
	}
	m.run("incremental", 0, "--delete") // kept copies go, though no change announces it any more
	m.want("gone.txt", "")

	// The Change List has moved on beyond where this one ended.
	s.put("/a.txt", "more")
	s.snapshot()
	s.put("/a.txt", "and more")
	if _, logs := m.run("incremental", 1); !strings.Contains(logs, "take a new baseline") {
		t.Errorf("incremental: %s", logs)
	}
	m.run("baseline", 0, "--delete")
	m.want("a.txt", "and more")
	m.run("audit", 0, "--quick")
}

// Content that differs from the Source's description ends with status 1, and the next run mends it; a
// resource that its server lacks does not.
func TestMirrorTrouble(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	s.put("/good", "good")
	s.put("/bad", "bad!")
	s.put("/missing", "missing")
	s.snapshot()
	s.files["/bad"] = "evil"
	delete(s.files, "/missing")
	out, logs := m.run("baseline", 1, "--retries", "0")
	if !strings.Contains(out, "1 whole, 1 missing at their servers, 1 failed") || !strings.Contains(logs, "its hash is sha-256:") ||
		!strings.Contains(logs, "1 resources could not be fetched, or are not what the Source tells") {
		t.Errorf("baseline: %s%s", out, logs)
	}
	m.want("bad", "")
	s.files["/bad"] = "bad!"
	m.run("baseline", 0)
	m.want("bad", "bad!")
	if out, _ := m.run("audit", 1); !strings.Contains(out, `missing "`+s.URL+`/missing": "its server answers 404 Not Found"`) {
		t.Errorf("audit: %s", out)
	}
	s.put("/elsewhere", "x").Loc = "http://169.254.169.254/latest"
	if _, logs := m.run("incremental", 1); !strings.Contains(logs, "name where they are by --base") {
		t.Errorf("incremental: %s", logs)
	}
	m.run("incremental", 0, "--base", s.URL, "--base", s.URL+"/b/")
}

// A loc that cannot be asked for is not outside of --base: the mirror cannot be in sync.
func TestMirrorInvalidLoc(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	s.put("/good", "good")
	s.put("/100%25.txt", "x").Loc = s.URL + "/100%.txt"
	s.snapshot()
	for _, args := range [][]string{nil, {"--base", s.URL}} {
		out, logs := m.run("baseline", 1, append(args, "--retries", "0")...)
		if !strings.Contains(out, "1 whole, ") || !strings.Contains(out, "0 outside, 1 invalid") || !strings.Contains(
			logs, "1 resources have a loc that is not a URI that can be asked for",
		) ||
			strings.Contains(logs, "name where they are by --base") {
			t.Errorf("baseline %q: %s%s", args, out, logs)
		}
		if out, _ := m.run("audit", 1, args...); !strings.Contains(out, `invalid "`+s.URL+`/100%.txt"`) || !strings.Contains(out, "not in sync") || !strings.Contains(out, "1 invalid") {
			t.Errorf("audit %q: %s", args, out)
		}
		if _, logs := m.run("incremental", 1, args...); !strings.Contains(logs, "1 resources have a loc that is not a URI") {
			t.Errorf("incremental %q: %s", args, logs)
		}
	}
}

// A mirror can be kept by a list or a sitemap alone, also one that only robots.txt names.
func TestMirrorBare(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.put("/a.txt", "one")
	s.snapshot()
	s.put("/a.txt", "two")
	s.put("/b.txt", "new")
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/resourcesync", "/caps.xml":
			http.NotFound(w, r)
		case "/robots.txt":
			fmt.Fprintf(w, "User-agent: *\nSitemap: %s/sitemap.xml\n", s.URL)
		case "/sitemap.xml":
			fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>%s/a.txt</loc></url></urlset>`, s.URL)
		default:
			inner.ServeHTTP(w, r)
		}
	})
	for _, at := range []string{"/", "/sitemap.xml"} {
		m := &mirrored{t, s, filepath.Join(t.TempDir(), "copies"), filepath.Join(t.TempDir(), "data")}
		m.run("baseline", 0, "--source", s.URL+at)
		m.want("a.txt", "two")
		m.want("b.txt", "")
		m.run("audit", 0, "--source", s.URL+at)
		if _, logs := m.run("incremental", 1, "--source", s.URL+at); !strings.Contains(logs, "a Change List") {
			t.Errorf("incremental without a Change List: %s", logs)
		}
	}
	m := &mirrored{t, s, filepath.Join(t.TempDir(), "copies"), filepath.Join(t.TempDir(), "data")}
	m.run("incremental", 0, "--source", s.URL+"/changes.xml", "--since", payload.FormatDatetime(s.at))
	m.want("a.txt", "two")
	m.want("b.txt", "new")
	s.put("/b.txt", "newer")
	m.run("incremental", 0, "--source", s.URL+"/changes.xml")
	m.want("b.txt", "newer")
	if _, logs := m.run("baseline", 1, "--source", s.URL+"/changes.xml"); !strings.Contains(logs, "a Resource List") {
		t.Errorf("baseline without a Resource List: %s", logs)
	}
	m.shelf.put("/a.txt", "three")
	m = &mirrored{t, s, filepath.Join(t.TempDir(), "copies"), filepath.Join(t.TempDir(), "data")}
	s.snapshot()
	m.run("baseline", 0, "--source", s.URL+"/resources.xml")
	m.want("a.txt", "three")
	m.run("audit", 0, "--source", s.URL+"/resources.xml")
}

func TestMirrorRefusals(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	m.shelf.put("/a", "a")
	m.shelf.snapshot()
	m.run("baseline", 0)
	other := newShelf(t)
	other.snapshot()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no source":      {[]string{"baseline", "--mirror", m.dir}, "--source"},
		"no mirror":      {[]string{"baseline", "--source", m.shelf.URL}, "--mirror: must name a directory"},
		"bad base":       {[]string{"audit", "--source", m.shelf.URL, "--mirror", m.dir, "--base", "here"}, "--base: "},
		"bad since":      {[]string{"incremental", "--source", m.shelf.URL, "--mirror", m.dir, "--since", "now"}, "--since: "},
		"since ahead":    {[]string{"incremental", "--source", m.shelf.URL, "--mirror", m.dir, "--since", "2999-01-01"}, "lies in the future"},
		"bad source":     {[]string{"audit", "--source", "file:///etc", "--mirror", m.dir}, "--source: "},
		"too parallel":   {[]string{"audit", "--source", m.shelf.URL, "--mirror", m.dir, "--parallel", "100000"}, "--parallel: "},
		"other's data":   {[]string{"baseline", "--source", other.URL, "--mirror", filepath.Join(t.TempDir(), "x"), "--data", m.data}, "belongs to"},
		"nothing there":  {[]string{"baseline", "--source", m.shelf.URL + "/none", "--mirror", m.dir, "--data", m.data}, "--source: "},
		"mirror is file": {[]string{"baseline", "--source", m.shelf.URL, "--mirror", "mirror_test.go", "--data", m.data}, "mirror directory: "},
	} {
		t.Run(name, func(t *testing.T) {
			var out, logs bytes.Buffer
			args := tt.args
			if !strings.Contains(strings.Join(args, " "), "--data") {
				args = append(args, "--data", filepath.Join(t.TempDir(), "data"))
			}
			status := run(t.Context(), args, &out, &logs)
			if got := logs.String(); status != 1 || out.Len() != 0 || !strings.Contains(got, "destination: ") || !strings.Contains(got, tt.want) {
				t.Errorf("status %d, stdout %q, stderr %q; want %q", status, &out, got, tt.want)
			}
		})
	}
}

// A mirror that follows: the state first, then what is pushed; and at the end an audit in sync.
func TestFollowMirror(t *testing.T) {
	t.Parallel()
	const files, changed = 300, 60
	m := newMirrored(t)
	s := m.shelf
	hub := s.withHub()
	for i := range files {
		s.put(fmt.Sprintf("/d%d/f%d", i%7, i), fmt.Sprintf("content %d", i))
	}
	s.snapshot()
	last := make(chan any)
	s.got["/last"] = last
	p := start(t, "follow", "--topic", s.topic, "--mirror", m.dir, "--base", s.URL+"/", "--trust-host", strings.TrimPrefix(s.URL, "http://"),
		"--data", m.data, "--delete", "--min-free", "1B", "--listen", "127.0.0.1:0", "--settle", "1ms")
	if ready := p.line(); !strings.HasPrefix(ready, "destination ready listen=") {
		t.Fatalf("the first line is %q", ready)
	}
	sub := <-hub.asked
	from := s.at
	for i := range changed {
		path, text := fmt.Sprintf("/d%d/f%d", i%7, i), fmt.Sprintf("changed %d", i)
		switch {
		case i == changed-1:
			path, text = "/last", "the last"
		case i%3 == 0:
			text = ""
		case i%3 == 1:
			path += "-new"
		}
		e := s.put(path, text)
		until := e.Datetime.Add(time.Second)
		var doc bytes.Buffer
		n, err := payload.NewNotificationWriter(&doc, payload.Interval{From: from, Until: until}, "")
		s.must(errors.Join(err, n.Write(e), n.Close()))
		hub.deliver(sub, fmt.Sprint("n", i), doc.String())
		from = until
	}
	<-last
	if status := p.end(); status != 0 {
		t.Fatalf("status %d: %s", status, &p.logs)
	}
	out, _ := m.run("incremental", 0, "--topic", s.topic, "--trust-host", strings.TrimPrefix(hub.URL, "http://"), "--delete")
	if !strings.HasPrefix(out, "incremental: 0 fetched") && !strings.HasPrefix(out, "incremental: 1 fetched") {
		t.Errorf("not all was followed: %s", out)
	}
	m.want("last", "the last")
	m.want("d0/f0", "")
	m.run("audit", 0, "--topic", s.topic, "--trust-host", strings.TrimPrefix(hub.URL, "http://"))
}

// A datetime in the future does not move the position: the next change is taken.
func TestIncrementalFuture(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	s.put("/a.txt", "one")
	s.snapshot()
	m.run("baseline", 0)
	s.put("/odd.txt", "odd").Datetime = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	m.run("incremental", 0)
	m.want("odd.txt", "odd")
	s.put("/a.txt", "changed")
	s.put("/b.txt", "new")
	m.run("incremental", 0)
	m.want("a.txt", "changed")
	m.want("b.txt", "new")
}

// A Resource List that does not tell its moment, of some time ago: all of the Change List counts. Where that
// cannot be read, it is not pretended that it was.
func TestBaselineWithoutAt(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	inner := s.Config.Handler
	at := regexp.MustCompile(` at="[^"]*"`)
	away := true
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/changes.xml" && away:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/resources.xml":
			rec := httptest.NewRecorder()
			inner.ServeHTTP(rec, r)
			_, _ = w.Write(at.ReplaceAll(rec.Body.Bytes(), nil))
		default:
			inner.ServeHTTP(w, r)
		}
	})
	s.put("/a.txt", "one")
	s.put("/gone.txt", "three")
	s.snapshot()
	s.put("/late.txt", "after the list")
	s.put("/gone.txt", "")
	s.files["/gone.txt"] = "three" // some cache has it still
	if out, logs := m.run("baseline", 1, "--delete"); !strings.HasPrefix(out, "baseline: 2 fetched") || !strings.Contains(logs, "take the baseline again") {
		t.Errorf("baseline: %s%s", out, logs)
	}
	if _, logs := m.run("incremental", 1); !strings.Contains(logs, "take a baseline first") {
		t.Errorf("incremental: %s", logs)
	}
	away = false
	m.run("baseline", 0, "--delete")
	m.want("late.txt", "after the list")
	m.want("gone.txt", "")
	s.put("/a.txt", "changed")
	m.run("incremental", 0)
	m.want("a.txt", "changed")
}

// The number of deletions at once is bounded; held-back ones go when they may.
func TestMaxDeleteFlag(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	for i := range 13 {
		s.put(fmt.Sprintf("/f%d", i), "text")
	}
	s.snapshot()
	m.run("baseline", 0, "--delete")
	s.listed = s.listed[:1]
	s.snapshot()
	if out, logs := m.run("baseline", 1, "--delete"); !strings.Contains(out, "0 deleted") || !strings.Contains(out, "12 kept though deleted") || !strings.Contains(
		logs, "12 of 13 copies, and --max-delete 50% is 10",
	) {
		t.Errorf("baseline: %s%s", out, logs)
	}
	s.put("/new", "new")
	if _, logs := m.run("incremental", 1, "--delete"); !strings.Contains(logs, "too much is to be deleted at once") {
		t.Errorf("incremental: %s", logs)
	}
	m.want("new", "new")
	if out, _ := m.run("incremental", 0, "--delete", "--max-delete", "12"); !strings.Contains(out, "12 deleted") {
		t.Errorf("incremental: %s", out)
	}
	if _, logs := m.run("baseline", 1, "--max-delete", "0"); !strings.Contains(logs, "--max-delete") {
		t.Errorf("no limit: %s", logs)
	}
}

// A Source may offer more than when its copies were begun, also a topic; another is refused.
func TestSourceOffersMore(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	s.put("/a", "a")
	s.snapshot()
	store, err := openStore(m.data, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b := pebblestore.Belonging{Names: []string{s.URL + "/resources.xml"}, Begin: "at once"}
	if _, err := store.Following().Belong(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := store.Following().Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	m.run("baseline", 0)
	hub := s.withHub()
	p := start(t, "follow", "--topic", s.topic, "--mirror", m.dir, "--base", s.URL+"/", "--trust-host", strings.TrimPrefix(s.URL, "http://"),
		"--data", m.data, "--min-free", "1B", "--listen", "127.0.0.1:0")
	if ready := p.line(); !strings.HasPrefix(ready, "destination ready listen=") {
		t.Errorf("the first line is %q", ready)
	}
	<-hub.asked
	if status := p.end(); status != 0 {
		t.Errorf("status %d: %s", status, &p.logs)
	}
}

package mirror_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/destination/follow"
	"carillon/destination/mirror"
	"carillon/payload"
)

func TestTake(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true; c.Sync = true })
	first := s.put("/d/a.txt", "one")
	c.handle(first, s.put("/d/b.txt", "two"), s.put("/empty", ""))
	c.want("d/a.txt", "one")
	c.want("d/b.txt", "two")
	if info, err := os.Stat(filepath.Join(c.dir, c.host, "d", "a.txt")); err != nil || !info.ModTime().Equal(first.Datetime) {
		t.Errorf("its time is %v, %v; want %s", info.ModTime(), err, first.LastMod)
	}
	if got := c.is(first.Loc, mirror.Whole, ""); got.File == nil || got.File.Size != 3 || got.File.ETag == "" || got.Path != c.host+"/d/a.txt" {
		t.Errorf("%+v", got)
	}

	// A change that is handed on again is not fetched again, and an older one changes nothing.
	before := s.requests()
	c.handle(first)
	second := s.put("/d/a.txt", "three")
	c.handle(second)
	c.want("d/a.txt", "three")
	c.handle(first)
	c.handle(first, second)
	c.want("d/a.txt", "three")
	c.is(first.Loc, mirror.Whole, "")
	if n := s.requests() - before; n != 1 {
		t.Errorf("%d requests for one new change", n)
	}

	// Of several changes of one resource the last counts.
	before = s.requests()
	c.handle(s.put("/d/c.txt", "x"), s.delete("/d/c.txt"), s.put("/d/b.txt", "four"), s.put("/d/b.txt", "five"))
	c.want("d/c.txt", "")
	c.want("d/b.txt", "five")
	if n := s.requests() - before; n != 1 {
		t.Errorf("%d requests", n)
	}

	// A deletion takes the file, and directories that it leaves empty.
	c.handle(s.put("/d/e/f/g", "deep"))
	c.handle(s.delete("/d/a.txt"), s.delete("/d/b.txt"), s.delete("/d/e/f/g"), s.delete("/never"))
	if got := c.files(); len(got) != 1 || got[0] != c.host+"/empty" {
		t.Errorf("left: %q", got)
	}
	if _, err := os.Stat(filepath.Join(c.dir, c.host, "d")); err == nil {
		t.Error("an empty directory is left")
	}
	if _, err := c.store.Mirrored().Copy(t.Context(), first.Loc); !errors.Is(err, mirror.ErrNone) {
		t.Errorf("a resource that was deleted: %v", err)
	}
	c.nothingHalf()
}

// Without Delete a deletion is recorded; with it, later, it is carried out.
func TestKept(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	c.handle(s.put("/a", "one"), s.put("/b", "two"))
	gone := s.delete("/a")
	c.handle(gone)
	c.want("a", "one")
	c.is(gone.Loc, mirror.Gone, "")
	c.handle(s.delete("/b"), s.put("/b", "three")) // it came back
	c.want("b", "three")

	c.reopen(func(c *mirror.Config) { c.Delete = true })
	if err := c.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.want("a", "")
	c.want("b", "three")
}

// Content that does not match the description does not replace the file, is recorded, and is tried
// again.
func TestWrong(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	c.handle(s.put("/a", "good"))
	for name, tt := range map[string]struct {
		break_ func(*follow.Change)
		reason string
	}{
		"hash":        {func(e *follow.Change) { e.Hash = "sha-256:" + digest("other") }, "its hash is sha-256:"},
		"second hash": {func(e *follow.Change) { e.Hash += " md5:" + strings.Repeat("0", 32) }, "its hash is md5:"},
		"shorter":     {func(e *follow.Change) { e.Length = "9" }, "it has 4 bytes, and the Source announced 9"},
		"longer":      {func(e *follow.Change) { e.Length = "3" }, "more bytes than the 3"},
		"too large":   {func(e *follow.Change) { e.Length = "99999999999999" }, "more than the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			e := s.put("/a", "evil")
			whole := e
			tt.break_(&e)
			c.handle(e)
			c.want("a", "good")
			c.is(e.Loc, mirror.Failed, tt.reason)
			c.nothingHalf()
			if all, bad, err := c.Counts(t.Context(), 10); err != nil || all[mirror.Failed] != 1 || len(bad) != 1 {
				t.Errorf("%v %v %v", all, bad, err)
			}
			c.handle(whole)
			c.want("a", "evil")
			c.handle(s.put("/a", "good"))
		})
	}
	// Unknown algorithms and digests are no hindrance.
	e := s.put("/a", "new")
	e.Hash = "crc32:00 sha-256:f4OxZX_x_DFGFDgghgdfb6rtSx-iosjf6735432nklj"
	c.handle(e)
	c.want("a", "new")
	if got := c.is(e.Loc, mirror.Whole, ""); got.Described.Hash != e.Hash {
		t.Errorf("its hash is kept as %q", got.Described.Hash)
	}
}

func TestAnswers(t *testing.T) {
	s := newSource(t)
	other := newSource(t)
	other.put("/x", "stolen")
	patient := newCopies(t, s, func(c *mirror.Config) { c.MaxBytes, c.RetryFirst, c.RetryMax = 1000, time.Hour, 100*time.Hour })
	hasty := newCopies(t, s, func(c *mirror.Config) {
		c.Idle = 50 * time.Millisecond
		c.RetryFirst, c.RetryMax = time.Hour, 100*time.Hour
	})
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	hangs := make(chan struct{})
	defer close(hangs)
	s.put("/real", "real")
	for uri, tt := range map[string]struct {
		response http.HandlerFunc
		state    mirror.State
		reason   string
	}{
		"/404":       {http.NotFound, mirror.Missing, "404 Not Found"},
		"/410":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }, mirror.Missing, "410 Gone"},
		"/403":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, mirror.Failed, "403 Forbidden"},
		"/204":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, mirror.Failed, "204 No Content"},
		"/304":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, mirror.Failed, "304 Not Modified"},
		"/500":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, mirror.Failed, "500 Internal"},
		"/redirect":  {redirect("/real"), mirror.Whole, ""},
		"/elsewhere": {redirect(other.URL + "/x"), mirror.Failed, "which is another host"},
		"/scheme":    {redirect("file:///etc/passwd"), mirror.Failed, "which is no http or https address"},
		"/loop":      {redirect("/loop"), mirror.Failed, "redirects more than 5 times"},
		"/endless": {func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				_, _ = io.WriteString(w, strings.Repeat("x", 100))
			}
		}, mirror.Failed, "more bytes than the limit of 1000"},
		"/large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			w.WriteHeader(200)
		}, mirror.Failed, "5000 bytes, more than the limit"},
		"/breaks": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "50")
			_, _ = io.WriteString(w, "half")
		}, mirror.Failed, "broke off"},
		"/hangs": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-hangs:
			case <-r.Context().Done():
			}
		}, mirror.Failed, "nothing more came"},
	} {
		s.behave(uri, tt.response)
		e, c := s.change(payload.Created, uri), patient
		if uri == "/hangs" {
			c = hasty
		}
		c.handle(e)
		if got := c.is(e.Loc, tt.state, tt.reason); got.State != mirror.Whole && got.File != nil {
			t.Errorf("%s has a file", uri)
		} else if wait := time.Until(got.Next); got.State != mirror.Whole && (wait < 20*time.Minute || wait > time.Hour) {
			t.Errorf("%s is tried again in %s", uri, wait)
		}
	}
	hasty.nothingHalf()
	c := patient
	c.want("redirect", "real")
	c.nothingHalf()
	for loc, state := range map[string]mirror.State{
		other.URL + "/x": mirror.Refused, "ftp://a.test/x": mirror.Invalid, "http://u:p@" + c.host + "/x": mirror.Invalid,
		s.URL + "/100%.txt": mirror.Invalid,
	} {
		c.handle(follow.Change{Entry: payload.Entry{Loc: loc, Change: payload.Created, Datetime: s.clock}})
		c.is(loc, state, "")
	}
	if other.requests() != 0 {
		t.Error("another host was asked")
	}
	if got := c.files(); len(got) != 1 {
		t.Errorf("the files are %q", got)
	}
}

// A server may ask for a wait that is longer than the next one, up to the longest.
func TestRetryAfter(t *testing.T) {
	s := newSource(t)
	for asked, want := range map[string]time.Duration{
		"5400": 90 * time.Minute, "99999999999": 2 * time.Hour, "Fri, 31 Dec 9999 23:59:59 GMT": 2 * time.Hour,
	} {
		c := newCopies(t, s, func(c *mirror.Config) { c.RetryFirst, c.RetryMax = time.Minute, 2*time.Hour })
		s.behave("/a", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", asked)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		e := s.change(payload.Created, "/a")
		c.handle(e)
		if wait := time.Until(c.is(e.Loc, mirror.Failed, "503").Next); wait > want || wait < want-10*time.Minute {
			t.Errorf("%s: it is tried again in %s, want %s", asked, wait, want)
		}
	}
}

// For a change without a hash the request is conditional on the copy. A server's "not modified" does
// not outweigh the Source's description.
func TestConditional(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	var last string
	s.behave("/a", func(w http.ResponseWriter, r *http.Request) {
		last = r.Header.Get("If-None-Match") + " " + r.Header.Get("If-Modified-Since")
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, s.content["/a"])
	})
	tell := func(text string) follow.Change {
		e := s.put("/a", text)
		e.Hash, e.Length, e.LastMod = "", "", ""
		return e
	}
	c.handle(tell("one"))
	if last != " " {
		t.Errorf("asked at first with %q", last)
	}
	c.handle(tell("one"))
	if last != `"1" Fri, 02 Jan 2026 03:04:05 GMT` {
		t.Errorf("asked by %q", last)
	}
	c.want("a", "one")
	e := s.put("/a", "two!") // the server lies
	c.handle(e)
	c.want("a", "two!")
	c.is(e.Loc, mirror.Whole, "")
	if last != " " {
		t.Errorf("asked by %q", last)
	}
	// A file that another program has changed is fetched anew.
	if err := os.WriteFile(filepath.Join(c.dir, c.host, "a"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.handle(tell("three"))
	c.want("a", "three")
}

// A resource described in a coding is requested and kept in that coding: hash and length are of it.
func TestEncoding(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	const packed = "\x1f\x8b not really"
	s.behave("/a", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, packed)
			return
		}
		_, _ = io.WriteString(w, "plain")
	})
	e := s.put("/a", packed)
	e.Encoding = "gzip"
	c.handle(e)
	c.want("a", packed)
	if got := c.is(e.Loc, mirror.Whole, ""); got.File.Encoding != "gzip" {
		t.Errorf("its coding is %q", got.File.Encoding)
	}
	e = s.put("/a", "plain")
	c.handle(e)
	c.want("a", "plain")
}

// Two resources never share a file, in whatever order they come.
func TestCollisions(t *testing.T) {
	uris := []string{
		"/a", "/a/b", "/a/b/c", "/A", "/a/B", "/caf%C3%A9", "/cafe%CC%81", "/d/", "/d/index.html", "/d", "/x%20y", "/x y",
		"/e?q", "/e%3Fq", "/STRASSE", "/stra%C3%9Fe", "/" + strings.Repeat("n", 300) + "1", "/" + strings.Repeat("n", 300) + "2",
	}
	for name, order := range map[string]func(i int) int{
		"forward":  func(i int) int { return i },
		"backward": func(i int) int { return len(uris) - 1 - i },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
			var changes []follow.Change
			for i := range uris {
				uri := uris[order(i)]
				asked := strings.ReplaceAll(uri, " ", "%20")
				e := s.put(asked, "content of "+asked)
				e.Loc = s.URL + uri // with a space, as Sources write it, too
				changes = append(changes, e)
			}
			c.handle(changes[:9]...)
			c.handle(changes[9:]...)
			seen := map[string]string{}
			for _, e := range changes {
				got := c.is(e.Loc, mirror.Whole, "")
				if claim := got.Claim(); seen[claim] != "" {
					t.Errorf("%s and %s are both at %s", e.Loc, seen[claim], got.Path)
				} else {
					seen[claim] = e.Loc
				}
				want := "content of " + strings.ReplaceAll(strings.TrimPrefix(e.Loc, s.URL), " ", "%20")
				if text, err := os.ReadFile(filepath.Join(c.dir, got.Path)); err != nil || string(text) != want {
					t.Errorf("%s is %q, %v", got.Path, text, err)
				}
			}
			for _, pair := range [][2]string{
				{"/A", "/a"},
				{"/a/b", "/a/B"},
				{"/caf%C3%A9", "/cafe%CC%81"},
				{"/STRASSE", "/stra%C3%9Fe"},
				{"/d/", "/d/index.html"},
			} {
				marked := 0
				for _, uri := range pair {
					if _, name, _ := strings.Cut(c.is(s.URL+uri, mirror.Whole, "").Path, "/"); strings.Contains(path.Base(name), "%~") {
						marked++
					}
				}
				if marked == 0 {
					t.Errorf("%q have names that some file systems take for one", pair)
				}
			}
			for i := range changes {
				gone := s.change(payload.Deleted, "/")
				gone.Loc = changes[i].Loc
				c.handle(gone)
				if left := len(c.files()); left != len(changes)-1-i {
					t.Errorf("%d files are left after %d of %d deletions", left, i+1, len(changes))
				}
			}
		})
	}
}

// A directory that was removed, for being empty or by another program, is made anew.
func TestDirectoryMadeAnew(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
	c.handle(s.put("/dir/a", "one"))
	c.handle(s.delete("/dir/a"))
	c.handle(s.put("/dir/b", "two"))
	c.want("dir/b", "two")
	if err := os.RemoveAll(filepath.Join(c.dir, c.host, "dir")); err != nil {
		t.Fatal(err)
	}
	c.handle(s.put("/dir/c", "three"))
	c.want("dir/c", "three")
	c.nothingHalf()
}

// A directory that was made to lead elsewhere leads nowhere.
func TestSymlinks(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	outside := t.TempDir()
	if err := os.MkdirAll(filepath.Join(c.dir, c.host), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "victim"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"dir": outside, "file": filepath.Join(outside, "victim"), "up": "../../.."} {
		if err := os.Symlink(to, filepath.Join(c.dir, c.host, name)); err != nil {
			t.Fatal(err)
		}
	}
	through, up, file := s.put("/dir/x", "theirs"), s.put("/up/x", "theirs"), s.put("/file", "theirs")
	c.handle(through, up, file)
	c.is(through.Loc, mirror.Failed, "cannot be written")
	c.is(up.Loc, mirror.Failed, "cannot be written")
	c.want("file", "theirs") // the link was replaced
	if text, err := os.ReadFile(filepath.Join(outside, "victim")); err != nil || string(text) != "mine" {
		t.Errorf("the file outside is %q, %v", text, err)
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
		t.Errorf("outside there are %v, %v", list, err)
	}
	c.nothingHalf()
}

// A deletion that fails is tried again.
func TestDeletionFails(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
	c.handle(s.put("/a", "one"))
	at := filepath.Join(c.dir, c.host, "a")
	if err := errors.Join(os.Remove(at), os.Mkdir(at, 0o755)); err != nil {
		t.Fatal(err)
	}
	gone := s.delete("/a")
	c.handle(gone)
	c.is(gone.Loc, mirror.Failed, "cannot be removed: a directory is in its place")
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := c.Settle(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := c.store.Mirrored().Copy(t.Context(), gone.Loc); !errors.Is(err, mirror.ErrNone) {
		t.Errorf("the deletion was lost: %v", err)
	}
}

// Trouble of the mirror itself is an error, and nothing is passed over.
func TestNoRoom(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, func(c *mirror.Config) { c.MinFree = 1 << 62 })
	e := s.put("/a", "one")
	if done, err := c.Handle(t.Context(), []follow.Change{e}); done != 0 || !errors.Is(err, mirror.ErrRoom) {
		t.Errorf("%d done: %v", done, err)
	}
	c.nothingHalf()
	if _, err := c.store.Mirrored().Copy(t.Context(), e.Loc); !errors.Is(err, mirror.ErrNone) {
		t.Errorf("it is known: %v", err)
	}
}

// failingCatalog does not save.
type failingCatalog struct {
	mirror.Catalog
	fails bool
}

func (f *failingCatalog) Save(ctx context.Context, copies []mirror.Copy, forget []string) error {
	if f.fails {
		return mirror.ErrUnavailable
	}
	return f.Catalog.Save(ctx, copies, forget)
}

func TestCatalogFails(t *testing.T) {
	s := newSource(t)
	catalog := &failingCatalog{fails: true}
	c := newCopies(t, s, func(c *mirror.Config) { catalog.Catalog = c.Catalog; c.Catalog = catalog })
	e := s.put("/a", "one")
	if done, err := c.Handle(t.Context(), []follow.Change{e}); done != 0 || !errors.Is(err, mirror.ErrUnavailable) {
		t.Errorf("%d done: %v", done, err)
	}
	catalog.fails = false
	c.handle(e)
	c.want("a", "one")
	ended, end := context.WithCancel(t.Context())
	end()
	if done, err := c.Handle(ended, []follow.Change{s.put("/a", "two")}); done != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d done: %v", done, err)
	}
}

// One process at a time has the directory; files that it was writing when it was killed are removed.
func TestDirectory(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	if _, err := mirror.New(c.cfg); err == nil || !strings.Contains(err.Error(), "another process mirrors into it") {
		t.Errorf("a second one: %v", err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, ".carillon", "X.part"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.reopen(func(*mirror.Config) {})
	c.nothingHalf()
}

// Failures are tried again while changes are taken.
func TestRun(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	served := make(chan struct{})
	tries := 0
	s.behave("/a", func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries < 4 {
			http.NotFound(w, r)
			return
		}
		if tries == 4 {
			close(served)
		}
		_, _ = io.WriteString(w, "late")
	})
	e := s.put("/a", "late")
	c.handle(e)
	c.is(e.Loc, mirror.Missing, "404")
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	<-served
	c.handle(s.change(payload.Updated, "/a")) // waits for the retry
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	c.want("a", "late")
	c.is(e.Loc, mirror.Whole, "")
}

// A host that asks to be left alone is.
func TestBusyHost(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, func(c *mirror.Config) { c.PerHost, c.RetryMax = 1, time.Hour })
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	var changes []follow.Change
	for _, uri := range []string{"/a", "/b", "/c"} {
		s.behave(uri, busy)
		changes = append(changes, s.put(uri, uri))
	}
	c.handle(changes...)
	if n := s.requests(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	c.is(changes[0].Loc, mirror.Failed, "503 Service Unavailable")
	if got := c.is(changes[2].Loc, mirror.Failed, "is left alone for a time"); time.Until(got.Next) < 30*time.Second {
		t.Errorf("it is asked again at %s", got.Next)
	}
}

// A resource that was modified within the second of its answer may be modified again in it: the
// server's "not modified" proves nothing then.
func TestSameSecond(t *testing.T) {
	for name, settled := range map[string]bool{"within the second": false, "before": true} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			c := newCopies(t, s, nil)
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			text, asked := "one", ""
			s.behave("/a", func(w http.ResponseWriter, r *http.Request) {
				asked = r.Header.Get("If-None-Match") + " " + r.Header.Get("If-Modified-Since")
				w.Header().Set("ETag", `"3-1"`)
				w.Header().Set("Date", now.Format(http.TimeFormat))
				modified := now
				if settled {
					modified = now.Add(-2 * time.Second)
				}
				http.ServeContent(w, r, "", modified, strings.NewReader(text))
			})
			made := s.change(payload.Created, "/a")
			c.handle(made)
			c.want("a", "one")
			again := made
			if text = "two"; settled {
				text = "one"
			}
			c.handle(again)
			c.want("a", text)
			if (asked != " ") != settled {
				t.Errorf("asked by %q", asked)
			}
		})
	}
}

// A datetime in the future holds nothing up: the next change is taken, by push and by a baseline.
// Texts and locs without end are not kept.
func TestToldWrong(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	now := s.clock
	s.clock = now.AddDate(70, 0, 0)
	c.handle(s.put("/a", "one"), s.put("/b", "one"))
	s.clock = now
	c.handle(s.put("/a", "two"))
	c.want("a", "two")
	s.put("/b", "two")
	l := s.list()
	long := s.put("/long", "three").Entry
	long.Hash += strings.Repeat(" x:y", 1000)
	l.changes = append(l.changes, long)
	c.baseline(l)
	c.want("b", "two")
	c.want("long", "three")
	if got := c.is(long.Loc, mirror.Whole, ""); got.Described.Hash != "" || got.Described.Length == "" {
		t.Errorf("kept: %d bytes, %q", len(got.Described.Hash), got.Described.Length)
	}
	endless := s.change(payload.Created, "/"+strings.Repeat("x", 10_000))
	c.handle(endless, s.put("/a", "four"))
	c.want("a", "four")
	l.resources = append(l.resources, endless.Entry)
	c.baseline(l)
	if _, err := c.store.Mirrored().Copy(t.Context(), endless.Loc); !errors.Is(err, mirror.ErrNone) {
		t.Errorf("it is kept: %v", err)
	}
	if lines, all := c.audit(l, mirror.AuditOptions{}); all.Outside != 0 || all.Invalid != 1 {
		t.Errorf("found %q of %+v", lines, all)
	}
}

// No redirect leads out of what is mirrored.
func TestRedirectBelowBase(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, func(c *mirror.Config) { c.Bases = []string{s.URL + "/public/"} })
	s.put("/private/x", "secret")
	s.put("/public/y", "open")
	for uri, to := range map[string]string{"/public/x": "/private/x", "/public/z": "/public/y"} {
		s.behave(uri, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
	}
	out, in := s.change(payload.Created, "/public/x"), s.change(payload.Created, "/public/z")
	c.handle(out, in)
	c.is(out.Loc, mirror.Failed, "outside of what is mirrored (--base)")
	c.want("public/z", "open")
}

package mirror_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/destination/follow"
	"carillon/destination/mirror"
	"carillon/payload"
	"carillon/store/pebblestore"
)

// source is a Source's server, with the changes it has announced.
type source struct {
	*httptest.Server
	mu        sync.Mutex
	content   map[string]string // by request URI; guarded by mu
	odd       map[string]http.HandlerFunc
	asked     map[string]int // guarded by mu
	described map[string]payload.Entry
	clock     time.Time
}

func newSource(t *testing.T) *source {
	s := &source{
		content: map[string]string{}, odd: map[string]http.HandlerFunc{}, asked: map[string]int{},
		described: map[string]payload.Entry{}, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.RequestURI]++
	text, ok := s.content[r.RequestURI]
	odd := s.odd[r.RequestURI]
	s.mu.Unlock()
	switch {
	case odd != nil:
		odd(w, r)
	case !ok:
		http.NotFound(w, r)
	default:
		w.Header().Set("ETag", `"`+digest(text)+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}
}

func (s *source) requests() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asked {
		n += asked
	}
	return n
}

func (s *source) behave(uri string, odd http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.odd[uri] = odd
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// put gives the Source a resource, and returns its change.
func (s *source) put(uri, text string) follow.Change {
	s.mu.Lock()
	s.content[uri] = text
	s.mu.Unlock()
	e := s.change(payload.Updated, uri)
	e.Hash, e.Length = "sha-256:"+digest(text), strconv.Itoa(len(text))
	e.LastMod = payload.FormatDatetime(e.Datetime.Truncate(time.Second))
	s.described[uri] = e.Entry
	return e
}

func (s *source) delete(uri string) follow.Change {
	s.mu.Lock()
	delete(s.content, uri)
	s.mu.Unlock()
	return s.change(payload.Deleted, uri)
}

func (s *source) change(change payload.Change, uri string) follow.Change {
	s.clock = s.clock.Add(time.Minute)
	loc := s.URL + uri
	return follow.Change{Entry: payload.Entry{Loc: loc, Change: change, Datetime: s.clock}, Key: loc + s.clock.String()}
}

// copies is a mirror with its directory and store.
type copies struct {
	*mirror.Mirror
	t     *testing.T
	dir   string
	host  string // the name of the Source's directory
	store *pebblestore.Destination
	cfg   mirror.Config
}

func newCopies(t *testing.T, s *source, change func(*mirror.Config)) *copies {
	t.Helper()
	c := &copies{t: t, dir: t.TempDir(), host: strings.Replace(strings.TrimPrefix(s.URL, "http://"), ":", "+", 1)}
	var err error
	if c.store, err = pebblestore.OpenDestination(pebblestore.Config{Dir: "store", FS: vfs.NewMem()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.store.Close(); err != nil {
			t.Error(err)
		}
	})
	c.cfg = mirror.Config{
		Dir: c.dir, Bases: []string{s.URL + "/"}, Catalog: c.store.Mirrored(), Ledger: c.store.Ledger(), MinFree: 1,
		RetryFirst: time.Millisecond, RetryMax: 2 * time.Millisecond,
	}
	if change != nil {
		change(&c.cfg)
	}
	c.open()
	return c
}

func (c *copies) open() {
	c.t.Helper()
	m, err := mirror.New(c.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Mirror = m
	c.t.Cleanup(func() { _ = m.Close() })
}

// reopen is what a restart is.
func (c *copies) reopen(change func(*mirror.Config)) {
	c.t.Helper()
	if err := c.Close(); err != nil {
		c.t.Fatal(err)
	}
	change(&c.cfg)
	c.open()
}

// handle hands changes on, all of them.
func (c *copies) handle(changes ...follow.Change) {
	c.t.Helper()
	for len(changes) > 0 {
		done, err := c.Handle(c.t.Context(), changes)
		if err != nil || done == 0 {
			c.t.Fatalf("%d changes done: %v", done, err)
		}
		changes = changes[done:]
	}
}

// want looks at a file; "" wants none.
func (c *copies) want(at, text string) {
	c.t.Helper()
	got, err := os.ReadFile(filepath.Join(c.dir, c.host, filepath.FromSlash(at)))
	if text == "" {
		if err == nil {
			c.t.Errorf("%s is there: %q", at, got)
		}
		return
	}
	if err != nil || string(got) != text {
		c.t.Errorf("%s is %q, %v; want %q", at, got, err, text)
	}
}

// is looks at what the Catalog has.
func (c *copies) is(loc string, state mirror.State, reason string) mirror.Copy {
	c.t.Helper()
	got, err := c.store.Mirrored().Copy(context.Background(), loc)
	if err != nil || got.State != state || !strings.Contains(got.Reason, reason) {
		c.t.Errorf("%s is %s (%q), %v; want %s (%q)", loc, got.State, got.Reason, err, state, reason)
	}
	if waits := state == mirror.Missing || state == mirror.Failed; waits == got.Next.IsZero() {
		c.t.Errorf("%s is %s, and is tried again at %s", loc, got.State, got.Next)
	}
	return got
}

// nothingHalf looks for files that were begun and left.
func (c *copies) nothingHalf() {
	c.t.Helper()
	own, err := os.ReadDir(filepath.Join(c.dir, ".carillon"))
	if err != nil || len(own) != 1 {
		c.t.Errorf("the mirror's own directory has %v, %v", own, err)
	}
}

// files lists the directory.
func (c *copies) files() (names []string) {
	c.t.Helper()
	err := filepath.WalkDir(c.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".carillon" {
			return errOr(err, fs.SkipDir)
		}
		if !d.IsDir() {
			rel, _ := filepath.Rel(c.dir, name)
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return names
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// audit returns what an audit finds, a line each.
func (c *copies) audit(from mirror.Lists, o mirror.AuditOptions) (lines []string, all mirror.Audited) {
	c.t.Helper()
	all, err := c.Audit(c.t.Context(), from, everything, o, func(f mirror.Finding) error {
		at := f.Loc
		if at == "" {
			at = f.Path
		}
		at = strings.ReplaceAll(at, c.host, "HOST")
		if i := strings.Index(at, "://"); i >= 0 {
			_, at, _ = strings.Cut(at[i+3:], "/")
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintln(f.Kind, at, strings.Join(f.By, ","))))
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return lines, all
}

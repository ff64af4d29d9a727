package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/payload"
	"carillon/store/pebblestore"
)

// everything is a set whose lists a listing has.
var everything = lists.Set{ResourceList: "resources", ChangeList: "changes"}

// listing is what a Source lists, as a lists.Client gives it.
type listing struct {
	at        time.Time
	resources []payload.Entry
	changes   []payload.Entry
	err       error // after the resources
	errChange error
}

func (l *listing) Resources(_ context.Context, _ string, visit func(payload.Entry) error) (lists.Snapshot, error) {
	for _, e := range l.resources {
		if err := visit(e); err != nil {
			return lists.Snapshot{}, err
		}
	}
	return lists.Snapshot{At: l.at, Entries: len(l.resources)}, l.err
}

func (l *listing) Changes(_ context.Context, _ string, since time.Time, visit func(payload.Entry) error) (lists.Covered, error) {
	until := since
	for _, e := range l.changes {
		if err := visit(e); err != nil {
			return lists.Covered{}, err
		}
		until = e.Datetime
	}
	return lists.Covered{From: since, Until: until, Open: true}, l.errChange
}

// list has the Source's resources with their hashes in a Resource List.
func (s *source) list() *listing {
	l := &listing{at: s.clock.Add(time.Second)}
	for uri, text := range s.content {
		e, ok := s.told[uri]
		if !ok || e.Hash != "sha-256:"+digest(text) {
			e = s.put(uri, text).Entry
		}
		e.Change, e.Datetime = "", time.Time{}
		l.resources = append(l.resources, e)
	}
	l.at = s.clock.Add(time.Second)
	return l
}

func (c *copies) baseline(l *listing) mirror.Seen {
	c.t.Helper()
	seen, err := c.Baseline(c.t.Context(), l, everything)
	if err != nil {
		c.t.Fatal(err)
	}
	return seen
}

// A thousand resources by a baseline, changes by push, and then nothing is otherwise than
// the Source has it.
func TestBaseline(t *testing.T) {
	const files, changed = 1000, 100
	s := newSource(t)
	for i := range files {
		s.content[fmt.Sprintf("/d%d/f%d", i%10, i)] = fmt.Sprintf("content %d", i)
	}
	c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
	l := s.list()
	if seen := c.baseline(l); seen.Entries != files || !seen.At.Equal(l.at) {
		t.Errorf("seen: %+v", seen)
	}
	if p := c.Progress(); p.Fetched != files || p.Total != files || p.Done() != files {
		t.Errorf("progress: %+v", p)
	}
	if lines, all := c.audit(l, mirror.AuditOptions{}); len(lines) != 0 || all.Entries != files {
		t.Errorf("found %q of %+v", lines, all)
	}
	before := s.requests()
	for i := range changed {
		uri := fmt.Sprintf("/d%d/f%d", i%10, i)
		switch i % 3 {
		case 0:
			c.take(s.delete(uri))
		case 1:
			c.take(s.put(uri, "changed"))
		case 2:
			c.take(s.put(uri+"-new", "new"))
		}
	}
	if n := s.requests() - before; n != 66 {
		t.Errorf("%d requests for the changes", n)
	}
	l = s.list()
	if lines, all := c.audit(l, mirror.AuditOptions{}); len(lines) != 0 || all.Entries != files-34+33 {
		t.Errorf("found %q of %+v", lines, all)
	}
	before = s.requests()
	c.baseline(l)
	if n := s.requests() - before; n != 0 {
		t.Errorf("%d requests for a second baseline", n)
	}
}

func TestBaselineDeletes(t *testing.T) {
	s := newSource(t)
	for _, uri := range []string{"/a", "/b", "/c", "/d"} {
		s.content[uri] = uri
	}
	c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
	l := s.list()
	c.baseline(l)
	delete(s.content, "/b")
	later := s.list()
	later.at = time.Time{}
	broken := *later
	broken.err = lists.ErrAnswer
	if _, err := c.Baseline(t.Context(), &broken, everything); !errors.Is(err, lists.ErrAnswer) {
		t.Errorf("a list that broke off: %v", err)
	}
	c.want("b", "/b")
	if _, err := c.Baseline(t.Context(), &listing{}, everything); !errors.Is(err, mirror.ErrEmpty) {
		t.Errorf("an empty list: %v", err)
	}
	if _, err := c.Baseline(t.Context(), later, lists.Set{}); !errors.Is(err, lists.ErrNone) {
		t.Errorf("no list: %v", err)
	}
	c.want("a", "/a")
	c.baseline(later)
	c.want("b", "")

	// Changes since the list are in what is expected; so is what was pushed since.
	l = s.list()
	brief := s.put("/brief", "brief")
	c.take(brief)
	gone, made := s.delete("/c"), s.put("/e", "new")
	l.changes = []payload.Entry{gone.Entry, brief.Entry, s.delete("/brief").Entry, made.Entry}
	pushed := s.put("/f", "pushed")
	c.take(pushed)
	if seen := c.baseline(l); !seen.Position.Equal(made.Datetime) || seen.Changes != 4 {
		t.Errorf("seen %+v", seen)
	}
	c.want("c", "")
	c.want("brief", "")
	c.want("e", "new")
	c.want("f", "pushed")
	// An old list takes back nothing that was pushed since.
	pushed = s.put("/f", "pushed again")
	c.take(pushed)
	before := s.requests()
	l.resources = append(l.resources, payload.Entry{Loc: pushed.Loc, Hash: "sha-256:" + digest("pushed")})
	c.baseline(l)
	c.want("f", "pushed again")
	if n := s.requests() - before; n != 0 {
		t.Errorf("%d requests", n)
	}
	l.errChange = lists.ErrGone
	if seen := c.baseline(l); !seen.Position.Equal(l.at) {
		t.Errorf("seen %+v", seen)
	}
}

// A Catalog that was lost costs no fetching where the Source tells hashes.
func TestAdoption(t *testing.T) {
	s := newSource(t)
	for i := range 20 {
		s.content[fmt.Sprintf("/f%d", i)] = fmt.Sprintf("content %d", i)
	}
	c := newCopies(t, s, nil)
	l := s.list()
	c.baseline(l)
	fresh, err := pebblestore.OpenDestination(pebblestore.Config{Dir: "other", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if err := os.WriteFile(filepath.Join(c.dir, c.host, "f3"), []byte("damaged 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.reopen(func(c *mirror.Config) { c.Catalog, c.Ledger = fresh.Mirrored(), fresh.Ledger() })
	before := s.requests()
	c.baseline(l)
	if n := s.requests() - before; n != 1 {
		t.Errorf("%d requests", n)
	}
	c.want("f3", "content 3")
	if lines, _ := c.audit(l, mirror.AuditOptions{}); len(lines) != 0 {
		t.Errorf("found %q", lines)
	}
}

func TestAudit(t *testing.T) {
	s := newSource(t)
	for _, uri := range []string{"/same", "/longer", "/bits", "/touched", "/lost", "/rotten", "/changed"} {
		s.content[uri] = "content of " + uri
	}
	c := newCopies(t, s, nil)
	l := s.list()
	for i := range l.resources {
		if strings.HasSuffix(l.resources[i].Loc, "/rotten") {
			l.resources[i].Hash = ""
		}
	}
	c.baseline(l)
	c.take(s.put("/extra", "extra"), s.put("/kept", "kept"))
	c.take(s.delete("/kept"))
	at := func(name string) string { return filepath.Join(c.dir, c.host, name) }
	write := func(name, text string) {
		t.Helper()
		info, err := os.Stat(at(name))
		if err == nil {
			err = os.WriteFile(at(name), []byte(text), 0o600)
		}
		if err == nil {
			err = os.Chtimes(at(name), info.ModTime(), info.ModTime())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("longer", "content of /longer!")
	write("bits", "content of /bitz")
	write("rotten", "content of /ROTTEN")
	err := errors.Join(os.Chtimes(at("touched"), time.Now(), time.Now()), os.Remove(at("lost")), os.WriteFile(at("nobodys"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	changed := s.put("/changed", "changed since")
	outside := payload.Entry{Loc: "http://other.test/x"}
	l.resources = append(l.resources, outside)
	l.changes = []payload.Entry{changed.Entry}
	lines, all := c.audit(l, mirror.AuditOptions{})
	want := []string{
		"differs bits hash", "differs changed length,lastmod,hash", "extra HOST/nobodys", "extra extra", "kept kept", "differs longer length,hash",
		"missing lost", "outside x", "differs rotten hash", "differs touched lastmod",
	}
	slices.Sort(want)
	if slices.Sort(lines); !slices.Equal(lines, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if all.Missing != 1 || all.Extra != 2 || all.Differing != 5 || all.Kept != 1 || all.Outside != 1 || all.Entries != 8 || all.Changes != 1 {
		t.Errorf("in all %+v", all)
	}
	if lines, _ := c.audit(l, mirror.AuditOptions{Quick: true}); slices.Contains(lines, "differs bits hash") || !slices.Contains(lines, "differs longer length") {
		t.Errorf("quickly: %q", lines)
	}
	c.nothingHalf()
}

// What failed is tried again, as often as was asked for.
func TestSettle(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	good, bad := s.put("/good", "good"), s.put("/bad", "bad")
	s.content["/good"], s.content["/bad"] = "stale", "stale"
	c.take(good, bad)
	s.content["/good"] = "good"
	if err := c.Settle(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	c.want("good", "good")
	if got := c.is(bad.Loc, mirror.Failed, "it has more bytes"); got.Tries < 2 {
		t.Errorf("tried %d times", got.Tries)
	}
}

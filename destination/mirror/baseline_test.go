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
	unnamed   int
	since     []time.Time // what Changes was asked for
}

func (l *listing) Resources(_ context.Context, _ string, visit func(payload.Entry) error) (lists.Snapshot, error) {
	for _, e := range l.resources {
		if err := visit(e); err != nil {
			return lists.Snapshot{}, err
		}
	}
	return lists.Snapshot{At: l.at, Entries: len(l.resources), Unnamed: l.unnamed}, l.err
}

func (l *listing) Changes(_ context.Context, _ string, since time.Time, visit func(payload.Entry) error) (lists.Covered, error) {
	until := since
	l.since = append(l.since, since)
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
		e, ok := s.described[uri]
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
			c.handle(s.delete(uri))
		case 1:
			c.handle(s.put(uri, "changed"))
		case 2:
			c.handle(s.put(uri+"-new", "new"))
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
	c.handle(brief)
	gone, made := s.delete("/c"), s.put("/e", "new")
	l.changes = []payload.Entry{gone.Entry, brief.Entry, s.delete("/brief").Entry, made.Entry}
	pushed := s.put("/f", "pushed")
	c.handle(pushed)
	if seen := c.baseline(l); !seen.Position.Equal(made.Datetime) || seen.Changes != 4 {
		t.Errorf("seen %+v", seen)
	}
	c.want("c", "")
	c.want("brief", "")
	c.want("e", "new")
	c.want("f", "pushed")
	// An old list takes back nothing that was pushed since.
	pushed = s.put("/f", "pushed again")
	c.handle(pushed)
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

// After the loss of a Catalog nothing is fetched where the Source gives hashes.
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
	c.handle(s.put("/extra", "extra"), s.put("/kept", "kept"))
	c.handle(s.delete("/kept"))
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
	invalid := payload.Entry{Loc: s.URL + "/100%.txt"}
	l.resources = append(l.resources, outside, invalid)
	l.changes = []payload.Entry{changed.Entry}
	lines, all := c.audit(l, mirror.AuditOptions{})
	want := []string{
		"differs bits hash", "differs changed length,lastmod,hash", "extra HOST/nobodys", "extra extra", "kept kept", "differs longer length,hash",
		"invalid 100%.txt", "missing lost", "outside x", "differs rotten hash", "differs touched lastmod",
	}
	slices.Sort(want)
	if slices.Sort(lines); !slices.Equal(lines, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if all.Missing != 1 || all.Extra != 2 || all.Differing != 5 || all.Kept != 1 || all.Outside != 1 || all.Invalid != 1 || all.Entries != 9 || all.Changes != 1 {
		t.Errorf("in all %+v", all)
	}
	if lines, _ := c.audit(l, mirror.AuditOptions{Quick: true}); slices.Contains(lines, "differs bits hash") || !slices.Contains(lines, "differs longer length") {
		t.Errorf("quickly: %q", lines)
	}
	c.nothingHalf()
}

// A failure is tried again, as often as the call asks.
func TestSettle(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	good, bad := s.put("/good", "good"), s.put("/bad", "bad")
	s.content["/good"], s.content["/bad"] = "stale", "stale"
	c.handle(good, bad)
	s.content["/good"] = "good"
	if err := c.Settle(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	c.want("good", "good")
	if got := c.is(bad.Loc, mirror.Failed, "it has more bytes"); got.Tries < 2 {
		t.Errorf("tried %d times", got.Tries)
	}
}

// The same Resource List is read again, and the Change List has the deletion of a resource that came
// since.
func TestDeletionSinceList(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
	s.put("/stays", "here")
	l := s.list()
	s.clock = l.at
	l.changes = append(l.changes, s.put("/a", "a").Entry)
	c.baseline(l)
	c.want("a", "a")
	l.changes = append(l.changes, s.delete("/a").Entry)
	c.baseline(l)
	c.want("a", "")
	if lines, _ := c.audit(l, mirror.AuditOptions{}); len(lines) != 0 {
		t.Errorf("found %q", lines)
	}
}

// Without a known or possible moment of the Resource List all changes of the Change List count, and
// resources missing from the list are deleted.
func TestBaselineWithoutAt(t *testing.T) {
	for name, at := range map[string]time.Time{"none": {}, "future": time.Now().AddDate(70, 0, 0)} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
			c.handle(s.put("/a", "a"), s.put("/stays", "here"))
			s.delete("/a") // which no list announces
			s.put("/gone", "gone")
			l := s.list()
			l.at = at
			l.changes = []payload.Entry{s.delete("/gone").Entry, s.put("/late", "late").Entry}
			odd := s.put("/odd", "odd").Entry
			odd.Datetime = time.Now().AddDate(70, 0, 0)
			l.changes = append(l.changes, odd)
			seen := c.baseline(l)
			if l.since[0] != (time.Time{}) || !seen.At.IsZero() || !seen.Position.Equal(l.changes[1].Datetime) {
				t.Errorf("seen %+v since %s", seen, l.since)
			}
			c.want("a", "")
			c.want("gone", "")
			c.want("late", "late")
			c.want("odd", "odd")
			l.errChange = lists.ErrAnswer
			if seen := c.baseline(l); !errors.Is(seen.Unread, lists.ErrAnswer) || !seen.Position.IsZero() {
				t.Errorf("seen %+v", seen)
			}
		})
	}
}

// A list with unreadable entries does not prove what the Source lacks.
func TestNotWhole(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
	s.put("/a", "a")
	s.put("/b", "b")
	c.baseline(s.list())
	s.delete("/a")
	s.put("/c", "c")
	l := s.list()
	l.unnamed = 1
	seen, err := c.Baseline(t.Context(), l, everything)
	if !errors.Is(err, mirror.ErrNotWhole) || !seen.Position.Equal(l.at) {
		t.Errorf("%+v, %v", seen, err)
	}
	c.want("a", "a")
	c.want("c", "c")
	c.is(s.URL+"/a", mirror.Whole, "")
	l = s.list()
	c.baseline(l)
	c.want("a", "")
	l.unnamed = 1
	c.baseline(l) // nothing is unlisted
}

// More deletions than may be at once are recorded, and carried out when they may be; a list that has
// them again takes them back.
func TestMaxDelete(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
	for i := range 21 {
		s.put(fmt.Sprintf("/f%d", i), "text")
	}
	whole := s.list()
	c.baseline(whole)
	for i := range 12 {
		s.delete(fmt.Sprintf("/f%d", i))
	}
	l := s.list()
	l.at = whole.at
	l.changes = []payload.Entry{s.put("/new", "new").Entry}
	for range 2 {
		seen, err := c.Baseline(t.Context(), l, everything)
		if !errors.Is(err, mirror.ErrTooMany) || !strings.Contains(err.Error(), "12 of 2") || seen.Position.Before(l.at) {
			t.Errorf("%+v, %v", seen, err)
		}
	}
	if err := c.Sweep(t.Context()); !errors.Is(err, mirror.ErrTooMany) {
		t.Errorf("swept: %v", err)
	}
	c.want("f0", "text")
	c.want("new", "new")
	c.is(s.URL+"/f0", mirror.Gone, "")
	if at, err := (mirror.Baselines{
		Mirror: c.Mirror, From: l, Set: func(context.Context) (lists.Set, error) { return everything, nil },
	}).Baseline(t.Context()); err != nil || at.IsZero() {
		t.Errorf("who follows goes on from %s: %v", at, err)
	}
	// The Source mends its list; then everything matches.
	whole.changes = l.changes
	s.content["/f0"] = "text"
	c.baseline(whole)
	c.is(s.URL+"/f0", mirror.Whole, "")
	c.reopen(func(c *mirror.Config) { c.MaxDelete = mirror.Share{Number: 12} })
	c.baseline(l)
	c.want("f0", "")
	if got := len(c.files()); got != 10 {
		t.Errorf("%d files", got)
	}
}

func TestShare(t *testing.T) {
	for text, of := range map[string][2]int{"50%": {10, 500}, "100%": {10, 1000}, "1": {1, 1}, "5000": {5000, 5000}} {
		var s mirror.Share
		if err := s.UnmarshalText([]byte(text)); err != nil || s.Of(10) != of[0] || s.Of(1000) != of[1] || s.String() != text {
			t.Errorf("%s: %v, %d, %d, %v", text, s, s.Of(10), s.Of(1000), err)
		}
	}
	for _, text := range []string{"", "%", "0", "0%", "101%", "-1", "1.5%", "x", "99999999999"} {
		if err := new(mirror.Share).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

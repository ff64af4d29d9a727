package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/destination/packages/packagestest"
	"carillon/payload"
)

// dumping is a listing with a Resource Dump.
type dumping struct {
	*listing
	packages []lists.Package
	err      error
}

func (d *dumping) ResourceDump(_ context.Context, _ string, visit func(lists.Package) error) (lists.Snapshot, error) {
	var seen lists.Snapshot
	for _, p := range d.packages {
		if seen.At.IsZero() || p.At.Before(seen.At) {
			seen.At = p.At
		}
		if err := visit(p); err != nil {
			return seen, err
		}
	}
	return seen, d.err
}

// withDump is a set that has everything; dumpAlone has no Resource List.
var (
	withDump  = lists.Set{ResourceList: "resources", ChangeList: "changes", ResourceDump: "dump"}
	dumpAlone = lists.Set{ChangeList: "changes", ResourceDump: "dump"}
)

// serve has the Source serve a package, and returns its entry in the dump.
func (s *source) serve(uri string, zip []byte, at time.Time) lists.Package {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content[uri] = string(zip)
	return lists.Package{URI: s.URL + uri, Length: int64(len(zip)), Hash: "sha-256:" + digest(string(zip)), At: at}
}

// pack is a package with what a listing has, in so many packages.
func (s *source) pack(t *testing.T, l *listing, parts int, change func(*packagestest.Package, int, payload.Entry) bool) *dumping {
	t.Helper()
	d := &dumping{listing: l}
	for part := range parts {
		p := packagestest.New(t, payload.Head{Capability: payload.CapResourceDumpManifest, At: l.at})
		for i, e := range l.resources {
			if i%parts == part && (change == nil || !change(p, i, e)) {
				p.Add(e, s.content[strings.TrimPrefix(e.Loc, s.URL)])
			}
		}
		d.packages = append(d.packages, s.serve(fmt.Sprintf("/dump/%d.zip", part), p.Bytes(), l.at))
	}
	for i := range parts {
		delete(s.described, fmt.Sprintf("/dump/%d.zip", i))
	}
	return d
}

// gets is how many requests were for resources, and for packages.
func (s *source) gets() (resources, packages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, n := range s.asked {
		if strings.HasPrefix(uri, "/dump/") {
			packages += n
		} else {
			resources += n
		}
	}
	return resources, packages
}

func auto(c *mirror.Config) { c.Dump, c.Delete = mirror.DumpAuto, true }
func only(c *mirror.Config) { c.Dump, c.Delete = mirror.DumpOnly, true }

func (c *copies) baselineOf(from mirror.Lists, set lists.Set) mirror.Seen {
	c.t.Helper()
	seen, err := c.Baseline(c.t.Context(), from, set)
	if err != nil {
		c.t.Fatal(err)
	}
	return seen
}

// A set comes from packages: members missing from the manifest are ignored, and content that the
// package lacks, has too old, or has wrong is fetched.
func TestBaselineByDump(t *testing.T) {
	const files = 200
	s := newSource(t)
	for i := range files {
		s.content[fmt.Sprintf("/d%d/f%d", i%10, i)] = fmt.Sprintf("content %d", i)
	}
	s.content["/empty"] = ""
	l := s.list()
	var lines strings.Builder
	c := newCopies(t, s, func(c *mirror.Config) {
		auto(c)
		c.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	})
	d := s.pack(t, l, 2, func(p *packagestest.Package, i int, e payload.Entry) bool {
		switch i {
		case 0: // too old, as the manifest says
			e.Hash = "sha-256:" + digest("older")
			p.Add(e, "older")
		case 1: // too old, and not marked so
			e.Hash, e.Length = "", ""
			p.Add(e, "older")
		case 2: // it lies
			p.Add(e, "another")
		case 3: // it is not there
			e.Path = "/nothing"
			p.List(e)
		case 4: // its path leads out
			e.Path = "/PATH"
			p.List(e)
			p.Edit = func(s string) string { return strings.Replace(s, "/PATH", "/../../../etc/passwd", 1) }
		case 5: // not even listed
			p.File("resources/unknown", "x")
		default:
			return false
		}
		return true
	})
	seen := c.baselineOf(d, withDump)
	if p := c.Progress(); seen.Entries != files+1 || p.Fetched != files+1 || p.Unpacked != files-5 || p.Spoiled != 2 || p.Packages != 2 || p.Done() != p.Total {
		t.Errorf("seen %+v, progress %+v", seen, p)
	}
	if resources, packages := s.gets(); resources != 6 || packages != 2 {
		t.Errorf("%d resources and %d packages were asked for", resources, packages)
	}
	if found, all := c.audit(l, mirror.AuditOptions{}); len(found) != 0 || all.Entries != files+1 {
		t.Errorf("found %q of %+v", found, all)
	}
	if !strings.Contains(lines.String(), "it is fetched by GET") {
		t.Errorf("no line says so: %s", &lines)
	}
	c.nothingHalf()

	// The second time nothing is missing.
	before := s.requests()
	c.baselineOf(d, withDump)
	if n := s.requests() - before; n != 0 {
		t.Errorf("%d requests for a second baseline", n)
	}
}

// Wrong content of a package is fetched by as many requests at a time as everything else, and holds up
// no other member.
func TestSpoiledIsFetchedAtItsHost(t *testing.T) {
	const perHost = 6
	s := newSource(t)
	together := make(chan struct{})
	var waiting atomic.Int32
	for i := range 3 * perHost {
		uri := fmt.Sprintf("/f%02d", i)
		s.content[uri] = "right"
		if i >= perHost {
			continue
		}
		s.behave(uri, func(w http.ResponseWriter, r *http.Request) {
			if waiting.Add(1) == perHost {
				close(together)
			}
			select {
			case <-together:
				_, _ = io.WriteString(w, "right")
			case <-r.Context().Done(): // the mirror does not wait for longer than Idle
			}
		})
	}
	c := newCopies(t, s, func(c *mirror.Config) {
		auto(c)
		c.PerHost, c.Idle = perHost, 5*time.Second
	})
	l := s.list()
	c.baselineOf(s.pack(t, l, 1, func(p *packagestest.Package, _ int, e payload.Entry) bool {
		slow := strings.TrimPrefix(e.Loc, s.URL) < fmt.Sprintf("/f%02d", perHost)
		if slow {
			p.Add(e, "wrong")
		}
		return slow
	}), withDump)
	if p := c.Progress(); p.Fetched != 3*perHost || p.Failed != 0 || p.Spoiled != perHost || p.Unpacked != 2*perHost {
		t.Errorf("%+v", p)
	}
}

// With --dump only nothing is fetched by itself, and what fails keeps what it had.
func TestBaselineByDumpOnly(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, only)
	if _, err := c.Baseline(t.Context(), s.list(), everything); !errors.Is(err, lists.ErrNone) {
		t.Errorf("without a dump: %v", err)
	}
	for _, uri := range []string{"/a", "/b", "/c"} {
		s.content[uri] = "old " + uri
	}
	c.baselineOf(s.pack(t, s.list(), 1, nil), withDump)
	for _, uri := range []string{"/a", "/b"} {
		s.put(uri, "new "+uri)
	}
	s.content["/d"] = "new"
	delete(s.content, "/c")
	delete(s.content, "/dump/0.zip")
	l := s.list()
	c.baselineOf(s.pack(t, l, 1, func(p *packagestest.Package, _ int, e payload.Entry) bool {
		if strings.HasSuffix(e.Loc, "/b") {
			p.Add(e, "wrong")
		}
		return strings.HasSuffix(e.Loc, "/b") || strings.HasSuffix(e.Loc, "/d")
	}), withDump)
	c.want("a", "new /a")
	c.want("b", "old /b")
	c.want("c", "")
	c.want("d", "")
	c.is(s.URL+"/b", mirror.Failed, "--dump only")
	c.is(s.URL+"/d", mirror.Failed, "--dump only")
	if err := c.Settle(t.Context(), 3); err != nil {
		t.Error(err)
	}
	if resources, _ := s.gets(); resources != 0 {
		t.Errorf("%d resources were asked for", resources)
	}
	c.nothingHalf()
}

// A Source without a Resource List: the manifests say what the set is, and the Change List what was
// changed since.
func TestDumpWithoutResourceList(t *testing.T) {
	s := newSource(t)
	for _, uri := range []string{"/a", "/b", "/c"} {
		s.content[uri] = "old " + uri
	}
	c := newCopies(t, s, auto)
	if _, err := c.Baseline(t.Context(), &dumping{listing: &listing{}}, dumpAlone); !errors.Is(err, nil) {
		t.Errorf("an empty dump without copies: %v", err)
	}
	d := s.pack(t, s.list(), 2, nil)
	changed := s.put("/b", "new /b")
	d.changes = []payload.Entry{s.delete("/c").Entry, changed.Entry}
	if seen := c.baselineOf(d, dumpAlone); seen.Entries != 3 || seen.Changes != 2 || !seen.At.Equal(d.at) || !seen.Position.Equal(changed.Datetime) {
		t.Errorf("seen %+v", seen)
	}
	c.want("a", "old /a")
	c.want("b", "new /b")
	c.want("c", "")
	c.nothingHalf()

	// Without one of its packages it is unknown which resources are gone.
	second := d.packages[1]
	d.packages[1].Hash = "sha-256:" + digest("other")
	d.changes = nil
	if _, err := c.Baseline(t.Context(), d, dumpAlone); !errors.Is(err, mirror.ErrNotWhole) {
		t.Errorf("a package is broken: %v", err)
	}
	c.want("a", "old /a")
	c.want("b", "new /b")
	d.packages[1] = second
	if _, err := c.Baseline(t.Context(), &dumping{listing: d.listing}, dumpAlone); !errors.Is(err, mirror.ErrEmpty) {
		t.Errorf("an empty dump: %v", err)
	}
	d.err = lists.ErrAnswer
	if _, err := c.Baseline(t.Context(), d, dumpAlone); !errors.Is(err, lists.ErrAnswer) {
		t.Errorf("a dump that cannot be read: %v", err)
	}
	c.want("a", "old /a")
}

// A dump that is older than the mirror takes nothing back.
func TestDumpOlderThanMirror(t *testing.T) {
	s := newSource(t)
	for _, uri := range []string{"/a", "/b", "/c"} {
		s.content[uri] = "old " + uri
	}
	d := s.pack(t, s.list(), 1, nil)
	for _, set := range []lists.Set{withDump, dumpAlone} {
		c := newCopies(t, s, only)
		changed := s.put("/a", "new /a")
		c.reopen(func(cfg *mirror.Config) { cfg.Dump = "" })
		c.handle(changed)
		c.reopen(only)
		if d.changes = nil; set.ResourceList != "" {
			d.changes = []payload.Entry{changed.Entry}
		}
		c.baselineOf(d, set)
		c.want("a", "new /a")
		c.want("b", "old /b")
	}
}

// auto uses a dump where more than half is missing, and goes on with one that it has begun.
func TestAutoChooses(t *testing.T) {
	s := newSource(t)
	for i := range 10 {
		s.content[fmt.Sprintf("/f%d", i)] = fmt.Sprint(i)
	}
	c := newCopies(t, s, auto)
	d := s.pack(t, s.list(), 1, nil)
	for i := range 5 {
		c.handle(s.put(fmt.Sprintf("/f%d", i), fmt.Sprint(i)))
	}
	c.baselineOf(d, withDump)
	if _, packages := s.gets(); packages != 0 {
		t.Errorf("half is missing, and %d packages were asked for", packages)
	}
	for i := range 6 {
		if err := os.Remove(filepath.Join(c.dir, c.host, fmt.Sprint("f", i))); err != nil {
			t.Fatal(err)
		}
		s.put(fmt.Sprintf("/f%d", i), fmt.Sprint("new ", i))
	}
	for i := range 10 {
		delete(s.content, fmt.Sprintf("/dump/%d.zip", i))
	}
	d = s.pack(t, s.list(), 1, nil)
	c.reopen(func(cfg *mirror.Config) { cfg.Dump = mirror.DumpNever })
	before, _ := s.gets()
	c.reopen(auto)
	c.baselineOf(d, withDump)
	if resources, packages := s.gets(); packages != 1 || resources != before {
		t.Errorf("six of ten differ: %d packages and %d resources were asked for", packages, resources-before)
	}
}

// Names that some file system takes for one are two resources, also in a package.
func TestNamesInPackages(t *testing.T) {
	s := newSource(t)
	names := []string{"/a/name", "/A/NAME", "/a/Name", "/caf%C3%A9", "/cafe%CC%81", "/con", "/x%2Fy", "/x%5Cy", "/a", "/%2e%2e/etc"}
	for _, uri := range names {
		s.content[uri] = "content of " + uri
	}
	c := newCopies(t, s, only)
	l := s.list()
	c.baselineOf(s.pack(t, l, 1, func(p *packagestest.Package, _ int, e payload.Entry) bool {
		e.Path = "/" + strings.NewReplacer("%", "_").Replace(strings.TrimPrefix(e.Loc, s.URL+"/"))
		p.Add(e, s.content[strings.TrimPrefix(e.Loc, s.URL)])
		return true
	}), withDump)
	for _, uri := range names {
		got := c.is(s.URL+uri, mirror.Whole, "")
		if b, err := os.ReadFile(filepath.Join(c.dir, filepath.FromSlash(got.Path))); err != nil || string(b) != "content of "+uri {
			t.Errorf("%s is %q, %v", uri, b, err)
		}
	}
	if found, _ := c.audit(l, mirror.AuditOptions{}); len(found) != 0 {
		t.Errorf("found %q", found)
	}
}

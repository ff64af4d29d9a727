package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/destination/packages/packagestest"
	"carillon/payload"
)

// endlessDump lists packages until the reader stops.
type endlessDump struct{ *dumping }

func (d endlessDump) ResourceDump(_ context.Context, _ string, visit func(lists.Package) error) (lists.Snapshot, error) {
	for i := range 1 << 30 {
		p := d.packages[0]
		p.URI += fmt.Sprint("?", i)
		if err := visit(p); err != nil {
			return lists.Snapshot{}, err
		}
	}
	return lists.Snapshot{}, errors.New("nobody has stopped it")
}

// A dump that lists packages without end is given up, and nothing of it is downloaded.
func TestEndlessPackages(t *testing.T) {
	s := newSource(t)
	s.content["/a"] = "text"
	d := s.pack(t, s.list(), 1, nil)
	c := newCopies(t, s, auto)
	c.baselineOf(endlessDump{d}, withDump)
	c.want("a", "text")
	if resources, packages := s.gets(); resources != 1 || packages != 0 {
		t.Errorf("%d resources and %d packages were asked for", resources, packages)
	}
	c = newCopies(t, s, only)
	if _, err := c.Baseline(t.Context(), endlessDump{d}, withDump); !errors.Is(err, lists.ErrLoop) {
		t.Errorf("only: %v", err)
	}
}

// A package that is listed many times is downloaded once.
func TestOnePackageManyTimes(t *testing.T) {
	for _, set := range []lists.Set{withDump, dumpAlone} {
		s := newSource(t)
		s.content["/a"] = "text"
		d := s.pack(t, s.list(), 1, nil)
		d.packages[0].Hash = "" // so that what is there is not believed
		for range 100 {
			d.packages = append(d.packages, d.packages[0])
		}
		c := newCopies(t, s, only)
		if seen := c.baselineOf(d, set); seen.Entries != 1 {
			t.Errorf("%d entries were seen", seen.Entries)
		}
		c.want("a", "text")
		if _, packages := s.gets(); packages != 1 {
			t.Errorf("it was asked for %d times", packages)
		}
	}
}

// A dump of which package after package cannot be had is given up, as all can be fetched.
func TestPackagesOfADeadServer(t *testing.T) {
	s := newSource(t)
	s.content["/a"] = "text"
	d := s.pack(t, s.list(), 1, nil)
	for i := range 1000 {
		p := d.packages[0]
		p.URI = fmt.Sprint(s.URL, "/dump/none", i)
		d.packages = append(d.packages, p)
	}
	d.packages = d.packages[1:]
	c := newCopies(t, s, auto)
	c.baselineOf(d, withDump)
	c.want("a", "text")
	if _, packages := s.gets(); packages > 20 {
		t.Errorf("%d packages were asked for", packages)
	}
	c.nothingHalf()
}

// A package in which thousands of resources are one large file does not fill the disk.
func TestManifestThatNamesOneFileOften(t *testing.T) {
	const resources, size = 2000, 1 << 20
	s := newSource(t)
	text := strings.Repeat("0123456789abcdef", size/16)
	l := s.list()
	p := packagestest.New(t, payload.Head{Capability: payload.CapResourceDumpManifest, At: l.at})
	p.File("large", text)
	for i := range resources {
		e := payload.Entry{Loc: fmt.Sprint(s.URL, "/copy/", i), Hash: "sha-256:" + digest(text), Length: fmt.Sprint(size)}
		l.resources = append(l.resources, e)
		e.Path = "/large"
		p.List(e)
	}
	c := newCopies(t, s, only)
	c.baselineOf(&dumping{listing: l, packages: []lists.Package{s.serve("/dump/0.zip", p.Bytes(), l.at)}}, withDump)
	if got := c.Progress(); got.Bytes > 300<<20 || got.Unusable != 1 {
		t.Errorf("progress %+v", got)
	}
}

// Where only times describe a content, one that is older than the list says is fetched.
func TestOlderThanTheListTells(t *testing.T) {
	s := newSource(t)
	s.content["/a"], s.content["/b"] = "text", "text"
	l := s.list()
	at := l.at.Add(-time.Hour)
	for i := range l.resources {
		l.resources[i].Hash, l.resources[i].LastMod = "", payload.FormatDatetime(at)
	}
	d := s.pack(t, l, 1, func(p *packagestest.Package, _ int, e payload.Entry) bool {
		if strings.HasSuffix(e.Loc, "/a") {
			return false
		}
		e.LastMod = payload.FormatDatetime(at.Add(-time.Hour)) // and the package is of later
		p.Add(e, "then")
		return true
	})
	c := newCopies(t, s, auto)
	c.baselineOf(d, withDump)
	c.want("a", "text")
	c.want("b", "text")
	if resources, _ := s.gets(); resources != 1 {
		t.Errorf("%d resources were asked for", resources)
	}
}

// The leftovers of an incremental by packages prove nothing of a Resource Dump.
func TestLeftPackagesOfChanges(t *testing.T) {
	s := newSource(t)
	for _, uri := range []string{"/a", "/b", "/c"} {
		s.content[uri] = uri
	}
	d := s.pack(t, s.list(), 1, nil)
	c := newCopies(t, s, auto)
	for _, uri := range []string{"/a", "/b"} {
		c.handle(s.put(uri, uri))
	}
	p := packagestest.New(t, payload.Head{Capability: payload.CapChangeDumpManifest, From: d.at, Until: s.clock})
	b, err := c.OpenChanges(t.Context(), s.serve("/dump/changes.zip", p.Bytes(), time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil { // and the process ends
		t.Fatal(err)
	}
	c.baselineOf(d, withDump)
	if _, packages := s.gets(); packages != 1 {
		t.Errorf("%d packages were asked for", packages)
	}
	c.nothingHalf()
}

// A disk that is full while a package comes is no trouble of the package.
func TestDiskFullWhileAPackageComes(t *testing.T) {
	c := newCopies(t, newSource(t), auto)
	err := fmt.Errorf("package: %w", &fs.PathError{Op: "write", Path: "a.zip", Err: syscall.ENOSPC})
	if err := c.Unusable(t.Context(), err); !errors.Is(err, mirror.ErrRoom) || errors.Is(err, mirror.ErrUnusable) {
		t.Errorf("error is %v", err)
	}
	if err := c.Unusable(t.Context(), errors.New("another")); errors.Is(err, mirror.ErrRoom) || !errors.Is(err, mirror.ErrUnusable) {
		t.Errorf("error is %v", err)
	}
}

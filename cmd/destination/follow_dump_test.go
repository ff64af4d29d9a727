package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// dumpFollower runs follow on the mirror of a dumper, and pushes to it.
type dumpFollower struct {
	m     *mirrored
	s     *dumper
	hub   *site
	marks int
}

func newDumpFollower(t *testing.T) *dumpFollower {
	m, s := newDumper(t)
	return &dumpFollower{m: m, s: s, hub: s.withHub()}
}

// trusted are the flags with which other commands read the Source.
func (d *dumpFollower) trusted(more ...string) []string {
	return append(more, "--topic", d.s.topic, "--trust-host", strings.TrimPrefix(d.hub.URL, "http://"))
}

// follow runs follow until it has taken a change that is pushed once everything before was.
func (d *dumpFollower) follow(args ...string) (logs string) {
	t, s := d.m.t, d.s
	t.Helper()
	from := s.clock
	d.marks++
	path := fmt.Sprintf("/mark%d", d.marks)
	fetched := make(chan any)
	s.mu.Lock()
	s.got[path] = fetched
	s.mu.Unlock()
	p := start(t, append([]string{
		"follow", "--topic", s.topic, "--mirror", d.m.dir, "--base", s.URL + "/",
		"--trust-host", strings.TrimPrefix(s.URL, "http://"), "--data", d.m.data, "--delete", "--min-free", "1B",
		"--listen", "127.0.0.1:0", "--settle", "1ms",
	}, args...)...)
	p.line()
	sub := <-d.hub.asked
	e := *s.put(path, "a mark")
	s.mu.Lock()
	s.changes = s.changes[:len(s.changes)-1] // no list has it, so that it comes by push
	s.mu.Unlock()
	var doc bytes.Buffer
	n, err := payload.NewNotificationWriter(&doc, payload.Interval{From: from, Until: e.Datetime.Add(time.Second)}, "")
	s.must(errors.Join(err, n.Write(&e), n.Close()))
	d.hub.deliver(sub, path, doc.String())
	<-fetched
	if status := p.end(); status != 0 {
		t.Fatalf("status %d: %s", status, &p.logs)
	}
	s.changes = append(s.changes, e)
	return p.logs.String()
}

// gets is how often files were asked for by GET, without those of follow itself.
func (d *dumpFollower) gets() (n int) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	for path := range d.s.files {
		if !strings.HasPrefix(path, "/mark") {
			n += len(d.s.asked[path])
		}
	}
	return n
}

// audit compares the mirror with the Source, after what was not handed on yet was taken.
func (d *dumpFollower) audit() {
	d.m.t.Helper()
	d.m.run("incremental", 0, d.trusted("--delete", "--dump", "never")...)
	d.m.run("audit", 0, d.trusted()...)
}

// noPackages looks for packages that were left.
func (d *dumpFollower) noPackages() {
	d.m.t.Helper()
	if all, err := os.ReadDir(filepath.Join(d.m.dir, ".carillon", "packages")); err == nil {
		d.m.t.Errorf("packages are left: %v", all)
	}
}

// changeDump makes a Change Dump of all changes since the Resource List, and a change after it.
func (d *dumpFollower) changeDump() {
	s := d.s
	s.changesFrom = s.at
	head := payload.Head{Capability: payload.CapChangeDumpManifest, From: s.at, Until: s.clock.Add(time.Second)}
	s.changed = []payload.Part{s.pack("/c.zip", head, s.changes)}
	s.clock = head.Until
	s.put("/after", "the Change Dump "+s.clock.String())
}

// TestFollowByDumps checks that follow takes its baseline from a Resource Dump, and what changed
// while it was away from a Change Dump.
func TestFollowByDumps(t *testing.T) {
	t.Parallel()
	const files = 50
	d := newDumpFollower(t)
	for i := range files {
		d.s.put(fmt.Sprintf("/f%d", i), fmt.Sprint("text ", i))
	}
	d.s.snapshot()
	d.s.dump(2)
	d.follow()
	if n := d.gets(); n != 0 {
		t.Errorf("the baseline: %d files were asked for by GET", n)
	}
	d.noPackages()
	for i := range manyChanges {
		d.s.put(fmt.Sprintf("/new%d", i), fmt.Sprint("new ", i))
	}
	d.s.put("/f1", "")
	d.changeDump()
	logs := d.follow()
	if n := d.gets(); n != 1 {
		t.Errorf("what changed: %d files were asked for by GET\n%s", n, logs)
	}
	d.noPackages()
	for i := range manyChanges {
		d.s.put(fmt.Sprintf("/new%d", i), fmt.Sprint("newer ", i))
	}
	d.changeDump()
	before := d.gets()
	d.follow("--dump", "never")
	if n := d.gets() - before; n != manyChanges+1 {
		t.Errorf("with --dump never %d files were asked for by GET", n)
	}
	d.audit()
}

// TestFollowSpoiledChangeDump checks that follow takes from the Change List what a Change Dump has wrong.
func TestFollowSpoiledChangeDump(t *testing.T) {
	t.Parallel()
	d := newDumpFollower(t)
	d.s.put("/f", "text")
	d.s.snapshot()
	d.s.dump(1)
	d.follow()
	for i := range manyChanges {
		d.s.put(fmt.Sprintf("/new%d", i), fmt.Sprint("new ", i))
	}
	d.changeDump()
	d.s.zips["/c.zip"] = bytes.Repeat([]byte("x"), len(d.s.zips["/c.zip"]))
	before := d.gets()
	logs := d.follow()
	if n := d.gets() - before; n != manyChanges+1 || !strings.Contains(logs, "the Change Dump is not used any further") {
		t.Errorf("%d files were asked for by GET\n%s", n, logs)
	}
	d.noPackages()
	d.audit()
}

// TestFollowSweepsPackages checks that follow removes packages that a command has left that was
// ended in the middle.
func TestFollowSweepsPackages(t *testing.T) {
	t.Parallel()
	d := newDumpFollower(t)
	for i := range 10 {
		d.s.put(fmt.Sprintf("/f%d", i), fmt.Sprint("text ", i))
	}
	d.s.snapshot()
	d.s.dump(2)
	d.m.run("baseline", 0, d.trusted()...)
	ctx, stop := context.WithCancel(t.Context())
	d.s.mu.Lock()
	d.s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/1.zip" {
			return false
		}
		stop()
		<-r.Context().Done()
		return true
	}
	d.s.mu.Unlock()
	var out, logs bytes.Buffer
	run(ctx, append([]string{
		"baseline", "--source", d.s.URL, "--mirror", d.m.dir, "--data", d.m.data, "--min-free", "1B", "--dump", "only",
	}, d.trusted()...), &out, &logs)
	if all, err := os.ReadDir(filepath.Join(d.m.dir, ".carillon", "packages")); len(all) == 0 {
		t.Fatalf("nothing is left to be removed: %v\n%s", err, &logs)
	}
	d.s.mu.Lock()
	d.s.before = nil
	d.s.mu.Unlock()
	d.follow()
	d.noPackages()
	d.audit()
}

// TestStartAfterNothing checks that --start counts after a command that has taken nothing, and that
// no line says otherwise.
func TestStartAfterNothing(t *testing.T) {
	t.Parallel()
	d := newDumpFollower(t)
	d.s.lacks = []string{payload.CapResourceDump}
	d.m.run("baseline", 1, d.trusted("--dump", "only")...)
	if logs := d.follow("--start", "now"); strings.Contains(logs, "--start counts the first time only") {
		t.Error(logs)
	}
	if logs := d.follow("--start", "now"); !strings.Contains(logs, "--start counts the first time only") {
		t.Error(logs)
	}
}

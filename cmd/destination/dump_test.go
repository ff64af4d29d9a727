package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon/destination/packages/packagestest"
	"carillon/payload"
)

// dumper is a shelf with dumps.
type dumper struct {
	*shelf
	resources, changed []payload.Part // the packages of each
	changesFrom        time.Time
	zips               map[string][]byte
	lacks              []string // capabilities that are not offered
	// before, where it is set, answers in the place of the shelf if it returns true.
	before func(w http.ResponseWriter, r *http.Request) bool
	asked  map[string][]string // Range, else If-None-Match headers, by path; guarded by mu
}

func newDumper(t *testing.T) (*mirrored, *dumper) {
	m := newMirrored(t)
	d := &dumper{shelf: m.shelf, zips: map[string][]byte{}, asked: map[string][]string{}}
	inner := m.shelf.Config.Handler
	m.shelf.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.asked[r.URL.Path] = append(d.asked[r.URL.Path], cmp.Or(r.Header.Get("Range"), r.Header.Get("If-None-Match")))
		before := d.before
		d.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		if !d.answer(w, r) {
			inner.ServeHTTP(w, r)
		}
	})
	return m, d
}

func (d *dumper) answer(w http.ResponseWriter, r *http.Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	head := payload.Head{Links: []payload.Link{{Rel: "up", Href: d.URL + "/caps.xml"}}}
	parts := d.resources
	switch r.URL.Path {
	case "/caps.xml":
		var all []payload.Capability
		for name, capability := range map[string]string{
			"resources": payload.CapResourceList, "changes": payload.CapChangeList, "resourcedump": payload.CapResourceDump, "changedump": payload.CapChangeDump,
		} {
			if !slices.Contains(d.lacks, capability) {
				all = append(all, payload.Capability{Loc: d.URL + "/" + name + ".xml", Capability: capability})
			}
		}
		if d.topic != "" {
			all = append(
				all,
				payload.Capability{Loc: d.topic, Capability: payload.ChangeNotification, Links: []payload.Link{{Rel: "hub", Href: d.topic + "hub"}}},
			)
		}
		d.must(payload.WriteCapabilityList(w, payload.CapabilityList{Up: d.URL + "/.well-known/resourcesync", Capabilities: all}))
		return true
	case "/resourcedump.xml":
		head.Capability, head.At = payload.CapResourceDump, d.at
	case "/changedump.xml":
		head.Capability, head.From = payload.CapChangeDump, d.changesFrom
		parts = d.changed
	default:
		zip, ok := d.zips[r.URL.Path]
		if ok {
			w.Header().Set("ETag", d.etag(zip))
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(zip))
		}
		return ok
	}
	doc, err := payload.AppendHead(nil, head)
	d.must(err)
	for i := range parts {
		doc, err = payload.AppendListed(doc, &parts[i])
		d.must(err)
	}
	_, _ = w.Write(payload.AppendTail(doc, false))
	return true
}

func (d *dumper) etag(zip []byte) string { return fmt.Sprintf(`"%x"`, sha256.Sum256(zip)) }

// pack puts entries into a package, with what the shelf has of them.
func (d *dumper) pack(name string, head payload.Head, entries []payload.Entry) payload.Part {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := packagestest.New(d.t, head)
	for _, e := range entries {
		if e.Change == payload.Deleted {
			p.List(e)
		} else {
			p.Add(e, d.files[strings.TrimPrefix(e.Loc, d.URL)])
		}
	}
	zip := p.Bytes()
	d.zips[name] = zip
	return payload.Part{
		Loc: d.URL + name, Type: "application/zip", Length: strconv.Itoa(len(zip)), Hash: fmt.Sprintf("sha-256:%x", sha256.Sum256(zip)),
		At: head.At, From: head.From, Until: head.Until,
	}
}

// dump makes a Resource Dump of the Resource List in so many packages.
func (d *dumper) dump(parts int) {
	d.resources = nil
	for i := range parts {
		n := len(d.listed)
		part := d.pack(
			fmt.Sprintf("/%d.zip", i),
			payload.Head{Capability: payload.CapResourceDumpManifest, At: d.at},
			d.listed[i*n/parts:(i+1)*n/parts],
		)
		d.mu.Lock()
		d.resources = append(d.resources, part)
		d.mu.Unlock()
	}
}

// gets is how often files of the shelf were asked for.
func (d *dumper) gets() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.files {
		n += len(d.asked[path])
	}
	return n
}

// A baseline by a Resource Dump, and changes by a Change Dump, with all that they lack by GET.
func TestDumpCommands(t *testing.T) {
	t.Parallel()
	const files, changes = 50, 1200
	m, s := newDumper(t)
	for i := range files {
		s.put(fmt.Sprintf("/f%d.txt", i), fmt.Sprint("text ", i))
	}
	s.snapshot()
	s.dump(2)
	s.put("/f1.txt", "changed after the dump")
	if out, logs := m.run("baseline", 0, "--json"); !strings.Contains(
		out, fmt.Sprintf(`"from_packages":%d,"by_get":1,`, files-1),
	) || !strings.Contains(out, `"packages":2,`) {
		t.Errorf("%s%s", out, logs)
	}
	m.run("audit", 0)
	if n := s.gets(); n != 1 {
		t.Errorf("%d files were asked for", n)
	}

	// Changes from before and behind the position, in two packages, and some after them.
	from := s.at
	for i := range changes {
		s.put(fmt.Sprintf("/new/%d.txt", i), fmt.Sprint("new ", i))
	}
	s.put("/f2.txt", "")
	half, whole := s.changes[changes/2].Datetime.Add(-time.Second), s.clock.Add(time.Second)
	s.changesFrom = from
	head := payload.Head{Capability: payload.CapChangeDumpManifest, From: from, Until: half}
	s.changed = append(s.changed, s.pack("/c1.zip", head, s.changes[:changes/2]))
	head.From, head.Until = half, whole
	s.changed = append(s.changed, s.pack("/c2.zip", head, s.changes[changes/2:]))
	s.clock = whole
	s.put("/f3.txt", "after the Change Dump")
	out, logs := m.run("incremental", 0, "--delete")
	if !strings.Contains(out, fmt.Sprintf("; %d from 2 packages, 1 by GET)", changes)) {
		t.Errorf("%s%s", out, logs)
	}
	m.want("f2.txt", "")
	m.want("f3.txt", "after the Change Dump")
	m.want("new/7.txt", "new 7")
	m.run("audit", 0)
	if n := s.gets(); n != 2 {
		t.Errorf("%d files were asked for", n)
	}
	if out, logs := m.run("incremental", 0); !strings.HasPrefix(out, "incremental: 0 fetched (0.0 MB), ") {
		t.Errorf("once more: %s%s", out, logs)
	}
}

// A broken Change Dump is no gap: its changes come from the Change List, or, with only, the position
// is where the packages before it end.
func TestBadChangeDump(t *testing.T) {
	t.Parallel()
	const changes = 2*manyChanges + 200
	m, s := newDumper(t)
	s.put("/f.txt", "text")
	s.snapshot()
	s.dump(1)
	m.run("baseline", 0)
	s.changesFrom = s.at
	for i := range changes {
		s.put(fmt.Sprintf("/new/%d.txt", i), fmt.Sprint("new ", i))
	}
	half, whole := s.changes[changes/2].Datetime.Add(-time.Second), s.clock.Add(time.Second)
	head := payload.Head{Capability: payload.CapChangeDumpManifest, From: s.at, Until: half}
	s.changed = append(s.changed, s.pack("/c1.zip", head, s.changes[:changes/2]))
	head.From, head.Until = half.Add(time.Hour), whole // it lacks an hour
	second := s.pack("/c2.zip", head, s.changes[changes/2+100:])
	second.From = half
	s.changed = append(s.changed, second)
	if out, logs := m.run("incremental", 1, "--dump", "only"); !strings.Contains(
		logs, "the manifest of the package is wrong",
	) || strings.Contains(out, "incremental:") {
		t.Errorf("only: %s%s", out, logs)
	}
	m.want("new/7.txt", "new 7") // the first package was taken
	if out, logs := m.run("incremental", 0); !strings.Contains(logs, "the Change Dump is not used any further") || !strings.Contains(
		out, fmt.Sprintf("; 0 from 0 packages, %d by GET), 0 unchanged", changes-changes/2),
	) {
		t.Errorf("auto: %s%s", out, logs)
	}
	m.run("audit", 0)
	if out, logs := m.run("incremental", 1, "--dump", "only"); !strings.Contains(logs, "the manifest") {
		t.Errorf("only, at the end: %s%s", out, logs)
	}
	s.changed = s.changed[:1]
	if out, logs := m.run("incremental", 0, "--dump", "never"); !strings.HasPrefix(out, "incremental: 0 fetched") {
		t.Errorf("never: %s%s", out, logs)
	}
}

// With only, changes without a package are reported, and make the status 1.
func TestDumpOnlyCommand(t *testing.T) {
	t.Parallel()
	m, s := newDumper(t)
	s.put("/a.txt", "one")
	s.put("/b.txt", "two")
	s.snapshot()
	s.dump(2)
	s.zips["/1.zip"] = []byte(strings.Repeat("x", len(s.zips["/1.zip"])))
	out, logs := m.run("baseline", 1, "--dump", "only", "--json")
	var done struct {
		Whole, Failed, Packages int
		Unusable                int `json:"unusable_packages"`
	}
	if err := json.Unmarshal([]byte(out), &done); err != nil || done.Whole != 1 || done.Failed != 1 || done.Packages != 1 || done.Unusable != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if !strings.Contains(logs, "1 packages could not be used") || !strings.Contains(logs, "is not used") {
		t.Errorf("%s", logs)
	}
	if out, _ := m.run("baseline", 0); !strings.Contains(out, "2 whole") {
		t.Errorf("%s", out)
	}
	m.run("audit", 0)
}

// A package may have changes from between those of the one before it: where a Change Dump does not
// tell the times of its packages, none of them is passed over, also where one cannot be used.
func TestPackagesThatOverlapInTime(t *testing.T) {
	t.Parallel()
	const changes = manyChanges
	for _, mode := range []string{"only", "auto"} {
		t.Run(mode, func(t *testing.T) {
			m, s := newDumper(t)
			s.put("/f.txt", "text")
			s.snapshot()
			s.dump(1)
			m.run("baseline", 0)
			s.changesFrom = s.at
			var of [2][]payload.Entry
			for i := range changes {
				s.put(fmt.Sprintf("/new/%d.txt", i), fmt.Sprint("new ", i))
				of[i%2] = append(of[i%2], s.changes[i])
			}
			head := payload.Head{Capability: payload.CapChangeDumpManifest, From: s.at, Until: s.clock.Add(time.Second)}
			for i, entries := range of {
				part := s.pack(fmt.Sprintf("/c%d.zip", i), head, entries)
				part.From, part.Until = time.Time{}, time.Time{}
				s.changed = append(s.changed, part)
			}
			want := fmt.Sprintf("; %d from 2 packages", changes)
			if mode == "auto" {
				want = fmt.Sprintf("; %d from 1 packages, %d by GET", changes/2, changes/2)
				s.zips["/c1.zip"] = s.zips["/c0.zip"]
			}
			if out, logs := m.run("incremental", 0, "--dump", mode); !strings.Contains(out, want) {
				t.Errorf("%s%s", out, logs)
			}
			for i := range changes {
				m.want(fmt.Sprintf("new/%d.txt", i), fmt.Sprint("new ", i))
			}
		})
	}
}

// A package may be at a host that --trust-host names, also by a redirect; at no other.
func TestDumpAtTrustedHost(t *testing.T) {
	t.Parallel()
	for name, trusted := range map[string]bool{"named": true, "not named": false} {
		t.Run(name, func(t *testing.T) {
			m, s := newDumper(t)
			s.put("/f.txt", "text")
			s.snapshot()
			s.dump(1)
			store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(w, r) }))
			t.Cleanup(store.Close)
			s.mu.Lock()
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, ".zip") {
					return false
				}
				http.Redirect(w, r, store.URL+r.URL.Path, http.StatusTemporaryRedirect)
				return true
			}
			s.mu.Unlock()
			args, status, want := []string{"--dump", "only"}, 1, "nor a host that is trusted"
			if trusted {
				args, status, want = append(args, "--trust-host", strings.TrimPrefix(store.URL, "http://")), 0, "1 from 1 packages, 0 by GET"
			}
			if out, logs := m.run("baseline", status, args...); !strings.Contains(out+logs, want) {
				t.Errorf("want %q:\n%s%s", want, out, logs)
			}
		})
	}
}

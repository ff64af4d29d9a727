package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// A Source has archives of its earlier states, and only its present content. Unchanged content is
// restored; the rest is listed and never written. The mirror stays where it is.
func TestBaselineAtByRequests(t *testing.T) {
	t.Parallel()
	m := newMuseum(t, false)
	moments := m.record()
	// Resources that the Source has lost, or has changed.
	lost := [][]string{
		{"/d0/f0", "/d0/f3", "/d1/f1", "/d1/f4"},
		{"/d0/f0", "/d0/f3", "/d1/f4", "/new"},
		{"/d0/f0", "/d0/f3", "/d1/f4", "/d2/f2", "/new"},
		{"/d0/f0", "/d1/f4"},
		{"/d0/f0", "/d1/f4"},
	}
	for i, at := range moments {
		r := m.mirror()
		out, logs := r.run("baseline", 1, "--at", payload.FormatDatetime(at), "--retries", "0")
		m.same(r, m.past[at], lost[i]...)
		for _, path := range lost[i] {
			r.want(path, "")
			if !strings.Contains(out, fmt.Sprintf("not as it was %q: it", m.URL+path)) {
				t.Errorf("%s is not listed: %s", path, out)
			}
		}
		if !strings.Contains(logs, fmt.Sprintf("%d resources could not be fetched, or are not what the Source tells", len(lost[i]))) {
			t.Errorf("moment %d: %s", i, logs)
		}
	}
}

// Five moments of a recorded history are brought back equal byte for byte, in any order, one after the
// other in one mirror and each in a new one, from the dumps of a Source that has next to nothing of it now.
func TestBaselineAtFiveMoments(t *testing.T) {
	t.Parallel()
	m := newMuseum(t, true)
	moments := m.record()
	m.files = map[string]string{} // nothing can be had by itself
	one := m.mirror()
	for _, i := range []int{2, 0, 4, 1, 3, 0} {
		at := payload.FormatDatetime(moments[i])
		for _, r := range []*mirrored{one, m.mirror()} {
			out, logs := r.run("baseline", 0, "--at", at, "--delete", "--retries", "0")
			m.same(r, m.past[moments[i]])
			if !strings.Contains(out, fmt.Sprintf("the mirror has %d whole, 0 missing at their servers, 0 failed", len(m.past[moments[i]]))) {
				t.Errorf("moment %d: %s%s", i, out, logs)
			}
			var fetched, unchanged int
			before, after, _ := strings.Cut(out, " GET), ")
			_, err := fmt.Sscanf(before, "baseline: %d fetched", &fetched)
			_, err2 := fmt.Sscanf(after, "%d unchanged", &unchanged)
			if all := len(m.past[moments[i]]); err != nil || err2 != nil || fetched+unchanged != all {
				t.Errorf("moment %d: %d fetched and %d unchanged of %d: %s", i, fetched, unchanged, all, out)
			}
			if out, _ := r.run("audit", 0); !strings.HasPrefix(out, "audit: in sync: ") {
				t.Errorf("moment %d: %s", i, out)
			}
		}
	}
}

// A Source with dumps only has its earlier states in their manifests.
func TestBaselineAtByDumpsOnly(t *testing.T) {
	t.Parallel()
	m := newMuseum(t, true)
	m.onlyDumps = true
	moments := m.record()
	m.files = map[string]string{}
	for _, at := range moments {
		r := m.mirror()
		r.run("baseline", 0, "--at", payload.FormatDatetime(at), "--retries", "0")
		m.same(r, m.past[at])
		if out, _ := r.run("audit", 0); !strings.HasPrefix(out, "audit: in sync: ") {
			t.Errorf("%s: %s", at, out)
		}
	}
}

// Without hashes in the Source's lists nothing is proven, whatever its dumps and its server have.
func TestBaselineAtWithoutHashes(t *testing.T) {
	t.Parallel()
	m := newMuseum(t, true)
	m.unhashed = true
	moments := m.record()
	r := m.mirror()
	r.run("baseline", 0)
	now := maps.Clone(m.files)
	out, _ := r.run("baseline", 1, "--at", payload.FormatDatetime(moments[2]), "--retries", "0")
	if got := strings.Count(out, "the Source gave no hash of it"); got != len(m.past[moments[2]]) {
		t.Errorf("%d of %d are listed: %s", got, len(m.past[moments[2]]), out)
	}
	m.same(r, now)
}

// Content of a package that differs from its description is not written, nor are its extra members.
// Content that is unchanged at its own address is fetched, and the rest is listed.
func TestBaselineAtByBadPackages(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(m *museum, i int, dump, zip string){
		"packages are away":     func(m *museum, _ int, _, zip string) { delete(m.docs, zip) },
		"packages are others":   func(m *museum, _ int, _, zip string) { m.docs[zip] = bytes.Repeat([]byte("x"), len(m.docs[zip])) },
		"packages are cut":      func(m *museum, _ int, _, zip string) { m.docs[zip] = m.docs[zip][:len(m.docs[zip])/2] },
		"dumps are no document": func(m *museum, _ int, dump, _ string) { m.docs[dump] = []byte("<html/>") },
		"dumps are away":        func(m *museum, _ int, dump, _ string) { delete(m.docs, dump) },
		"contents are others": func(m *museum, i int, dump, zip string) {
			var entries []payload.Entry
			contents := map[string]string{}
			for path, text := range m.past[m.lists[i].At] {
				e := payload.Entry{
					Loc: m.URL + path, Path: fmt.Sprintf("/%d", len(entries)),
					Hash: fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(text))),
				}
				entries, contents[e.Path] = append(entries, e), strings.ToUpper(text)
			}
			head := payload.Head{Capability: payload.CapResourceDumpManifest, At: m.lists[i].At}
			part := m.pack(zip, head, entries, contents)
			document(m, dump, payload.Head{Capability: payload.CapResourceDump, At: head.At}, []payload.Part{part}, payload.AppendListed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMuseum(t, true)
			at := m.record()[1]
			for i, part := range m.resourceDumps {
				dump := strings.TrimPrefix(part.Loc, m.URL)
				spoil(m, i, dump, strings.NewReplacer("/dump-", "/resources-", ".xml", ".zip").Replace(dump))
			}
			// Of what the dumps had two are not there any more as they were, and two others were changed since.
			delete(m.files, "/d0/f6")
			m.files["/d1/f7"] = "another"
			lost := []string{"/d0/f3", "/d0/f6", "/d1/f4", "/d1/f7"}
			r := m.mirror()
			out, logs := r.run("baseline", 1, "--at", payload.FormatDatetime(at), "--retries", "0")
			m.same(r, m.past[at], lost...)
			if got := strings.Count(out, "not as it was "); got != len(lost) {
				t.Errorf("%d are listed: %s%s", got, out, logs)
			}
			for _, path := range lost {
				r.want(path, "")
			}
		})
	}
}

// Where there are no Resource Dumps the Change Dumps of all the time before are looked at.
func TestBaselineAtByChangeDumpsAlone(t *testing.T) {
	t.Parallel()
	m := newMuseum(t, true)
	moments := m.record()
	m.files = map[string]string{}
	delete(m.docs, "/resourcedump-archive.xml")
	for _, at := range moments {
		r := m.mirror()
		_, logs := r.run("baseline", 0, "--at", payload.FormatDatetime(at), "--retries", "0")
		m.same(r, m.past[at])
		if !strings.Contains(logs, "dumps of the past are not used") {
			t.Errorf("nothing is said of the archive that is away: %s", logs)
		}
	}
}

// A mirror that is kept at a moment is moved by nothing but --at.
func TestAMirrorThatIsKept(t *testing.T) {
	t.Parallel()
	m := newMuseum(t, false)
	moments := m.record()
	last := payload.FormatDatetime(moments[4])
	r := m.mirror()
	r.run("baseline", 0)
	m.docs["/d0/f0"], m.docs["/d1/f4"] = []byte("third 0"), []byte("second 4") // as it was at the last moment
	out, _ := r.run("baseline", 0, "--at", last, "--delete", "--json")
	var done struct{ Fetched, Unchanged, Whole, Failed int }
	if err := json.Unmarshal([]byte(out), &done); err != nil || done.Whole != len(m.past[moments[4]]) || done.Failed != 0 {
		t.Errorf("%s: %v", out, err)
	}
	m.same(r, m.past[moments[4]])
	for _, command := range []string{"baseline", "incremental", "follow"} {
		args := []string{}
		if command == "follow" {
			args = append(args, "--poll", "1m")
		}
		if _, logs := r.run(command, 1, args...); !strings.Contains(
			logs, "kept as it was at a moment, "+last,
		) || !strings.Contains(logs, "destination baseline --at now") {
			t.Errorf("%s: %s", command, logs)
		}
	}
	m.same(r, m.past[moments[4]])
	if out, _ := r.run("audit", 0); !strings.HasPrefix(out, "audit: in sync: ") {
		t.Errorf("audit of a mirror that is kept: %s", out)
	}

	delete(m.docs, "/d0/f0")
	delete(m.docs, "/d1/f4")
	r.run("baseline", 0, "--at", "now", "--delete")
	m.same(r, m.files)
	m.put("/later", "later")
	m.publish()
	r.run("incremental", 0)
	m.same(r, m.files)
}

// A moment that the archives do not reach is refused before anything is changed, with what they reach.
func TestBaselineAtBeyondTheArchives(t *testing.T) {
	t.Parallel()
	m := newMuseum(t, false)
	moments := m.record()
	earliest := payload.FormatDatetime(slices.MinFunc(slices.Collect(maps.Keys(m.past)), time.Time.Compare))
	r := m.mirror()
	r.run("baseline", 0)
	now := maps.Clone(m.files)
	for at, words := range map[string]string{
		"2026-01-02T03:04:05Z": "the earliest state that it lists or has archived is of " + earliest,
		"2999-01-02T03:04:05Z": "lies in the future",
		"yesterday":            "is not a datetime",
		"2026-01-02":           "with a time of day",
	} {
		if _, logs := r.run("baseline", 1, "--at", at); !strings.Contains(logs, words) {
			t.Errorf("--at %s: %s", at, logs)
		}
	}
	m.same(r, now)

	// A Change List is lost: the newest state before the hole is all that there is.
	gone := strings.TrimPrefix(m.changes[1].Loc, m.URL)
	delete(m.docs, gone)
	_, logs := r.run("baseline", 1, "--at", payload.FormatDatetime(moments[1]))
	if !strings.Contains(logs, "changes are known up to "+earliest+" only; give that moment or an earlier one") {
		t.Errorf("a hole in the archive: %s", logs)
	}
	r.run("incremental", 0)
	m.same(r, now)
	if _, logs := r.run("baseline", 1, "--at", earliest, "--delete", "--retries", "0"); strings.Contains(logs, "changes are known up to") {
		t.Errorf("the state itself: %s", logs)
	}
}

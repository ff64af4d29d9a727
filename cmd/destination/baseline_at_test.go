package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// A Source whose archives tell what it had, and that has the content of now only: what is still the same is
// brought back, and all the rest is listed and never put. The mirror stays where it is.
func TestBaselineAtByRequests(t *testing.T) {
	m := newMuseum(t, false)
	moments := m.record()
	// What the Source has not any more, or has otherwise.
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

// A mirror that is kept at a moment is moved by nothing but --at.
func TestAMirrorThatIsKept(t *testing.T) {
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
		if _, logs := r.run(command, 1, args...); !strings.Contains(logs, "kept as it was at a moment, "+last) || !strings.Contains(logs, "destination baseline --at now") {
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
	gone := strings.TrimPrefix(m.changes[0].Loc, m.URL)
	delete(m.docs, gone)
	_, logs := r.run("baseline", 1, "--at", payload.FormatDatetime(moments[1]))
	if !strings.Contains(logs, "what has changed is told up to "+earliest+" only; give that moment or an earlier one") {
		t.Errorf("a hole in the archive: %s", logs)
	}
	r.run("incremental", 0)
	m.same(r, now)
	if _, logs := r.run("baseline", 1, "--at", earliest, "--delete", "--retries", "0"); strings.Contains(logs, "told up to") {
		t.Errorf("the state itself: %s", logs)
	}
}

package main

import (
	"strings"
	"testing"

	"carillon/payload"
)

// TestDumpOlderThanTheMirror checks that no baseline brings back what was deleted after its dump
// was made.
func TestDumpOlderThanTheMirror(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, mode string
		lacks      []string // of the capabilities, when the second baseline runs
		trimmed    bool     // the Change List begins after the position
		refused    bool
	}{
		{"the dump lists the set", "only", []string{payload.CapResourceList}, false, true},
		{"the Resource List is as old", "only", nil, false, true},
		{"no Change List", "auto", []string{payload.CapResourceList, payload.CapChangeList}, false, true},
		{"the Change List begins later", "auto", []string{payload.CapResourceList}, true, true},
		{"the Change List leads on", "auto", []string{payload.CapResourceList}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, s := newDumper(t)
			s.put("/a.txt", "stays")
			s.put("/b.txt", "is deleted")
			s.snapshot()
			s.dump(1)
			m.run("baseline", 0, "--dump", "only")
			s.put("/b.txt", "")
			s.put("/c.txt", "is new")
			m.run("incremental", 0, "--delete")
			s.lacks = c.lacks
			if c.trimmed {
				s.at = s.clock.Add(1)
				s.put("/d.txt", "is newer")
				s.changes = s.changes[len(s.changes)-1:]
			}
			want, delta := 0, "audit"
			if c.refused {
				want, delta = 1, "incremental"
			}
			out, logs := m.run("baseline", want, "--delete", "--dump", c.mode)
			if refused := strings.Contains(logs, "is older than the mirror"); refused != c.refused {
				t.Errorf("refused: %v; %s%s", refused, out, logs)
			}
			m.want("a.txt", "stays")
			m.want("b.txt", "")
			m.want("c.txt", "is new")
			s.lacks = nil
			m.run(delta, 0) // the position is where it was
			m.want("b.txt", "")
		})
	}
}

// TestDumpOlderThanTheMoment checks that a mirror that is kept at a moment can be brought to the
// present by an older dump, and goes on from there.
func TestDumpOlderThanTheMoment(t *testing.T) {
	t.Parallel()
	m, s := newDumper(t)
	s.put("/a.txt", "stays")
	s.put("/b.txt", "is deleted")
	s.snapshot()
	s.dump(1)
	s.put("/b.txt", "")
	s.changesFrom = s.at
	m.run("baseline", 0, "--at", payload.FormatDatetime(s.clock), "--delete")
	m.want("b.txt", "")
	m.run("baseline", 0, "--at", now, "--dump", "only", "--delete")
	m.run("incremental", 0, "--delete")
	m.want("b.txt", "")
	m.run("audit", 0)
}

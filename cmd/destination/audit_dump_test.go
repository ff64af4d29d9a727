package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// TestAuditByDumps checks that an audit of a Source without a Resource List goes by the manifests of
// its dumps, and leaves nothing behind.
func TestAuditByDumps(t *testing.T) {
	t.Parallel()
	for name, lacks := range map[string][]string{
		"a Change List":     {payload.CapResourceList},
		"a Change Dump":     {payload.CapResourceList, payload.CapChangeList},
		"no changes at all": {payload.CapResourceList, payload.CapChangeList, payload.CapChangeDump},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := newDumper(t)
			s.put("/a.txt", "one")
			s.put("/b.txt", "two")
			s.snapshot()
			s.dump(2)
			s.lacks, s.changesFrom = lacks, s.at
			m.run("baseline", 0)
			audit := func(status int, want ...string) {
				t.Helper()
				out, logs := m.run("audit", status)
				for _, text := range want {
					if !strings.Contains(out, text) {
						t.Errorf("no %q: %s%s", text, out, logs)
					}
				}
				for _, left := range []string{filepath.Join(m.data, "packages"), filepath.Join(m.dir, ".carillon", "packages")} {
					if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s is left: %v", left, err)
					}
				}
			}
			audit(0, "in sync: 2 resources listed and 0 changes since")
			if len(lacks) < 3 {
				s.put("/a.txt", "")
				s.put("/c.txt", "new")
				head := payload.Head{Capability: payload.CapChangeDumpManifest, From: s.at, Until: s.clock.Add(time.Second)}
				s.changed = []payload.Part{s.pack("/c.zip", head, s.changes)}
				audit(1, "extra \""+s.URL+"/a.txt\"", "missing \""+s.URL+"/c.txt\"", "and 2 changes since")
				m.run("incremental", 0, "--delete")
				audit(0, "in sync")
			}
			s.zips["/0.zip"] = []byte("no package")
			if out, logs := m.run("audit", 1); out != "" || !strings.Contains(logs, "audit: a package of the dump cannot be used: ") {
				t.Errorf("with a bad package: %s%s", out, logs)
			}
		})
	}
}

package directory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"carillon/notifier"
	"carillon/notifier/directory"
)

// TestFSWatcher: what really happens to files is told by the system, and announced long
// before a rescan would find it.
func TestFSWatcher(t *testing.T) {
	w := newWorld(t)
	w.state.news = make(chan notifier.Event, 1000)
	// await waits until all of the events have come, each once, and no other.
	await := func(want ...string) {
		t.Helper()
		missing := map[string]bool{}
		for _, e := range want {
			missing[e] = true
		}
		for len(missing) > 0 {
			e := <-w.state.news
			told := string(e.Change) + " " + e.Loc[len(base):]
			if !missing[told] {
				t.Fatalf("announced: %s, while these were missing: %v", told, missing)
			}
			delete(missing, told)
		}
	}
	// A file appears whole, so that it is announced once however slow the machine is.
	outside := filepath.Join(t.TempDir(), "file")
	write := func(rel, content string) {
		t.Helper()
		w.must(os.WriteFile(outside, []byte(content), 0o600))
		w.must(os.MkdirAll(filepath.Dir(w.path(rel)), 0o700))
		w.must(os.Rename(outside, w.path(rel)))
	}
	write("a", "1")
	cfg := w.config()
	cfg.NewWatcher, cfg.Settle, cfg.Rescan = nil, 20*time.Millisecond, 24*time.Hour
	scanned := make(chan error, 100)
	w.startAs(cfg, func(d *directory.Directory) { d.Scanned(func(err error) { scanned <- err }) })
	if err := <-scanned; err != nil {
		t.Fatal(err)
	}
	await("created a")
	write("deep/down/here", "2")
	write("deep/.hidden", "2")
	await("created deep/down/here")
	write("deep/down/too", "3") // in a directory that is watched since
	await("created deep/down/too")
	w.must(os.WriteFile(w.path("deep/.tmp"), []byte("whole"), 0o600))
	w.must(os.Rename(w.path("deep/.tmp"), w.path("deep/down/here")))
	await("updated deep/down/here")
	w.must(os.Rename(w.path("deep"), w.path("moved")))
	await("deleted deep/down/here", "deleted deep/down/too", "created moved/down/here", "created moved/down/too")
	write("moved/down/last", "4") // by its new name
	await("created moved/down/last")
	w.must(os.Remove(w.path("a")))
	w.must(os.RemoveAll(w.path("moved")))
	await("deleted a", "deleted moved/down/here", "deleted moved/down/too", "deleted moved/down/last")
	for i := range 200 {
		write(fmt.Sprintf("many/%d/file", i), "x")
	}
	for i := range 200 {
		e := <-w.state.news
		if e.Change != "created" {
			t.Fatalf("%d: %s %s", i, e.Change, e.Loc)
		}
	}
	w.stop()
	if err := w.state.differs(w.dir, base); err != nil {
		t.Error(err)
	}
}

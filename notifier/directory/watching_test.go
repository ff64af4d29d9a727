package directory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"carillon/notifier"
	"carillon/notifier/directory"
)

// TestFSWatcher: the system reports real changes of files, and they are announced long before a rescan
// would find them.
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
			var e notifier.Event
			select {
			case e = <-w.state.news:
			case <-time.After(2 * time.Minute): // nothing here takes as long
				t.Fatalf("not announced: %v\n%s", missing, w.logs)
			}
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
	if n := w.logged("nothing is announced"); n > 0 {
		t.Errorf("an emptied directory was taken for one that is away:\n%s", w.logs)
	}
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

// TestEmptied: the system reported that all of the set was deleted. A scan before the announcement
// does not take the directory for one that is away.
func TestEmptied(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("a", "1")
		w.write("b/c", "2")
		w.start()
		w.pass(2 * settle)
		w.expect("created a", "created b/c")
		w.watcher.errs <- fsnotify.ErrEventOverflow // the scan comes in a Settle
		w.pass(settle * 3 / 4)
		w.must(os.Remove(w.path("a")))
		w.must(os.RemoveAll(w.path("b")))
		for _, rel := range []string{"a", "b/c", "b"} {
			w.tell(fsnotify.Remove, rel)
		}
		w.pass(2 * settle)
		w.expect("deleted a", "deleted b/c")
		if n := w.logged("nothing is announced"); n != 0 {
			t.Errorf("it was taken for one that is away:\n%s", w.logs)
		}
		w.write("a", "3")
		w.tell(fsnotify.Create, "a")
		w.pass(2 * settle)
		w.expect("created a")
		// Unreported removals are not announced.
		w.must(os.Remove(w.path("a")))
		w.pass(2 * rescan)
		w.expect()
		if n := w.logged("nothing is announced"); n != 1 {
			t.Errorf("the log has it %d times:\n%s", n, w.logs)
		}
	})
}

package directory_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"carillon/notifier"
	"carillon/notifier/directory"
	"carillon/payload"
)

// bubble runs a test in a time of its own.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newWorld(t)) })
}

// TestFirstScan: each regular file is announced with all its facts; hidden files, links and pipes are
// not.
func TestFirstScan(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("b/tide tables.PDF", "%PDF-")
		w.write("a.txt", "bells")
		w.write("a/deep/er.html", "<p>")
		w.write("a-1/x", "\x89PNG\x0D\x0A\x1A\x0A")
		w.write("no\xfftext", "")
		w.write(".hidden", "x")
		w.write(".git/config", "x")
		w.write("b/.swp", "x")
		w.must(os.Symlink(w.path("a.txt"), w.path("link")))
		w.must(os.Symlink(w.path("a"), w.path("linked")))
		w.must(os.Symlink("/etc", w.path("out")))
		w.must(syscall.Mkfifo(w.path("pipe"), 0o600))
		w.pass(time.Hour)
		w.start()
		w.expect("created a-1/x", "created a.txt", "created a/deep/er.html", "created b/tide%20tables.PDF", "created no%FFtext")
		want := payload.Entry{
			Loc: base + "a.txt", Length: "5", Type: "text/plain", LastMod: "2000-01-01T00:00:00Z",
			Hash: fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte("bells"))),
		}
		got := w.state.has[want.Loc]
		want.Datetime = got.Datetime
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("a.txt is %+v, want %+v", got, want)
		}
		for rel, kind := range map[string]string{
			"b/tide%20tables.PDF": "application/pdf", "a/deep/er.html": "text/html",
			"a-1/x": "image/png", "no%FFtext": "text/plain",
		} {
			if got := w.state.has[base+rel].Type; got != kind {
				t.Errorf("%s has the type %s, want %s", rel, got, kind)
			}
		}
		if files, folders := w.d.Kept(); files != 0 || folders != 5 {
			t.Errorf("%d files and %d directories are kept in memory", files, folders)
		}
		w.pass(3 * rescan)
		w.expect() // the same again is no news
	})
}

// TestEvents: the system's events become changes, each once, when the file rests.
func TestEvents(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("old", "1")
		w.write("moves", "2")
		w.write("stays", "3")
		w.pass(time.Minute)
		w.start()
		w.expect("created moves", "created old", "created stays")

		w.write("new", "n")
		created := time.Now()
		w.tell(fsnotify.Create, "new")
		w.tell(fsnotify.Write, "new")
		w.tell(fsnotify.Write, "new")
		w.write("old", "changed")
		w.tell(fsnotify.Write, "old")
		w.must(os.Rename(w.path("moves"), w.path("moved")))
		w.tell(fsnotify.Rename, "moves")
		w.tell(fsnotify.Create, "moved")
		w.tell(fsnotify.Chmod, "stays")
		w.pass(settle - time.Millisecond)
		w.expect()
		w.pass(settle)
		w.expect("created moved", "deleted moves", "created new", "updated old")

		w.touch("stays", time.Now().Add(-time.Hour)) // its time is announced, too
		w.tell(fsnotify.Chmod, "stays")
		w.writeAt("new", "m", created) // the same size and time
		w.tell(fsnotify.Write, "new")
		w.must(os.Remove(w.path("old")))
		w.tell(fsnotify.Remove, "old")
		w.tell(fsnotify.Create, ".hidden/file")
		w.tell(fsnotify.Remove, "unknown")
		w.pass(2 * settle)
		w.expect("updated new", "deleted old", "updated stays")

		// Gone and back within the time is one change; there and gone is no change.
		w.must(os.Remove(w.path("new")))
		w.tell(fsnotify.Remove, "new")
		w.write("new", "other")
		w.tell(fsnotify.Create, "new")
		w.write("brief", "x")
		w.tell(fsnotify.Create, "brief")
		w.must(os.Remove(w.path("brief")))
		w.tell(fsnotify.Remove, "brief")
		w.pass(2 * settle)
		w.expect("updated new")

		// The last file that goes is a deletion like others: the system reported it.
		for _, rel := range []string{"new", "moved", "stays"} {
			w.must(os.Remove(w.path(rel)))
			w.tell(fsnotify.Remove, rel)
		}
		w.pass(2 * settle)
		w.expect("deleted moved", "deleted new", "deleted stays")
	})
}

// TestDirectories: files that appear with a directory are created, and those that go with it are
// deleted. A directory that moved is watched by its new name.
func TestDirectories(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("stays", "x")
		w.start()
		w.pass(2 * settle)
		w.expect("created stays")
		w.write("a/b/c", "1")
		w.write("a/d", "2")
		w.write("a/.git/e", "3")
		w.tell(fsnotify.Create, "a")
		w.pass(2 * settle)
		w.expect("created a/b/c", "created a/d")
		w.must(os.Rename(w.path("a"), w.path("z")))
		w.tell(fsnotify.Rename, "a")
		w.tell(fsnotify.Create, "z")
		w.pass(2 * settle)
		w.expect("deleted a/b/c", "deleted a/d", "created z/b/c", "created z/d")
		want := []string{w.dir, w.path("z"), w.path("z/b")}
		if got := w.watcher.watched(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("watched are %q, want %q", got, want)
		}
		// A file in place of a directory, and the reverse.
		w.must(os.RemoveAll(w.path("z")))
		w.tell(fsnotify.Remove, "z/b/c")
		w.tell(fsnotify.Remove, "z/b")
		w.tell(fsnotify.Remove, "z/d")
		w.tell(fsnotify.Remove, "z")
		w.write("z", "now a file")
		w.tell(fsnotify.Create, "z")
		w.must(os.Remove(w.path("stays")))
		w.tell(fsnotify.Remove, "stays")
		w.write("stays/here", "x")
		w.tell(fsnotify.Create, "stays")
		w.pass(2 * settle)
		w.expect("deleted stays", "created stays/here", "created z", "deleted z/b/c", "deleted z/d")
	})
}

// TestHalfWritten: a file that is being written is not announced, after an event of the system or by a
// scan, for any time of the file.
func TestHalfWritten(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("whole", "x")
		w.write("growing", "1")
		w.start()
		w.pass(time.Second)
		for i := range 5 {
			w.write("growing", strings.Repeat("1", i+2))
			w.pass(time.Second)
		}
		w.expect("created whole")
		w.pass(settle)
		w.expect("created growing")

		for i := range 20 {
			w.write("growing", strings.Repeat("2", i+2))
			w.tell(fsnotify.Write, "growing")
			w.pass(time.Second)
		}
		w.expect()
		w.pass(settle)
		w.expect("updated growing")

		// Its time is ahead: two looks must be alike.
		for i := range 5 {
			w.writeAt("growing", strings.Repeat("3", i+2), time.Now().Add(time.Hour))
			if i == 0 {
				w.tell(fsnotify.Write, "growing")
			}
			w.pass(settle * 3 / 4)
		}
		w.expect()
		w.pass(2 * settle)
		w.expect("updated growing")
		if err := w.state.differs(w.dir, base); err != nil {
			t.Error(err)
		}
	})
}

// TestWithinTheSecond: a file announced within the second of its time may have changed after it, with
// the same length and time: a scan hashes it again.
func TestWithinTheSecond(t *testing.T) {
	bubble(t, func(w *world) {
		modified := time.Now().Add(2 * settle)
		w.writeAt("a", "one", modified)
		w.start()
		w.pass(2 * settle)
		w.expect("created a")
		w.writeAt("a", "two", modified)
		w.pass(rescan + 2*settle)
		w.expect("updated a")
	})
}

// TestUnreadable: a file that cannot be read is logged, once, and not announced as deleted. When it
// can be read it is compared again.
func TestUnreadable(t *testing.T) {
	bubble(t, func(w *world) {
		for _, rel := range []string{"file", "dir/a", "dir/sub/b", "dir.txt", "fine"} {
			w.write(rel, rel)
		}
		var broken atomic.Bool
		w.start(func(d *directory.Directory) {
			d.FailReading(func(rel string) error {
				if broken.Load() && (rel == "file" || rel == "dir") {
					return fmt.Errorf("reading: %w", fs.ErrPermission)
				}
				return nil
			})
		})
		w.pass(2 * settle)
		if got := len(w.state.take()); got != 5 {
			t.Fatalf("%d files were announced", got)
		}
		broken.Store(true)
		w.write("file", "changed")
		w.write("dir/a", "changed")
		w.write("fine", "changed")
		w.must(os.Remove(w.path("dir/sub/b")))
		w.pass(3 * rescan)
		w.expect("updated fine")
		if n := w.logged("is passed over"); n != 2 {
			t.Errorf("the log has it %d times:\n%s", n, w.logs)
		}
		broken.Store(false)
		w.pass(rescan)
		w.expect("updated dir/a", "deleted dir/sub/b", "updated file")
	})
}

// TestAway: a directory that is not there, or has nothing of what it had, deletes nothing, and
// announces nothing else. When it is back it goes on.
func TestAway(t *testing.T) {
	for _, empty := range []bool{false, true} {
		t.Run(fmt.Sprintf("empty=%v", empty), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.write("a", "1")
				w.write("b", "2")
				w.start()
				w.pass(2 * settle)
				w.expect("created a", "created b")
				w.must(os.Rename(w.dir, w.dir+".away"))
				if empty {
					w.must(os.Mkdir(w.dir, 0o700))
					w.write("foreign", "x")
					w.tell(fsnotify.Create, "foreign")
					w.tell(fsnotify.Write, "a")
				}
				w.pass(4 * rescan)
				w.expect()
				if n := w.logged("nothing is announced of the watched directory"); n != 1 {
					t.Errorf("the log has it %d times:\n%s", n, w.logs)
				}
				w.must(os.RemoveAll(w.dir))
				w.must(os.Rename(w.dir+".away", w.dir))
				w.must(os.Remove(w.path("a")))
				w.write("b", "22")
				w.pass(2 * time.Minute) // heldRetry
				w.expect("deleted a", "updated b")
			})
		})
	}
}

// TestNotThereYet: a directory that is made later is taken when it is there.
func TestNotThereYet(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.pass(time.Hour)
		w.write("a", "1")
		w.pass(2 * time.Minute)
		w.expect("created a")
	})
}

// TestReplaceMarker: by the marker its owner says that all that the set had may go: as it
// was deleted, or as the base is another.
func TestReplaceMarker(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("a", "1")
		w.start()
		w.pass(2 * settle)
		w.expect("created a")
		w.stop()
		cfg := w.config()
		cfg.Base = "https://source.example/other/"
		w.startAs(cfg)
		w.pass(2 * settle)
		w.expect()
		w.write(directory.ReplaceMarker, "")
		w.pass(2 * time.Minute)
		w.expect("deleted a", "created https://source.example/other/a")
		w.must(os.Remove(w.path("a")))
		w.pass(rescan)
		w.expect("deleted https://source.example/other/a")
	})
}

// TestMountBelow: a directory that had a file system of its own, and has it no more,
// deletes nothing.
func TestMountBelow(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("disk/a", "1")
		w.write("disk2", "2")
		w.start()
		w.pass(2 * settle)
		w.expect("created disk/a", "created disk2")
		w.d.WasMounted("disk")
		w.must(os.Remove(w.path("disk/a")))
		w.tell(fsnotify.Write, "disk/a") // of before
		w.write("disk2", "22")
		w.pass(2 * rescan)
		w.expect("updated disk2")
		if n := w.logged("what was mounted there is not there any more"); n != 1 {
			t.Errorf("the log has it %d times:\n%s", n, w.logs)
		}
	})
}

// TestEventWithoutProof: a file that an event was for, and that is not there, is
// deleted only if the system said so, or a scan found its directory well.
func TestEventWithoutProof(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("a", "1")
		w.write("b", "2")
		w.start()
		w.pass(2 * settle)
		w.expect("created a", "created b")
		w.must(os.Remove(w.path("a")))
		w.tell(fsnotify.Write, "a")
		w.pass(10 * settle)
		w.expect("deleted a")
		w.must(os.Rename(w.dir, w.dir+".away"))
		w.must(os.Mkdir(w.dir, 0o700))
		w.tell(fsnotify.Remove, "b") // of another directory than the one that is known
		w.pass(10 * settle)
		w.expect()
	})
}

// TestLostEvents: a scan at once finds changes that the system could not report; without it the next
// one does.
func TestLostEvents(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("a", "1")
		w.start()
		w.pass(2 * settle)
		w.expect("created a")
		w.write("a", "2 or so")
		w.write("b/c", "3")
		w.watcher.errs <- fsnotify.ErrEventOverflow
		w.pass(3 * settle)
		w.expect("updated a", "created b/c")
		// A watch might report an earlier name.
		if got, want := w.watcher.watched(), []string{w.dir, w.path("b")}; fmt.Sprint(got) != fmt.Sprint(want) || w.watcher.removed != 1 {
			t.Errorf("watched are %q after %d were removed, want %q", got, w.watcher.removed, want)
		}
		w.write("a", "3")
		w.must(os.RemoveAll(w.path("b")))
		w.pass(3 * settle)
		w.expect()
		w.pass(rescan)
		w.expect("updated a", "deleted b/c")
		if got := w.watcher.watched(); len(got) != 1 {
			t.Errorf("watched are %q", got)
		}
	})
}

// TestNoRoomToWatch: where the system takes no more watches, or none at all, one log line names the
// remedy, and rescans do the work.
func TestNoRoomToWatch(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("a/x", "1")
		w.write("b", "2")
		cfg := w.config()
		w.watcher.fails = fmt.Errorf("add: %w", syscall.ENOSPC)
		w.startAs(cfg)
		w.pass(2 * settle)
		w.expect("created a/x", "created b")
		w.write("a/x", "11")
		w.pass(2 * rescan)
		w.expect("updated a/x")
		if n := w.logged("fs.inotify.max_user_watches"); n != 1 {
			t.Errorf("the log has it %d times:\n%s", n, w.logs)
		}
		w.stop()
		cfg.NewWatcher = func() (directory.Watcher, error) { return nil, fmt.Errorf("init: %w", syscall.EMFILE) }
		w.startAs(cfg)
		w.write("b", "22")
		w.pass(2 * rescan)
		w.expect("updated b")
		if n := w.logged("fs.inotify.max_user_instances"); n != 1 {
			t.Errorf("the log has it %d times:\n%s", n, w.logs)
		}
	})
}

// TestTooManyWait: of files beyond the bound a scan finds what they are.
func TestTooManyWait(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("a", "")
		w.start(func(d *directory.Directory) { d.LimitPending(3) })
		w.pass(2 * settle)
		w.expect("created a")
		var want []string
		for i := range 9 {
			rel := fmt.Sprintf("f%d", i)
			w.write(rel, rel)
			w.tell(fsnotify.Create, rel)
			want = append(want, "created "+rel)
		}
		if files, _ := w.d.Kept(); files > 3 {
			t.Errorf("%d files are kept in memory", files)
		}
		w.pass(4 * settle)
		w.expect(want...)
	})
}

// TestJournalAway: an event or question that fails is repeated later; nothing is lost and nothing
// comes twice.
func TestJournalAway(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("a", "1")
		w.start()
		w.pass(2 * settle)
		w.expect("created a")
		w.state.fail(fmt.Errorf("%w: disk full", notifier.ErrUnavailable))
		w.write("b", "2")
		w.tell(fsnotify.Create, "b")
		w.must(os.Remove(w.path("a")))
		w.tell(fsnotify.Remove, "a")
		w.write("c/d", "3") // only a scan finds it
		w.pass(rescan)
		w.expect()
		w.state.fail(nil)
		w.pass(2 * time.Minute)
		w.expect("deleted a", "created b", "created c/d")
		w.pass(2 * rescan)
		w.expect()
	})
}

// TestChangesWhileAnnounced: a change of a file while its last one is not yet in the journal is
// announced after it, without a rescan.
func TestChangesWhileAnnounced(t *testing.T) {
	bubble(t, func(w *world) {
		w.write("a", "1")
		w.write("b", "1")
		w.start()
		w.pass(2 * settle)
		w.expect("created a", "created b")
		w.state.failTaking(fmt.Errorf("%w: disk full", notifier.ErrUnavailable))
		w.write("a", "2")
		w.tell(fsnotify.Write, "a")
		w.write("b", "2")
		w.tell(fsnotify.Write, "b")
		w.pass(2 * settle)
		w.write("a", "3")
		w.tell(fsnotify.Write, "a")
		w.must(os.Remove(w.path("b")))
		w.tell(fsnotify.Remove, "b")
		w.pass(2 * settle)
		w.expect()
		w.state.failTaking(nil)
		w.pass(rescan / 2)
		w.expect("updated a", "updated a", "updated b", "deleted b")
	})
}

func TestNewRefuses(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*directory.Config){
		"watch-settle must be":     func(c *directory.Config) { c.Settle = -1 },
		"watch-rescan must be":     func(c *directory.Config) { c.Rescan = time.Millisecond },
		"the set has no name":      func(c *directory.Config) { c.Set = "" },
		"the directory has no":     func(c *directory.Config) { c.Dir = "" },
		"is not a directory":       func(c *directory.Config) { c.Dir = file },
		"must end with a slash":    func(c *directory.Config) { c.Base = "http://a.example/x" },
		"is not an absolute":       func(c *directory.Config) { c.Base = "files/" },
		"no user, query":           func(c *directory.Config) { c.Base = "http://a.example/?q=/" },
		"have escaped":             func(c *directory.Config) { c.Base = "http://a.example/ü/" },
		"no . and ..":              func(c *directory.Config) { c.Base = "http://a.example/x/../" },
		"more than 1024":           func(c *directory.Config) { c.Base = "http://a.example/" + strings.Repeat("x", 1024) + "/" },
		"are not known from its e": func(c *directory.Config) { s := newState(); s.whole = notifier.ErrNotWhole; c.State = s },
	} {
		cfg := directory.Config{Set: "a", Dir: t.TempDir(), Base: base, Sink: newState(), State: newState()}
		change(&cfg)
		_, err := directory.New(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
		if strings.Contains(want, "known") && !errors.Is(err, notifier.ErrNotWhole) {
			t.Errorf("%v is not ErrNotWhole", err)
		}
	}
}

// TestLongNames: a file whose URI would be too long is logged, and becomes no resource.
func TestLongNames(t *testing.T) {
	bubble(t, func(w *world) {
		long := strings.Repeat("ü", 120) // six characters each in a URI
		w.write("fine", "x")
		w.write(long+"/"+long+"/"+long, "x")
		w.start()
		w.pass(2 * rescan)
		w.expect("created fine")
		if n := w.logged("no resource:"); n != 1 {
			t.Errorf("the log has it %d times:\n%s", n, w.logs)
		}
	})
}

package directory_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"pgregory.net/rapid"

	"carillon/payload"
)

// TestAnyHistory changes files in any order, while the program runs or not. The system reports the
// changes, rightly, late or not at all. Once the directory rests and was scanned, the set is the
// directory's content; and the changes of each file make sense.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{
			"write", "write", "write", "write in a directory", "remove", "remove", "move", "move", "remove all", "file for directory",
			"old times", "wait", "wait", "wait long", "restart", "lose", "hide",
		}), 1, 40).Draw(rt, "steps")
		var failed error
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.must(os.MkdirAll(w.dir, 0o700))
			w.write("always", "here") // so that the directory is never taken for one that is away
			w.start()
			w.pass(2 * settle) // now the set has it
			h := history{world: w, random: rand.New(rand.NewPCG(seed, 1)), tells: 3}
			for _, step := range steps {
				h.do(step)
			}
			w.pass(rescan + 2*settle)
			w.pass(rescan + 2*settle) // what a scan found not at rest
			w.stop()
			failed = w.state.differs(w.dir, base)
			if failed == nil {
				failed = consistent(w.state)
			}
			if failed != nil {
				failed = fmt.Errorf("%w\n%s", failed, w.logs)
			}
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

// consistent: only a missing file is created, and only an existing one is updated and deleted.
func consistent(s *state) error {
	there := map[string]bool{}
	for i, e := range s.events {
		if there[e.Loc] == (e.Change == payload.Created) {
			return fmt.Errorf("event %d: %s %s", i, e.Change, e.Loc)
		}
		there[e.Loc] = e.Change != payload.Deleted
	}
	return nil
}

// history is what happens in a directory.
type history struct {
	*world
	random *rand.Rand
	tells  int // so many events in 4 are reported
	wrote  int
}

func (h *history) name() string {
	return []string{"a", "b", "c", "a-", "a.x", "d"}[h.random.IntN(6)]
}

// reported reports an event, or not.
func (h *history) reported(op fsnotify.Op, rel string) {
	if h.random.IntN(4) < h.tells {
		h.tell(op, rel)
	}
}

// some is a path that is there, other than "always" and what is in it.
func (h *history) some(want func(fs.FileMode) bool) (string, bool) {
	var found []string
	h.must(filepath.WalkDir(h.dir, func(name string, e fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(h.dir, name); err == nil && rel != "." && rel != "always" && !strings.HasPrefix(rel, ".hidden") && want(e.Type()) {
			found = append(found, rel)
		}
		return err
	}))
	if len(found) == 0 {
		return "", false
	}
	return found[h.random.IntN(len(found))], true
}

func (h *history) put(rel string) {
	if info, err := os.Lstat(h.path(rel)); err == nil && info.IsDir() {
		return
	}
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(h.path(dir)); err == nil && !info.IsDir() {
			return
		}
	}
	_, err := os.Lstat(h.path(filepath.Dir(rel)))
	// Each length is different: a scan compares files by length and time.
	h.wrote++
	h.write(rel, strings.Repeat("x", h.wrote))
	if err != nil {
		h.reported(fsnotify.Create, filepath.Dir(rel))
	}
	h.reported(fsnotify.Create, rel)
	h.reported(fsnotify.Write, rel)
}

func anything(fs.FileMode) bool { return true }

func (h *history) do(step string) {
	switch step {
	case "write":
		h.put(h.name())
	case "write in a directory":
		h.put(h.name() + "/" + h.name())
	case "remove":
		if rel, ok := h.some(fs.FileMode.IsRegular); ok {
			h.must(os.Remove(h.path(rel)))
			h.reported(fsnotify.Remove, rel)
		}
	case "remove all":
		if rel, ok := h.some(fs.FileMode.IsDir); ok {
			h.must(os.RemoveAll(h.path(rel)))
			h.reported(fsnotify.Remove, rel)
		}
	case "file for directory":
		if rel, ok := h.some(fs.FileMode.IsDir); ok {
			h.must(os.RemoveAll(h.path(rel)))
			h.wrote++
			h.write(rel, strings.Repeat("x", h.wrote))
			h.reported(fsnotify.Create, rel)
		}
	case "move":
		from, ok := h.some(anything)
		to := h.name()
		if _, err := os.Lstat(h.path(to)); ok && err != nil {
			h.must(os.Rename(h.path(from), h.path(to)))
			h.reported(fsnotify.Rename, from)
			h.reported(fsnotify.Create, to)
		}
	case "hide":
		if from, ok := h.some(anything); ok {
			h.must(os.RemoveAll(h.path(".hidden")))
			h.must(os.Rename(h.path(from), h.path(".hidden")))
			h.reported(fsnotify.Rename, from)
			h.reported(fsnotify.Create, ".hidden")
		}
	case "old times":
		if rel, ok := h.some(fs.FileMode.IsRegular); ok {
			h.touch(rel, time.Now().Add(-time.Duration(h.random.IntN(100))*time.Hour))
			h.reported(fsnotify.Chmod, rel)
		}
	case "wait":
		h.pass(time.Duration(h.random.IntN(3000)) * time.Millisecond)
	case "wait long":
		h.pass(time.Duration(h.random.IntN(20)) * time.Minute)
	case "restart":
		h.stop()
		h.start()
	case "lose":
		h.tells = h.random.IntN(5)
		h.watcher.errs <- fsnotify.ErrEventOverflow
	}
}

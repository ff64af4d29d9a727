package directory

import (
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// watches are the directories that are watched.
type watches struct {
	names names
	log   *slog.Logger

	mu       sync.Mutex         // guards what follows
	watcher  Watcher            // nil without one
	folders  map[string]*folder // by path
	scans    uint64             // their number
	noRoom   bool               // the system takes no more watches
	toldRoom bool               // that was logged
	lost     bool               // events were lost
}

// folder is a directory below, or the directory itself, that is watched.
type folder struct {
	device uint64
	seen   uint64 // the number of the scan that saw it last
}

func (w *watches) start(watcher Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watcher = watcher
}

// lose records that events were lost.
func (w *watches) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = true
}

// begin is the beginning of a scan. A replaced directory is watched anew. So are all where events were
// lost: a lost event may be a move, after which a watch reports the wrong name.
func (w *watches) begin(another bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost || another {
		for rel := range w.folders {
			w.unwatch(rel)
		}
	}
	w.lost, w.noRoom = false, false
	w.scans++
}

// end is the end of a complete scan: unseen directories are not watched any more. It returns how many
// directories are.
func (w *watches) end() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rel, f := range w.folders {
		if f.seen != w.scans {
			w.unwatch(rel)
		}
	}
	return len(w.folders)
}

// unmounted reports whether a directory was a file system of its own, and is one with that above
// it now. It is remembered then.
func (w *watches) unmounted(rel string, device, above uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.folders[rel]
	if was == nil || was.device == device || device != above {
		return false
	}
	was.seen = w.scans
	return true
}

// add has a directory watched, before it is listed, so that nothing is
// missed between.
func (w *watches) add(rel string, device uint64) {
	w.mu.Lock()
	watcher, full := w.watcher, w.noRoom
	f := w.folders[rel]
	if f == nil {
		f = &folder{}
		w.folders[rel] = f
	}
	f.device, f.seen = device, w.scans
	w.mu.Unlock()
	if watcher == nil || full {
		return
	}
	err := watcher.Add(w.names.pathOf(rel))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fsnotify.ErrClosed) {
		return
	}
	if limitHint(err) == "" { // such as one that must not be read, which the scan reports
		w.log.Debug("a directory cannot be watched", "file", cut(rel), "error", err)
		return
	}
	w.mu.Lock()
	w.noRoom = true
	told := w.toldRoom
	w.toldRoom = true
	w.mu.Unlock()
	if told {
		return
	}
	w.log.Warn("not all directories can be watched; changes in the others are found by rescans only",
		"error", err, "hint", limitHint(err))
}

func (w *watches) has(rel string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.folders[rel] != nil
}

// forget ends watching a directory that is gone, and all below it: a moved one would be reported by
// its earlier names. False if rel was no directory.
func (w *watches) forget(rel string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.folders[rel] == nil {
		return false
	}
	for name := range w.folders {
		if name == rel || len(name) > len(rel) && name[len(rel)] == '/' && name[:len(rel)] == rel {
			w.unwatch(name)
		}
	}
	return true
}

// unwatch is called with mu.
func (w *watches) unwatch(rel string) {
	delete(w.folders, rel)
	if w.watcher == nil {
		return
	}
	if err := w.watcher.Remove(w.names.pathOf(rel)); err != nil {
		w.log.Debug("watching a directory has ended with an error", "file", cut(rel), "error", err)
	}
}

// deviceOf is the file system of a directory that was watched.
func (w *watches) deviceOf(rel string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.folders[rel]; f != nil {
		return f.device
	}
	return 0
}

// limitHint says which limit of the system an error is.
func limitHint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "raise the sysctl fs.inotify.max_user_watches"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "raise the sysctl fs.inotify.max_user_instances, or the limit of open files"
	}
	return ""
}

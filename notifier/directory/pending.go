package directory

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"carillon/internal/await"
)

// wait is a file that may not be at rest. Its fields belong to the goroutine of settle,
// but for gone and touched, which do not change.
type wait struct {
	due  time.Time
	gone bool // the system said that it was removed, and nothing since
	// touched: what it has may have changed, even if its size and time are as they were.
	touched bool
	looked  bool // size and modified are what they were a Settle before due
	size    int64
	// modified is compared as an instant: its clock may be another machine's.
	modified time.Time
}

// happened takes an event of the file system.
func (d *Directory) happened(event fsnotify.Event) {
	rel, ok := d.relPath(event.Name)
	if !ok || hiddenPath(rel) {
		return
	}
	gone := event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)
	if rel == "" {
		if gone {
			d.askRescan()
		}
		return
	}
	switch {
	case gone:
		if d.forget(rel) {
			if event.Has(fsnotify.Rename) {
				d.askRescan() // of what was below nothing is told; what is removed was empty
			}
			return
		}
	case event.Has(fsnotify.Create):
		if info, err := os.Lstat(d.pathOf(rel)); err == nil && info.IsDir() {
			d.appeared(rel)
			return
		}
	case d.isFolder(rel): // its attributes
		return
	}
	d.await(rel, wait{gone: gone, touched: true})
}

// appeared takes a new directory with all that it has by now.
func (d *Directory) appeared(rel string) {
	if len(d.locOf(rel)) > maxLoc {
		return // a scan tells
	}
	root, err := d.open()
	if err != nil {
		return // a scan was asked for, or will come
	}
	defer root.Close()
	d.adopt(root, rel)
}

// adopt watches a directory and takes its files; false if there is no room for
// more of them.
func (d *Directory) adopt(root *os.Root, rel string) bool {
	info, err := root.Lstat(rel)
	if err != nil || !info.IsDir() {
		return true
	}
	d.watchFolder(rel, deviceOf(info))
	l, err := d.list(root, rel)
	if err != nil {
		d.askRescan() // which tells
		return true
	}
	for i := range l.items {
		child := join(rel, l.name(i))
		if l.isDir(i) && !d.adopt(root, child) || !l.isDir(i) && !d.await(child, wait{touched: true}) {
			return false
		}
	}
	return true
}

// await makes a file wait until it rests; false if there is no room for it, and a scan
// was asked for.
func (d *Directory) await(rel string, w wait) bool { return d.awaiting(rel, w, true) }

// awaitAgain is await for what was taken from pending before: what came
// since is newer.
func (d *Directory) awaitAgain(rel string, w wait) { d.awaiting(rel, w, false) }

func (d *Directory) awaiting(rel string, w wait, newer bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.pending[rel]
	if old != nil && !newer {
		return true
	}
	if old == nil && len(d.pending) >= d.most {
		d.askRescan()
		return false
	}
	w.due = time.Now().Add(d.cfg.Settle)
	d.pending[rel] = &w
	if len(d.pending) == 1 {
		await.Wake(d.unsettle)
	}
	return true
}

// settle gives the files that rest to the examiners, until ctx ends.
func (d *Directory) settle(ctx context.Context) {
	step := min(max(d.cfg.Settle/4, time.Millisecond), time.Second)
	for {
		select {
		case <-d.unsettle:
		case <-ctx.Done():
			return
		}
		for more := true; more; more = d.anyPending() {
			if await.For(ctx, step) != nil {
				return
			}
			for _, j := range d.atRest(time.Now()) {
				if !d.submit(ctx, j) {
					return
				}
				d.mu.Lock()
				d.leaving--
				d.mu.Unlock()
			}
		}
	}
}

func (d *Directory) anyPending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pending) > 0
}

// atRest takes the files from pending that have rested for long enough. The others whose
// time has come are looked at. It is for the goroutine of settle, and asks the file
// system, which may hang, without mu.
func (d *Directory) atRest(now time.Time) []job {
	type dueFile struct {
		rel string
		*wait
	}
	var due []dueFile
	d.mu.Lock()
	for rel, w := range d.pending {
		if !w.due.After(now) {
			due = append(due, dueFile{rel, w})
		}
	}
	d.mu.Unlock()
	var jobs []job
	for _, f := range due {
		if !f.gone && !d.rests(f.rel, f.wait, now) {
			continue
		}
		d.mu.Lock()
		if d.pending[f.rel] == f.wait { // nothing has come meanwhile
			delete(d.pending, f.rel)
			d.leaving++
			jobs = append(jobs, job{rel: f.rel, gone: f.gone, touched: f.touched})
		}
		d.mu.Unlock()
	}
	return jobs
}

// rests looks at a file. Its time tells since when it is as it is, if that is
// not in the future, as a program may have set it or another machine's clock.
func (d *Directory) rests(rel string, w *wait, now time.Time) bool {
	info, err := os.Lstat(d.pathOf(rel))
	if err != nil || !info.Mode().IsRegular() {
		return true // whoever examines it will see
	}
	if w.looked && info.Size() == w.size && info.ModTime().Equal(w.modified) || restedFor(info.ModTime(), now, d.cfg.Settle) {
		return true
	}
	w.looked, w.size, w.modified, w.due = true, info.Size(), info.ModTime(), now.Add(d.cfg.Settle)
	return false
}

func restedFor(modified, now time.Time, settle time.Duration) bool {
	return !modified.After(now.Add(-settle))
}

// watchFolder has a directory watched, before it is listed, so that nothing is
// missed between.
func (d *Directory) watchFolder(rel string, device uint64) {
	d.mu.Lock()
	watcher, full := d.watcher, d.noRoom
	f := d.folders[rel]
	if f == nil {
		f = &folder{}
		d.folders[rel] = f
	}
	f.device, f.seen = device, d.scans
	d.mu.Unlock()
	if watcher == nil || full {
		return
	}
	err := watcher.Add(d.pathOf(rel))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fsnotify.ErrClosed) {
		return
	}
	if limitHint(err) == "" { // such as one that must not be read, which the scan tells
		d.log.Debug("a directory cannot be watched", "file", cut(rel), "error", err)
		return
	}
	d.mu.Lock()
	d.noRoom = true
	told := d.toldRoom
	d.toldRoom = true
	d.mu.Unlock()
	if told {
		return
	}
	d.log.Warn("not all directories can be watched; changes in the others are found by rescans only", "error", err, "hint", limitHint(err))
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

func (d *Directory) isFolder(rel string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.folders[rel] != nil
}

// forget ends watching a directory that is not there any more, and all below it: what was
// moved would be told of by the names that it had. False if rel was no directory.
func (d *Directory) forget(rel string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.folders[rel] == nil {
		return false
	}
	for name := range d.folders {
		if name == rel || len(name) > len(rel) && name[len(rel)] == '/' && name[:len(rel)] == rel {
			d.unwatch(name)
		}
	}
	return true
}

// unwatch is called with mu.
func (d *Directory) unwatch(rel string) {
	delete(d.folders, rel)
	if d.watcher == nil {
		return
	}
	if err := d.watcher.Remove(d.pathOf(rel)); err != nil {
		d.log.Debug("watching a directory has ended with an error", "file", cut(rel), "error", err)
	}
}

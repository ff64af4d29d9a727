package pebblestore

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// watchedFS reports the first failed write to a write-ahead log, before Pebble hears of it. Pebble's
// answer is a panic within its locks, which no caller can recover from, with the stacks of all
// goroutines on standard error.
type watchedFS struct {
	vfs.FS
	fail func(error) error
}

// Unwrap implements vfs.FS.
func (w watchedFS) Unwrap() vfs.FS { return w.FS }

// Where no file can be opened because too many are open, what writes waits for some to
// be closed: Pebble could not go on without its next write-ahead log.
const (
	filesWait = 30 * time.Second
	filesLook = 100 * time.Millisecond
)

// patiently opens a file when there is room for one more.
func patiently(open func() (vfs.File, error)) (vfs.File, error) {
	for waited := time.Duration(0); ; waited += filesLook {
		f, err := open()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || waited >= filesWait {
			return f, err
		}
		time.Sleep(filesLook)
	}
}

// Create implements vfs.FS.
func (w watchedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := patiently(func() (vfs.File, error) { return w.FS.Create(name, category) })
	return w.watch(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (w watchedFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := patiently(func() (vfs.File, error) { return w.FS.ReuseForWrite(oldname, newname, category) })
	return w.watch(newname, f, err)
}

// OpenDir implements vfs.FS. A new write-ahead log is not there until its
// directory is synced.
func (w watchedFS) OpenDir(name string) (vfs.File, error) {
	f, err := patiently(func() (vfs.File, error) { return w.FS.OpenDir(name) })
	if err != nil {
		return nil, err
	}
	return watchedFile{f, name, w.fail}, nil
}

func (w watchedFS) watch(name string, f vfs.File, err error) (vfs.File, error) {
	if !strings.HasSuffix(name, ".log") {
		return f, err
	}
	if err != nil {
		return nil, w.fail(fmt.Errorf("make the write-ahead log: %w", err))
	}
	return watchedFile{f, name, w.fail}, nil
}

// watchedFile is a write-ahead log, or its directory.
type watchedFile struct {
	vfs.File
	name string
	fail func(error) error
}

func (f watchedFile) check(what string, err error) error {
	if err != nil {
		_ = f.fail(fmt.Errorf("%s %s: %w", what, f.name, err))
	}
	return err
}

// Write implements vfs.File.
func (f watchedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.check("write", err)
}

// Sync implements vfs.File.
func (f watchedFile) Sync() error { return f.check("sync", f.File.Sync()) }

// SyncData implements vfs.File.
func (f watchedFile) SyncData() error { return f.check("sync", f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f watchedFile) SyncTo(length int64) (fullSync bool, err error) {
	fullSync, err = f.File.SyncTo(length)
	return fullSync, f.check("sync", err)
}

// Close implements vfs.File.
func (f watchedFile) Close() error { return f.check("close", f.File.Close()) }

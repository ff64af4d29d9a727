package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors of Open, wrapped with the directory.
var (
	// ErrInUse: another process has the directory open, or this one twice.
	ErrInUse = errors.New("it is used by another process")
	// ErrForeign: the directory holds something that this program did not make.
	ErrForeign = errors.New("it holds something else; choose an empty directory")
	// ErrNewer: a newer version of the program made the directory.
	ErrNewer = errors.New("it was made by a newer version of this program")
	// ErrOlder: a version that was never released made the directory.
	ErrOlder = errors.New("it was made by an earlier version of this program, in a layout that is no longer read: " +
		"begin with an empty directory, or keep to the version that made it")
)

// layout says what a store is and how its keys and records lie, as its format
// record does.
type layout struct {
	kind    string
	version uint64
}

// hubLayout is a hub's. Earlier layouts were never released.
func hubLayout() layout { return layout{kind: "carillon hub", version: 6} }

// openEngine opens the directory as a store of the layout, or makes it one.
func openEngine(cfg Config, want layout) (*engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e, err := openDirectory(cfg, want)
	if err != nil {
		return nil, fmt.Errorf("store directory %q: %w", cfg.Dir, err)
	}
	return e, nil
}

func openDirectory(cfg Config, want layout) (*engine, error) {
	lock, err := takeDir(cfg)
	if err != nil {
		return nil, err
	}
	cache := pebble.NewCache(cfg.CacheBytes)
	defer cache.Unref() // Pebble holds it until it is closed
	e := &engine{
		log:    cfg.Logger,
		cache:  cache,
		once:   int(max(cfg.CacheBytes-onceCache, 0)),
		space:  newSpace(cfg.FS, cfg.Dir, cfg.MinFree, cfg.Logger),
		unlock: lock,
		fatal:  cfg.Fatal,
		broken: make(chan struct{}),
	}
	logger := &engineLog{log: cfg.Logger, fail: e.fail}
	opts := cfg.options(watchedFS{e.space.guarded(), e.failHere}, cache, logger)
	opts.Lock = lock
	opts.EventListener.BackgroundError = e.inBackground(logger)
	e.db, err = e.openPebble(cfg.Dir, opts)
	if err == nil {
		e.begun.Store(true)
		err = e.failed()
	}
	if err != nil {
		_ = lock.Close()
		return nil, openError(err)
	}
	if err := e.checkFormat(want); err != nil {
		_ = e.close()
		return nil, openError(err)
	}
	e.testify(false)
	e.opened.Store(true)
	return e, nil
}

// takeDir takes the directory for this process, once it is fit for Pebble.
func takeDir(cfg Config) (*pebble.Lock, error) {
	if err := makeDir(cfg.FS, cfg.Dir); err != nil {
		return nil, err
	}
	if err := refuseForeign(cfg.FS, cfg.Dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, err
	}
	err = removeScratch(cfg.FS, cfg.Dir)
	if err == nil {
		err = probe(cfg.FS, cfg.Dir)
	}
	if err == nil {
		err = checkFiles(cfg.FS, cfg.Dir)
	}
	if _, there := cfg.FS.Stat(cfg.FS.PathJoin(cfg.Dir, unfinished)); there == nil && !cfg.unpacking {
		err = ErrUnfinished
	}
	if err != nil {
		_ = lock.Close()
		return nil, openError(err)
	}
	if vfs.Root(cfg.FS) == vfs.Default {
		closeToOthers(cfg.Dir, cfg.Logger)
	}
	return lock, nil
}

// openPebble is pebble.Open, which tries for ever to write a table where that fails:
// the first failure ends the wait, and what hangs is left behind, since a process whose
// store does not open ends.
func (e *engine) openPebble(dir string, opts *pebble.Options) (*pebble.DB, error) {
	type result struct {
		db  *pebble.DB
		err error
	}
	opened := make(chan result, 1)
	go func() {
		db, err := openTwice(dir, opts)
		opened <- result{db, err}
	}()
	select {
	case r := <-opened:
		return r.db, r.err
	case <-e.broken:
		return nil, e.failed()
	}
}

// openTwice opens a new directory a second time. Pebble begins it with a write-ahead
// log of an older form, whose records do not tell how much was synced before them, so
// that damage would pass for its end; with the second opening it begins another.
func openTwice(dir string, opts *pebble.Options) (db *pebble.DB, err error) {
	defer func() { // it panics where a directory cannot be synced
		if r := recover(); r != nil {
			err = fmt.Errorf("open the engine: %v", r)
		}
	}()
	if about, err := pebble.Peek(dir, opts.FS); err != nil || about.Exists {
		return pebble.Open(dir, opts)
	}
	first, err := pebble.Open(dir, opts)
	if err == nil {
		err = first.Close()
	}
	if err != nil {
		return nil, err
	}
	return pebble.Open(dir, opts)
}

// makeDir makes the directory and its parents, durably, for this user only:
// it will hold secrets.
func makeDir(fsys vfs.FS, dir string) error {
	info, err := fsys.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return errors.New("it is not a directory")
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := fsys.PathDir(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(fsys, parent)
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// refuseForeign keeps Pebble from moving in with other files. A store whose making
// was cut short by a crash is fine.
func refuseForeign(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "marker.format-version.") {
			return nil
		}
	}
	for _, name := range names {
		if name == unfinished {
			return nil // said more clearly
		}
	}
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, manifestMarker) }) &&
		slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".sst") }) {
		return damagedError(fmt.Errorf("there is no %s…", formatMarker))
	}
	for _, name := range names {
		if !madeByPebble(name) {
			return fmt.Errorf("%w (%q)", ErrForeign, name)
		}
	}
	return nil
}

// removeScratch removes what an earlier process has left. The lock is held.
func removeScratch(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	for _, name := range names {
		if strings.HasSuffix(name, ScratchSuffix) {
			err = errors.Join(err, fsys.RemoveAll(fsys.PathJoin(dir, name)))
		}
	}
	return err
}

// lockDir takes the directory for this process.
func lockDir(fsys vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, fsys)
	if err == nil {
		return lock, nil
	}
	var path *fs.PathError
	var errno syscall.Errno
	if errors.As(err, &path) {
		return nil, err // the file cannot be made: read-only, no permission
	}
	if errors.As(err, &errno) && errno != syscall.EAGAIN && errno != syscall.EACCES {
		return nil, fmt.Errorf("lock it: %w", err)
	}
	return nil, ErrInUse
}

// checkFormat reads the record that says what made the store, or writes it.
func (e *engine) checkFormat(want layout) error {
	record, err := e.get(formatKey())
	if err != nil {
		return err
	}
	if record == nil {
		return e.makeFormat(want)
	}
	d := newDecoder(record, recordVersion)
	got := layout{kind: d.words(), version: d.number()}
	if err := d.done(); err != nil {
		return fmt.Errorf("format record: %w", err)
	}
	switch {
	case got.kind != want.kind:
		return fmt.Errorf("%w (it is a store of the kind %q)", ErrForeign, got.kind)
	case got.version > want.version:
		return fmt.Errorf("%w (layout %d; this one knows up to %d)", ErrNewer, got.version, want.version)
	case got.version < want.version:
		return fmt.Errorf("%w (layout %d; this one knows layout %d)", ErrOlder, got.version, want.version)
	}
	return nil
}

// makeFormat makes a store of an empty directory.
func (e *engine) makeFormat(want layout) error {
	empty := true
	err := e.scan(context.Background(), nil, func(_, _ []byte) bool { empty = false; return false })
	if err != nil {
		return err
	}
	if !empty {
		return ErrForeign
	}
	return e.writeFormat(want)
}

func (e *engine) writeFormat(want layout) error {
	record := newEncoder(recordVersion, len(want.kind)+8)
	record.words(want.kind)
	record.number(want.version)
	b := e.db.NewBatch()
	if err := b.Set(formatKey(), record, nil); err != nil {
		return unavailable(err)
	}
	return e.commit(b)
}

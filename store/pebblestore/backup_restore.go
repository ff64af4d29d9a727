package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/subscription"
)

var (
	// ErrNotEmpty: a backup is put into an empty directory only.
	ErrNotEmpty = errors.New("it is not empty: a backup is restored into an empty directory, or one that is not there")
	// ErrUnfinished: a restore was cut short.
	ErrUnfinished = errors.New("a restore into it was not finished: run it again")
)

// Restored reports a backup that was put into a directory.
type Restored struct {
	BackupInfo
	Subscriptions, Requests, Pings, Topics, Notifications, Sources int
	// Damaged is how many records, or stretches of them, could not be read: they were
	// damaged when the backup was made.
	Damaged int
}

// RestoreBackup makes a store of a backup in cfg.Dir, which is empty, or missing, or has the leftovers
// of a restore that was cut short. The store is opened once, read to its end, and closed. On an error
// nothing of it stays.
//
// Changes acknowledged after the backup are not in it. Numbers that may have been given since are not
// given again: see raiseNumbers.
func RestoreBackup(ctx context.Context, cfg Config, from io.Reader) (done Restored, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return done, err
	}
	_, absent := cfg.FS.Stat(cfg.Dir)
	failed := func(err error) error { return fmt.Errorf("store directory %q: %w", cfg.Dir, err) }
	if err := makeDir(cfg.FS, cfg.Dir); err != nil {
		return done, failed(err)
	}
	target := &restoring{fs: cfg.FS, dir: cfg.Dir, space: newSpace(cfg.FS, cfg.Dir, cfg.MinFree, cfg.Logger)}
	lock, err := target.take()
	if err != nil {
		return done, failed(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, target.clearAll(errors.Is(absent, fs.ErrNotExist)))
		}
	}()
	done.BackupInfo, err = readBackup(ctx, from, target)
	if err = errors.Join(err, lock.Close()); err != nil {
		return done, err
	}
	if err := syncDir(cfg.FS, cfg.Dir); err != nil {
		return done, failed(err)
	}
	if err := done.look(ctx, cfg); err != nil {
		return done, fmt.Errorf("the backup was unpacked and cannot be used: %w", err)
	}
	return done, errors.Join(cfg.FS.Remove(cfg.FS.PathJoin(cfg.Dir, unfinished)), syncDir(cfg.FS, cfg.Dir))
}

// restoring is a directory that a backup is put into.
type restoring struct {
	fs    vfs.FS
	dir   string
	space *space
}

// take locks the directory and marks it, where it may be taken.
func (r *restoring) take() (*pebble.Lock, error) {
	if err := r.check(); err != nil {
		return nil, err // without a trace of us in it
	}
	lock, err := lockDir(r.fs, r.dir)
	if err != nil {
		return nil, err
	}
	if err := r.mark(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// check refuses a directory that has anything but what a restore has left.
func (r *restoring) check() error {
	names, err := r.listed()
	if err != nil || len(names) == 0 || slices.Contains(names, unfinished) {
		return err
	}
	return fmt.Errorf("%w (%q)", ErrNotEmpty, names[0])
}

func (r *restoring) mark() error {
	if err := r.check(); err != nil {
		return err
	}
	f, err := r.fs.Create(r.fs.PathJoin(r.dir, unfinished), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close(), syncDir(r.fs, r.dir)); err != nil {
		return err
	}
	return r.empty()
}

// empty removes everything but the mark.
func (r *restoring) empty() error {
	names, err := r.listed()
	for _, name := range names {
		if name != unfinished {
			err = errors.Join(err, r.fs.RemoveAll(r.fs.PathJoin(r.dir, name)))
		}
	}
	return err
}

// listed lists the directory, but for what may always be there.
func (r *restoring) listed() (names []string, err error) {
	all, err := r.fs.List(r.dir)
	for _, name := range all {
		if name != "LOCK" && name != "lost+found" {
			names = append(names, name)
		}
	}
	return names, err
}

// clearAll removes everything, the mark last. The directory goes too if it was made.
func (r *restoring) clearAll(made bool) error {
	if err := r.empty(); err != nil {
		return err
	}
	for _, name := range []string{unfinished, "LOCK"} {
		if err := r.fs.Remove(r.fs.PathJoin(r.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if made {
		return r.fs.Remove(r.dir)
	}
	return nil
}

// begin implements taker.
func (r *restoring) begin(info BackupInfo) error {
	if free, known := r.space.free(); known && free < uint64(info.Bytes)+r.space.min {
		return fmt.Errorf(
			"the backup needs %d bytes, and %d must stay free: the disk has %d", info.Bytes, r.space.min, free,
		)
	}
	// Its content need not be kept; its presence must be.
	return r.write(backupHead, io.MultiReader())
}

// file implements taker.
func (r *restoring) file(name string, _ int64, content io.Reader) error {
	return r.write(name, content)
}

func (r *restoring) write(name string, content io.Reader) error {
	f, err := r.fs.Create(r.fs.PathJoin(r.dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, content); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

// look opens the store and reads everything.
func (d *Restored) look(ctx context.Context, cfg Config) (err error) {
	var broken error
	cfg.unpacking, cfg.Fatal = true, func(err error) { broken = err }
	db, err := Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broken, db.Close()) }()
	for kind, count := range map[byte]*int{
		kindSubscription: &d.Subscriptions, kindRequest: &d.Requests, kindPing: &d.Pings, kindTopic: &d.Topics,
		kindHead: &d.Notifications, kindSource: &d.Sources, kindBody: nil, kindPosition: nil, kindGap: nil,
	} {
		err := db.engine.sift(ctx, []byte{kind}, func(_, _ []byte) bool {
			if count != nil {
				*count++
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	d.Damaged = db.engine.found.count()
	return nil
}

// Numbers of a store that may have lost its end.
const (
	// perSecond is how far the numbers run ahead for each second since numbersBegin:
	// more than a topic is given, so that what begins there is above all.
	perSecond    = 65_536
	numbersBegin = 1_767_225_600 // 2026-01-01, Unix seconds
	// leastJump is the least step, where the clock has gone back.
	leastJump = 1 << 26
)

// afterRestore raises the numbers of a store that was unpacked from a backup, once.
func (db *DB) afterRestore(now int64) error {
	fsys, dir := db.engine.space.fs, db.engine.space.dir
	head := fsys.PathJoin(dir, backupHead)
	if _, err := fsys.Stat(head); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := db.raiseNumbers(now); err != nil {
		return err
	}
	if err := fsys.Remove(fsys.PathJoin(dir, backupSums)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(fsys.Remove(head), syncDir(fsys, dir))
}

// raiseNumbers lifts every number given from now on above all that can have been given since the
// store's state: sequence numbers, epochs, the count of pings. So a party that has kept one of those
// (an export, say) never takes one notification for another.
func (db *DB) raiseNumbers(now int64) error {
	e := db.engine
	floor := max(db.pings.count, db.floor)
	for i := range db.shards {
		floor = max(floor, db.shards[i].epoch)
	}
	err := e.sift(context.Background(), []byte{kindTopic}, func(_, record []byte) bool {
		if state, err := decodeTopic(record); err == nil { // a damaged one takes nothing any more
			floor = max(floor, state.head)
		}
		return true
	})
	if err != nil {
		return err
	}
	floor = max(floor+leastJump, uint64(max(now-numbersBegin, 0))*perSecond)
	b := e.db.NewBatch()
	err = errors.Join(b.Set(floorKey(), encodeCount(floor), nil), b.Set(pingCountKey(), encodeCount(floor), nil))
	for i := range db.shards {
		err = errors.Join(err, b.Set(epochKey(subscription.Shard(i)), encodeCount(floor), nil))
	}
	if err != nil {
		return unavailable(err)
	}
	if err := e.commit(b); err != nil {
		return err
	}
	e.log.Info(
		"the store was restored from a backup: its numbers go on above those that may have been given since",
		"from", floor,
	)
	return db.load()
}

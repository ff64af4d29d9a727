package pebblestore

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A backup is a tar stream:
//
//	backup.json     what it is (BackupInfo)
//	…               the files of the store, as Pebble's Checkpoint has them
//	backup.sha256   the sums of all files before it, as sha256sum writes them
//
// A stream without the last entry was cut off. The files of the first and last name lie in a restored
// directory until it is first opened, which raises its numbers (raiseNumbers), by whatever tool it was
// unpacked.
const (
	backupHead    = "backup.json"
	backupSums    = "backup.sha256"
	backupFormat  = "carillon hub backup"
	backupVersion = 1
)

// Bounds of a backup, so that any other stream is soon refused.
const (
	maxBackupHead  = 64 << 10
	maxBackupFiles = 1 << 20
	maxBackupSums  = 128 * maxBackupFiles
)

// backupScratch is where a backup is made, in the directory of the store: so its
// files are hard links.
const backupScratch = "backup" + ScratchSuffix

// ErrBackupRuns: one backup at a time.
var ErrBackupRuns = errors.New("another backup is being made")

// BackupInfo says what a backup is.
type BackupInfo struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Program string    `json:"program"` // the version of the program that made it
	Layout  uint64    `json:"layout"`
	Made    time.Time `json:"made"`
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"` // of the files
}

// Backup is a state of the store, held until it is closed. The store goes on
// meanwhile.
type Backup struct {
	BackupInfo
	db    *DB
	dir   string
	files []backupFile
}

type backupFile struct {
	name string
	size int64
}

// Backup holds the state of the store: everything that was acknowledged before the call is in it, and
// later changes may be. The caller closes it. It is ErrBackupRuns while another is held, and
// ErrUnavailable with little room on the disk: a held state takes its space also when the store needs
// it no more.
func (db *DB) Backup(ctx context.Context, program string) (*Backup, error) {
	if err := db.engine.enter(ctx); err != nil {
		return nil, fmt.Errorf("make a backup: %w", err)
	}
	if !db.backup.TryLock() {
		db.engine.leave()
		return nil, fmt.Errorf("make a backup: %w", ErrBackupRuns)
	}
	e := db.engine
	b := &Backup{db: db, dir: e.space.fs.PathJoin(e.space.dir, backupScratch)}
	b.BackupInfo = BackupInfo{
		Format: backupFormat, Version: backupVersion, Program: program, Layout: hubLayout().version,
		Made: time.Now().UTC().Truncate(time.Second),
	}
	if err := b.hold(); err != nil {
		return nil, fmt.Errorf("make a backup: %w", errors.Join(err, b.Close()))
	}
	return b, nil
}

// hold makes the files.
func (b *Backup) hold() error {
	e, fsys := b.db.engine, b.db.engine.space.fs
	// Other users may not look into it. A leftover that could not be removed before goes first.
	if err := errors.Join(fsys.RemoveAll(b.dir), fsys.MkdirAll(b.dir, 0o700)); err != nil {
		return unavailable(err)
	}
	if err := b.checkSpace(); err != nil {
		return err
	}
	// What Checkpoint would do too, but where the write-ahead log has failed this
	// returns an error, and Pebble panics.
	if err := e.commit(e.db.NewBatch()); err != nil {
		return err
	}
	files := fsys.PathJoin(b.dir, "store")
	if err := e.db.Checkpoint(files); err != nil {
		return unavailable(err)
	}
	b.dir = files
	names, err := fsys.List(files)
	if err != nil {
		return unavailable(err)
	}
	slices.Sort(names)
	for _, name := range names {
		info, err := fsys.Stat(fsys.PathJoin(files, name))
		if err != nil {
			return unavailable(err)
		}
		if !ofBackup(name) {
			return fmt.Errorf("the engine has made a file that no backup can have: %q", name)
		}
		b.files = append(b.files, backupFile{name, info.Size()})
		b.Bytes += info.Size()
	}
	b.Files = len(names)
	return nil
}

// checkSpace refuses where making the files would leave less than Config.MinFree. The
// write-ahead logs are copied; the tables too, where the file system has no links.
func (b *Backup) checkSpace() error {
	space, metrics := b.db.engine.space, b.db.engine.db.Metrics()
	needed := space.min + metrics.WAL.PhysicalSize
	probe := space.fs.PathJoin(b.dir, "probe")
	f, err := space.fs.Create(probe, vfs.WriteCategoryUnspecified)
	if err != nil {
		return unavailable(err)
	}
	if err := errors.Join(f.Close(), space.fs.Link(probe, probe+"2")); err != nil {
		needed += metrics.DiskSpaceUsage()
	}
	if free, known := space.free(); known && free < needed {
		return unavailable(fmt.Errorf("%w: a backup needs %d bytes free, and there are %d", errLowSpace, needed, free))
	}
	return nil
}

// Write writes the backup. It ends early with ctx, and when the disk of the store
// becomes nearly full. Each file is let go when it is written, so it is called once.
func (b *Backup) Write(ctx context.Context, w io.Writer) error {
	if err := b.write(ctx, w); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

func (b *Backup) write(ctx context.Context, w io.Writer) error {
	out, sums := tar.NewWriter(w), &bytes.Buffer{}
	head, err := json.Marshal(b.BackupInfo)
	if err != nil {
		return err
	}
	if err := b.put(out, sums, backupHead, int64(len(head)), bytes.NewReader(head)); err != nil {
		return err
	}
	for _, file := range b.files {
		if err := b.putFile(ctx, out, sums, file); err != nil {
			return err
		}
	}
	if err := b.put(out, io.Discard, backupSums, int64(sums.Len()), bytes.NewReader(sums.Bytes())); err != nil {
		return err
	}
	return out.Close()
}

func (b *Backup) putFile(ctx context.Context, out *tar.Writer, sums io.Writer, file backupFile) (err error) {
	fsys, name := b.db.engine.space.fs, b.db.engine.space.fs.PathJoin(b.dir, file.name)
	f, err := fsys.Open(name, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), fsys.Remove(name)) }()
	return b.put(out, sums, file.name, file.size, &backupReader{ctx, f, b.db.engine.space})
}

// put writes one entry and its sum.
func (b *Backup) put(out *tar.Writer, sums io.Writer, name string, size int64, from io.Reader) error {
	err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: b.Made})
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(out, sum), from, size); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = fmt.Fprintf(sums, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
	return err
}

// backupReader reads a file as long as there is time and room.
type backupReader struct {
	ctx   context.Context // of one Write
	from  io.Reader
	space *space
}

func (r *backupReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.space.isLow() {
		return 0, unavailable(errLowSpace)
	}
	return r.from.Read(p)
}

// Close lets the state go. It may be called once.
func (b *Backup) Close() error {
	defer b.db.engine.leave()
	defer b.db.backup.Unlock()
	fsys := b.db.engine.space.fs
	if err := fsys.RemoveAll(fsys.PathJoin(b.db.engine.space.dir, backupScratch)); err != nil {
		return fmt.Errorf("remove what the backup was made of: %w", err)
	}
	return nil
}

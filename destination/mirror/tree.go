package mirror

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"carillon/internal/digests"
)

// ownName is the directory below Config.Dir that has the files that are being fetched. No
// resource's name begins with a dot.
const ownName = ".carillon"

// copyBuffer is how much of a file is held at a time.
const copyBuffer = 64 << 10

// renameTries is how often a file is moved to its place: a directory that is empty may be removed
// while it is.
const renameTries = 5

var buffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// tree is the directory: nothing outside of it is ever opened (os.Root).
type tree struct {
	dir  string
	root *os.Root
	own  *os.Root // the directory ownName
	out  *mover   // from there; nil: nothing is written
	// Copies can be read by who can read the directory, whatever the process's umask is.
	fileMode, dirMode fs.FileMode
	lock              *os.File
	sync              bool
	space             *diskSpace
}

// openTree takes the directory, and removes what an earlier process has left half written; with
// readOnly nothing is made or removed.
func openTree(dir string, readOnly, sync bool, minFree uint64) (*tree, error) {
	if !readOnly {
		if err := os.MkdirAll(filepath.Join(dir, ownName), 0o755); err != nil {
			return nil, fmt.Errorf("mirror directory: %w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("mirror directory: %w", err)
	}
	t := &tree{dir: dir, root: root, sync: sync, space: newDiskSpace(dir, minFree)}
	if err := t.begin(readOnly); err != nil {
		return nil, errors.Join(fmt.Errorf("mirror directory %s: %w", dir, err), t.close())
	}
	return t, nil
}

func (t *tree) begin(readOnly bool) (err error) {
	if info, err := t.root.Lstat(ownName); err != nil || !info.IsDir() {
		return errors.Join(err, fmt.Errorf("%s is not a directory", ownName))
	}
	if t.own, err = t.root.OpenRoot(ownName); err != nil {
		return err
	}
	info, err := t.root.Stat(".")
	if err != nil {
		return err
	}
	t.fileMode, t.dirMode = 0o600|info.Mode()&0o044, 0o700|info.Mode()&0o055
	t.lock, err = lockFile(t.root, ownName+"/LOCK", readOnly)
	if readOnly && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)) {
		return nil // a user with read permission only does no harm
	}
	if err != nil || readOnly {
		return err
	}
	if t.out, err = newMover(t.root); err != nil {
		return err
	}
	own, err := fs.ReadDir(t.root.FS(), ownName)
	for _, entry := range own {
		if strings.HasSuffix(entry.Name(), partSuffix) {
			err = errors.Join(err, t.root.Remove(ownName+"/"+entry.Name()))
		}
	}
	return err
}

func (t *tree) close() error {
	var err error
	if t.lock != nil {
		err = t.lock.Close()
	}
	if t.own != nil {
		err = errors.Join(err, t.own.Close())
	}
	return errors.Join(err, t.out.close(), t.root.Close())
}

const partSuffix = ".part"

// part is a file that is being written; it is removed unless it was moved to its place.
type part struct {
	tree  *tree
	name  string // below ownName
	file  *os.File
	moved bool
}

func (t *tree) newPart() (*part, error) {
	name := rand.Text() + partSuffix
	file, err := t.own.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, t.fileMode)
	if err != nil {
		return nil, spaceError(err)
	}
	if t.fileMode != 0o600 {
		if err := file.Chmod(t.fileMode); err != nil {
			return nil, errors.Join(err, file.Close(), t.own.Remove(name))
		}
	}
	return &part{tree: t, name: name, file: file}, nil
}

// Write is that of the file.
func (p *part) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	return n, spaceError(err)
}

// rename moves the file to a path, in the place of a file that is there. Zero modified: it stays as
// it was written.
func (p *part) rename(to string, modified time.Time) (fs.FileInfo, error) {
	info, err := p.finish(modified)
	if err != nil {
		return nil, spaceError(err)
	}
	for range renameTries {
		if err = p.tree.out.move(p.name, to); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err = p.tree.makeDir(path.Dir(to)); err != nil {
			return nil, spaceError(err)
		}
	}
	if err != nil {
		return nil, spaceError(err)
	}
	p.moved = true
	if p.tree.sync {
		if err := p.tree.syncUpTo(path.Dir(to)); err != nil {
			return nil, err
		}
	}
	return info, nil
}

// makeDir makes a directory and those above it.
func (t *tree) makeDir(dir string) error {
	err := t.root.Mkdir(dir, t.dirMode)
	if errors.Is(err, fs.ErrNotExist) && dir != "." {
		if err = t.makeDir(path.Dir(dir)); err == nil {
			err = t.root.Mkdir(dir, t.dirMode)
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil // a file in place of a directory fails the later calls
	case err == nil && t.dirMode != 0o700:
		return t.root.Chmod(dir, t.dirMode)
	}
	return err
}

// finish closes the file, and returns what it is.
func (p *part) finish(modified time.Time) (info fs.FileInfo, err error) {
	if p.tree.sync {
		err = p.file.Sync()
	}
	err = errors.Join(err, p.file.Close())
	p.file = nil
	if err == nil && !modified.IsZero() {
		err = p.tree.own.Chtimes(p.name, modified, modified)
	}
	if err != nil {
		return nil, err
	}
	return p.tree.own.Lstat(p.name)
}

// discard removes the file if it was not moved.
func (p *part) discard() {
	if p.file != nil {
		_ = p.file.Close()
	}
	if !p.moved {
		_ = p.tree.own.Remove(p.name) // or the next start does
	}
}

// syncUpTo makes the names of a directory and of those above it durable: they may be new.
func (t *tree) syncUpTo(dir string) error {
	for {
		d, err := t.root.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
		if dir == "." {
			return nil
		}
		dir = path.Dir(dir)
	}
}

// regular looks at the file at a path: nil without one, or something else is.
func (t *tree) regular(at string) fs.FileInfo {
	info, err := t.root.Lstat(at)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return info
}

// intact reports whether the file is as it was left, as far as size and time tell.
func (t *tree) intact(c *Copy) bool {
	if c.File == nil || c.Path == "" {
		return false
	}
	info := t.regular(c.Path)
	return info != nil && info.Size() == c.File.Size && info.ModTime().Equal(c.File.ModTime)
}

// touch gives the file a time of modification.
func (t *tree) touch(at string, modified time.Time) (fs.FileInfo, error) {
	if err := t.root.Chtimes(at, modified, modified); err != nil {
		return nil, err
	}
	return t.root.Lstat(at)
}

// hash reads a file that is there.
func (t *tree) hash(ctx context.Context, at string, need []digests.Digest) (*digests.Hashing, int64, error) {
	if t.regular(at) == nil {
		return nil, 0, fs.ErrNotExist
	}
	f, err := t.root.Open(at)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	h := digests.New(need)
	buffer := buffers.Get().(*[copyBuffer]byte)
	defer buffers.Put(buffer)
	n, err := io.CopyBuffer(h, onlyReader{ctx, f}, buffer[:])
	return h, n, err
}

// onlyReader reads until the context ends.
type onlyReader struct {
	ctx  context.Context
	from io.Reader
}

func (r onlyReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}

// remove removes the file at a path, and the directories that it leaves empty. A missing file counts
// as removed.
func (t *tree) remove(at string) error {
	info, err := t.root.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("a directory is in its place")
	}
	if err := t.root.Remove(at); err != nil {
		return err
	}
	dir := path.Dir(at)
	if t.sync {
		if err := t.syncUpTo(dir); err != nil {
			return err
		}
	}
	for ; dir != "."; dir = path.Dir(dir) {
		if t.root.Remove(dir) != nil {
			break // it has others
		}
	}
	return nil
}

// spaceError separates trouble with the disk's room from other errors.
func spaceError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrRoom, err)
	}
	return err
}

// fileOf is what is written down of a file.
func fileOf(info fs.FileInfo, sum [sha256.Size]byte) *File {
	return &File{Size: info.Size(), SHA256: sum, ModTime: info.ModTime().UTC()}
}

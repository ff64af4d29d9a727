package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"carillon/internal/durable"
)

// ErrOverlap: a document begins before the newest ends.
var ErrOverlap = errors.New("the archive has a document of that time already")

// Add adds a document behind the newest. write makes it at the path that it is given, which does
// not exist, and leaves it durable; it may make a file or a directory. The document is in the
// archive, durable, when Add returns nil. After an error it is not.
func (a *Archive) Add(k Kept, write func(path string) error) error {
	if _, newest, some := a.Ends(); some && k.Begin.Before(newest.End) {
		return fmt.Errorf("%w: %s", ErrOverlap, k.Begin.Format(time.RFC3339Nano))
	}
	part, fresh := a.room(k)
	dir := a.partDir(part.First)
	s := spanOf(k)
	path := a.path(part, s)
	if err := a.put(dir, path, fresh, write); err != nil {
		return fmt.Errorf("archive what begins at %s: %w", k.Begin.Format(time.RFC3339Nano), err)
	}
	// The array may be shared with a Part that was handed out, which is shorter.
	part.spans = append(part.spans, s)
	a.mu.Lock()
	defer a.mu.Unlock()
	parts := slices.Clone(a.parts)
	if fresh {
		parts = append(parts, part)
	} else {
		parts[len(parts)-1] = part
	}
	a.parts = parts
	return nil
}

// room is the part that takes one more document.
func (a *Archive) room(k Kept) (part Part, fresh bool) {
	parts := a.Parts()
	if n := len(parts); n > 0 && parts[n-1].Len() < a.cfg.Most {
		return parts[n-1], false
	}
	return Part{First: k.Begin}, true
}

// put has a document written, and gives it its name.
func (a *Archive) put(dir, path string, fresh bool, write func(string) error) error {
	if fresh {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		for above := a.cfg.Dir; len(above) >= len(a.cfg.Root); above = filepath.Dir(above) {
			if err := durable.SyncDirectory(above); err != nil {
				return err
			}
			if above == filepath.Dir(above) {
				break
			}
		}
	}
	unfinished := path + making
	// An attempt before this one may have left either, unknown to anybody.
	if err := errors.Join(os.RemoveAll(unfinished), os.RemoveAll(path)); err != nil {
		return err
	}
	err := write(unfinished)
	if err == nil {
		err = os.Rename(unfinished, path)
	}
	if err == nil {
		return durable.SyncDirectory(dir)
	}
	return errors.Join(err, os.RemoveAll(unfinished))
}

// DropUntil removes the oldest documents as far as they end at keepFrom or before, and returns how
// many went.
func (a *Archive) DropUntil(keepFrom time.Time) (dropped int, err error) {
	for err == nil {
		parts := a.Parts()
		if len(parts) == 0 || parts[0].spans[0].end > keepFrom.UnixMicro() {
			break
		}
		oldest := parts[0]
		if err = a.remove(a.path(oldest, oldest.spans[0])); err == nil {
			dropped++
			oldest.spans = oldest.spans[1:]
			a.replace(0, oldest)
		}
	}
	return dropped, err
}

// CutWhile removes the newest documents as far as foreign says so, and returns how many went: they
// are of a history that is not continued.
func (a *Archive) CutWhile(foreign func(Kept) bool) (cut int, err error) {
	for err == nil {
		parts := a.Parts()
		n := len(parts) - 1
		if n < 0 {
			break
		}
		newest := parts[n]
		end := newest.Len() - 1
		if !foreign(newest.At(end)) {
			break
		}
		if err = a.remove(a.path(newest, newest.spans[end])); err == nil {
			cut++
			newest.spans = newest.spans[:end:end] // what is added next must not touch what was handed out
			a.replace(n, newest)
		}
	}
	return cut, err
}

// replace puts a part that has become shorter in the place of part i.
func (a *Archive) replace(i int, part Part) {
	a.mu.Lock()
	defer a.mu.Unlock()
	parts := slices.Clone(a.parts)
	if len(part.spans) > 0 {
		parts[i] = part
	} else {
		parts = slices.Delete(parts, i, i+1)
		_ = os.Remove(a.partDir(part.First)) // the next start tries it again
	}
	a.parts = parts
}

// remove takes its name from a document first, so that none of a directory is ever found in parts.
func (a *Archive) remove(path string) error {
	err := os.Rename(path, path+making)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // somebody else has removed it
	}
	if err == nil {
		err = os.RemoveAll(path + making)
	}
	if err != nil {
		return fmt.Errorf("remove an archived document: %w", err)
	}
	return nil
}

// Link makes a directory with the named files of another, and leaves it durable: by hard links, or
// copies where there can be none, as on another disk.
func Link(dir, from string, names ...string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		file, link := filepath.Join(from, name), filepath.Join(dir, name)
		if os.Link(file, link) == nil {
			continue
		}
		if err := copyFile(link, file); err != nil {
			return err
		}
	}
	return durable.SyncDirectory(dir)
}

// copyFile makes a file with the content of another, and leaves the content durable.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"carillon/internal/durable"
	"carillon/notifier/moments"
)

// ErrOverlap: a document begins before the newest ends, or with it where they are of moments.
var ErrOverlap = errors.New("the archive has a document of that time already")

// Add appends a document to the archive. write makes it, a file or a directory, at a path where
// nothing is, and leaves it durable. When Add returns nil the document is in the archive, and
// durable. After an error it is not.
func (a *Archive) Add(k Kept, write func(path string) error) error {
	if !a.Follows(k) {
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

// put writes a document, and gives it its name.
func (a *Archive) put(dir, path string, fresh bool, write func(string) error) error {
	if fresh {
		if err := durable.MkdirAll(a.cfg.Root, dir); err != nil {
			return err
		}
	}
	unfinished := path + moments.Making
	// A failed attempt may have left either; nothing refers to them.
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

// DropUntil removes the oldest documents while they end at keepFrom or before. It returns how many
// it has removed.
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

// CutWhile removes the newest documents while foreign reports true: they belong to a history that
// does not go on. It returns how many it has removed.
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
			newest.spans = newest.spans[:end:end] // so that Add does not write into a Part that a caller has
			a.replace(n, newest)
		}
	}
	return cut, err
}

// replace replaces part i by the same part with fewer documents.
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

// remove renames a document first, so that no start finds a directory that is half removed.
func (a *Archive) remove(path string) error {
	err := os.Rename(path, path+moments.Making)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // an operator has removed it
	}
	if err == nil {
		err = os.RemoveAll(path + moments.Making)
	}
	if err != nil {
		return fmt.Errorf("remove an archived document: %w", err)
	}
	return nil
}

// Link makes a directory with the named files of another, and leaves it durable. It makes hard
// links, or copies where the file system has none, as from another disk. It stops when ctx ends.
func Link(ctx context.Context, dir, from string, names ...string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		file, link := filepath.Join(from, name), filepath.Join(dir, name)
		if os.Link(file, link) == nil {
			continue
		}
		if err := copyFile(ctx, link, file); err != nil {
			return err
		}
	}
	return durable.SyncDirectory(dir)
}

// copyFile copies a file, and leaves the content durable.
func copyFile(ctx context.Context, to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, stopping{ctx, in})
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// stopping is a reader that fails when ctx has ended.
type stopping struct {
	ctx context.Context
	io.Reader
}

func (s stopping) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}

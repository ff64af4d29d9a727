package directory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"carillon/payload"
)

// ErrHeld: nothing is known of the directory at the moment, as no scan has ended well yet, or it is
// not the directory that the last scan found.
var ErrHeld = errors.New("the directory is not there, or was not scanned yet")

// File is a resource of the set as the directory has it now.
type File struct {
	*os.File
	Size int64
	// LastMod and Type are those that are announced of such a file.
	LastMod, Type string

	still func() error
}

// Still reports whether what was read since Open is one state of the file: an error if not.
func (f *File) Still() error { return f.still() }

// OpenResource opens the file of a resource. e is what the set has of it: the type of a file that
// is as it was announced is not looked for again. The error is fs.ErrNotExist where the directory
// has no such file, or ErrHeld.
func (d *Directory) OpenResource(e *payload.Entry) (*File, error) {
	rel, ok := d.names.relOf(e.Loc)
	if !ok {
		return nil, fs.ErrNotExist
	}
	root, err := d.open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHeld, err)
	}
	defer root.Close()
	f, info, err := openIn(root, rel)
	if err != nil {
		return nil, err
	}
	file := &File{File: f, Size: info.Size(), LastMod: lastMod(info.ModTime()), still: func() error {
		if unchanged, err := isStill(f.Stat, info); !unchanged {
			return err
		}
		return nil
	}}
	if e.Type != "" && e.Length == strconv.FormatInt(info.Size(), 10) && e.LastMod == file.LastMod {
		file.Type = e.Type
		return file, nil
	}
	head, err := sniff(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	file.Type = mediaType(rel, head)
	return file, nil
}

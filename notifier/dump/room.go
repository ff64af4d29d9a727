package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"carillon/internal/durable"
)

// errRoom: dumps would take more of the disk than Config.Bytes allows.
var errRoom = errors.New("the bound of the disk that dumps may take is reached")

// errDiskFull: dumps would take what the journal needs, which is on the same disk.
var errDiskFull = errors.New("the disk is nearly full")

// lookEvery is after how many bytes the free space of the disk is looked at.
const lookEvery = 8 << 20

// room counts the disk that dumps take, with what is being made.
type room struct {
	limit   int64 // 0: none
	dir     string
	minFree int64
	used    atomic.Int64
	written atomic.Int64 // ever
}

// look reports whether there is room on the disk.
func (r *room) look() error {
	if free, known := durable.Free(r.dir); known && free < uint64(r.minFree) {
		return fmt.Errorf("%w: %d bytes are free, and dumps leave %d; make room, or allow dumps less with --dump-bytes",
			errDiskFull, free, r.minFree)
	}
	return nil
}

// take adds to what is used.
func (r *room) take(n int64) error {
	if used := r.used.Add(n); r.limit > 0 && used > r.limit {
		r.used.Add(-n)
		return fmt.Errorf("%w: %d of %d bytes are used; allow more with --dump-bytes, or keep less (--dump-keep, --keep)",
			errRoom, used-n, r.limit)
	}
	if written := r.written.Add(n); written/lookEvery != (written-n)/lookEvery {
		if err := r.look(); err != nil {
			r.used.Add(-n)
			return err
		}
	}
	return nil
}

func (r *room) give(n int64) { r.used.Add(-n) }

// writer counts what is written to a file.
func (r *room) writer(to io.Writer) *roomWriter { return &roomWriter{room: r, to: to} }

type roomWriter struct {
	room  *room
	to    io.Writer
	taken int64
}

func (w *roomWriter) Write(b []byte) (int, error) {
	if err := w.room.take(int64(len(b))); err != nil {
		return 0, err
	}
	n, err := w.to.Write(b)
	w.room.give(int64(len(b) - n))
	w.taken += int64(n)
	return n, err
}

// writeFile writes a file that is whole and durable, or not there, and counts its bytes.
func (r *room) writeFile(name string, write func(io.Writer) error) error {
	var to *roomWriter
	err := durable.WriteFile(name, func(f io.Writer) error {
		to = r.writer(f)
		return write(to)
	})
	if _, missing := os.Stat(name); missing != nil && to != nil {
		r.give(to.taken)
	}
	return err
}

// writeJSON writes a value by writeFile.
func (r *room) writeJSON(name string, from any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return r.writeFile(name, func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	})
}

// tempSuffix ends the name of a file that is not whole. Such files are removed at the start.
const tempSuffix = durable.Suffix

// remove removes a file or a directory, and gives back what it took.
func (r *room) remove(name string) error {
	size, err := sizeOf(name)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	r.give(size)
	return nil
}

// sizeOf returns the bytes of all files below a name; 0 for a missing one. Unreadable directories,
// such as lost+found, belong to others.
func sizeOf(name string) (size int64, err error) {
	err = filepath.WalkDir(name, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return ignoreForeign(err)
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return ignoreForeign(err)
	})
	return size, err
}

func ignoreForeign(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

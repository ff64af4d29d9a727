package pebblestore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// witnessFile reports how long the manifest and the newest write-ahead log were when the
// store was opened or closed last: a file that ends too soon is else like one that a
// crash has left, and a log that is gone like one that never was. It is a help, not a part
// of the store: without it, or with a damaged one, nothing is known.
const witnessFile = "sizes.txt"

// maxWitness bounds what is read of it, in bytes.
const maxWitness = 4 << 10

// witness has the recorded state of the files.
type witness struct {
	manifest, wal           string
	manifestBytes, walBytes int64
}

func (w witness) encode() string {
	text := fmt.Sprintf("%s %d\n%s %d\n", w.manifest, w.manifestBytes, w.wal, w.walBytes)
	sum := sha256.Sum256([]byte(text))
	return text + hex.EncodeToString(sum[:]) + "\n"
}

// current returns the state that may be recorded now.
func current(fsys vfs.FS, dir string) (w witness, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return w, err
	}
	_, w.manifest, _ = strings.Cut(strings.TrimPrefix(last(names, manifestMarker, ""), manifestMarker), ".")
	w.wal = last(names, "", ".log")
	if w.manifest == "" || w.wal == "" {
		return w, errors.New("there is no manifest, or no write-ahead log")
	}
	for name, size := range map[string]*int64{w.manifest: &w.manifestBytes, w.wal: &w.walBytes} {
		info, err := fsys.Stat(fsys.PathJoin(dir, name))
		if err != nil {
			return w, err
		}
		*size = info.Size()
	}
	return w, nil
}

// testify writes the witness. Pebble works meanwhile, so that the manifest is synced first; of a log
// that is written only its name is recorded.
func testify(fsys vfs.FS, dir string, closed bool) error {
	w, err := current(fsys, dir)
	if err != nil {
		return err
	}
	if !closed {
		w.walBytes = 0
	}
	manifest, err := fsys.OpenReadWrite(fsys.PathJoin(dir, w.manifest), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := errors.Join(manifest.Sync(), manifest.Close()); err != nil {
		return err
	}
	name := fsys.PathJoin(dir, witnessFile)
	f, err := fsys.Create(name+ScratchSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, w.encode())
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(fsys.Rename(name+ScratchSuffix, name), syncDir(fsys, dir))
}

// hear reads the witness; false: it has no record.
func hear(fsys vfs.FS, dir string) (w witness, heard bool) {
	f, err := fsys.Open(fsys.PathJoin(dir, witnessFile))
	if err != nil {
		return w, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxWitness))
	if err != nil {
		return w, false
	}
	_, err = fmt.Sscanf(string(text), "%s %d\n%s %d\n", &w.manifest, &w.manifestBytes, &w.wal, &w.walBytes)
	return w, err == nil && w.encode() == string(text)
}

// checkSizes compares the files with the witness, and returns that, if it has a record. Newer files
// have taken the place of older ones.
func checkSizes(fsys vfs.FS, dir string) (told witness, err error) {
	told, heard := hear(fsys, dir)
	if !heard {
		return witness{}, nil
	}
	is, err := current(fsys, dir)
	switch {
	case err != nil: // the manifest is not there
	case manifestNumber(is.manifest) < manifestNumber(told.manifest), logNumber(is.wal) < logNumber(told.wal):
		err = fmt.Errorf(
			"the newest files are %s and %s, and there were %s and %s", is.manifest, is.wal, told.manifest, told.wal,
		)
	case is.manifest == told.manifest && is.manifestBytes < told.manifestBytes:
		err = fmt.Errorf("%s has %d bytes, and had %d", is.manifest, is.manifestBytes, told.manifestBytes)
	case is.wal == told.wal && is.walBytes < told.walBytes:
		err = fmt.Errorf("%s has %d bytes, and had %d", is.wal, is.walBytes, told.walBytes)
	default:
		return told, nil
	}
	return told, err
}

package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// wayOut ends every line about a directory that cannot be used.
const wayOut = `restore a backup into another directory (hub restore), or see "Backup and repair" in the README`

// damagedError is a directory that cannot be used.
func damagedError(cause error) error {
	return fmt.Errorf("%w: %w; %s", errDirectory, cause, wayOut)
}

// errDirectory is ErrDamaged of the whole directory.
var errDirectory = fmt.Errorf("the directory is damaged%w", silent{ErrDamaged})

// silent is an error that is there for errors.Is only.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// Names of Pebble's files.
const (
	formatMarker   = "marker.format-version."
	manifestMarker = "marker.manifest."
)

// checkFiles refuses a directory from which files are missing, or are damaged, in a
// way that Pebble would pass over: it would begin anew, or from an earlier state,
// and delete the rest. The lock is held. Files that have gone are noticed as
// far as others tell of them.
func checkFiles(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	has := func(prefix string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) })
	}
	if !has(formatMarker) {
		return nil // it is new, or refuseForeign has looked at it
	}
	// The format's marker is made last, when there is a manifest and a log.
	marker, wal := last(names, manifestMarker, ""), last(names, "", ".log")
	switch {
	case marker == "":
		return damagedError(fmt.Errorf("there is no %s…", manifestMarker))
	case wal == "":
		return damagedError(errors.New("there is no write-ahead log (….log)"))
	}
	_, manifest, _ := strings.Cut(strings.TrimPrefix(marker, manifestMarker), ".")
	told, err := checkSizes(fsys, dir)
	if err != nil {
		return damagedError(err)
	}
	err = checkLog(fsys, fsys.PathJoin(dir, manifest), logBlockOf{plain: true})
	if err == nil {
		err = checkLog(fsys, fsys.PathJoin(dir, wal), logBlockOf{number: uint32(logNumber(wal)), closed: told.wal == wal && told.walBytes > 0})
	}
	return err
}

// probeBytes is what must have room, so that what follows does not begin in vain.
const probeBytes = 4 << 10

// probe makes a file and removes it. Where that fails (a read-only file system, a
// directory of somebody else, no room) Pebble would try again for ever.
func probe(fsys vfs.FS, dir string) error {
	first, second := fsys.PathJoin(dir, "probe1"+ScratchSuffix), fsys.PathJoin(dir, "probe2"+ScratchSuffix)
	f, err := fsys.Create(first, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = fsys.Rename(first, second)
	}
	if err != nil {
		_ = fsys.Remove(first) // as far as it goes
		return err
	}
	return fsys.Remove(second)
}

// last is the newest name of the kind: the one with the greatest number, which is not
// the last one in the order of names once there are more than six digits.
func last(names []string, prefix, suffix string) (found string) {
	for _, name := range names {
		if strings.HasSuffix(name, suffix) && fileNumber(name, prefix) > fileNumber(found, prefix) {
			found = name
		}
	}
	return found
}

func manifestNumber(name string) uint64 { return fileNumber(name, "MANIFEST-") }
func logNumber(name string) uint64      { return fileNumber(name, "") }

// fileNumber is the number behind the prefix of one of Pebble's names; 0: it has none.
// They grow with age.
func fileNumber(name, prefix string) uint64 {
	digits, found := strings.CutPrefix(name, prefix)
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if !found || err != nil {
		return 0
	}
	return number
}

// openError tells in one line why Pebble cannot open the directory, and the way out.
// What is wrong with the machine, not with the directory, is said as it is.
func openError(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	short := errors.New(line)
	switch {
	case errors.Is(err, errDirectory):
		return err
	case strings.Contains(line, "invalid key=value syntax"):
		return damagedError(errors.New("OPTIONS-… is not what it was (it may be removed: it is made anew)"))
	case errors.Is(err, ErrDamaged), pebble.IsCorruptionError(err), errors.Is(err, pebble.ErrDBNotPristine),
		errors.Is(err, fs.ErrNotExist), strings.Contains(line, "a record at byte"), strings.Contains(line, "malformed manifest"),
		strings.Contains(line, "size mismatch"), strings.Contains(line, "unknown to the objstorage provider"):
		return damagedError(short)
	}
	return err
}

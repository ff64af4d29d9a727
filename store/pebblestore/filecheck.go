package pebblestore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
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
		err = checkLog(
			fsys, fsys.PathJoin(dir, wal),
			logBlockOf{number: uint32(logNumber(wal)), closed: told.wal == wal && told.walBytes > 0},
		)
	}
	return err
}

// probeBytes is what must have room, so that what follows does not begin in vain.
const probeBytes = 4 << 10

// probe makes a file and removes it. Where that fails (a read-only file system, a directory of another
// user, no room) Pebble would try again for ever.
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

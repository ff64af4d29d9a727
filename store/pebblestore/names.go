package pebblestore

import (
	"regexp"
	"strconv"
	"strings"
)

// Names of Pebble's files.
const (
	formatMarker   = "marker.format-version."
	manifestMarker = "marker.manifest."
)

// Names in the directory that are not Pebble's.
const (
	// ControlSocket is the socket by which the process that has the directory can be
	// asked (cmd/hub). This package only suffers it.
	ControlSocket = "control.sock"
	// ScratchSuffix ends the names of what is of use to one process only. Open
	// removes what a process that was killed has left.
	ScratchSuffix = ".scratch"
)

// unfinished is in a directory while a backup is put into it. The other files there are a part.
const unfinished = "restore.unfinished"

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

// backupName is what Pebble's files are called.
var backupName = regexp.MustCompile(
	`^(\d{6,20}(-\d{3})?\.(sst|blob|log)|(MANIFEST|OPTIONS)-\d{6,20}|marker\.[a-z-]{1,40}\.\d{6,20}\.[A-Za-z0-9-]{1,40})$`,
)

func ofBackup(name string) bool { return backupName.MatchString(name) }

// madeByPebble reports whether an unfinished directory may hold a name.
func madeByPebble(name string) bool {
	if name == "LOCK" || name == "lost+found" || name == ControlSocket || strings.HasSuffix(name, ScratchSuffix) {
		return true
	}
	for _, prefix := range []string{"MANIFEST-", "OPTIONS-", "marker.", "temporary."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".dbtmp")
}

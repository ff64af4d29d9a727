//go:build unix

package machine

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// OpenFiles returns how many files the process may have open. Go has raised
// the limit as far as it may when the process began.
func OpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 1 << 30
	}
	return int(limit.Cur)
}

// OwnFilesOnly has all files made with mode 0600 and all directories with 0700 at most.
func OwnFilesOnly() { syscall.Umask(0o077) }

// writable is an error where the process may make no files in a directory.
func writable(dir string) error {
	const writeAndEnter = 2 | 1
	return syscall.Access(dir, writeAndEnter)
}

// otherOwner reports whether a file belongs to another user, and to which. Root's files are root's
// matter.
func otherOwner(info fs.FileInfo) (owner uint32, other bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known || stat.Uid == 0 {
		return 0, false
	}
	return stat.Uid, int(stat.Uid) != os.Geteuid()
}

// RefuseRoot keeps root from making files in the directory of another user, who could
// not start a hub on it any more.
func RefuseRoot(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	in, info, err := nearestDirectory(dir)
	if err != nil {
		return err
	}
	if owner, known := info.Sys().(*syscall.Stat_t); known && owner.Uid != 0 {
		return fmt.Errorf(
			"the directory %s belongs to the user %d: run this as that user, or its hub could not start any more",
			in, owner.Uid,
		)
	}
	return nil
}

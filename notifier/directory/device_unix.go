//go:build unix

package directory

import (
	"io/fs"
	"syscall"
)

// openNonblock: a file that became a pipe meanwhile does not hold up its opening.
const openNonblock = syscall.O_NONBLOCK

// deviceOf returns the file system of a file.
func deviceOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev) //nolint:unconvert // its type differs between systems
	}
	return 0
}

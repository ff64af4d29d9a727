//go:build linux || darwin

package durable

import "golang.org/x/sys/unix"

// Free is what an ordinary user may still write to the disk of a directory.
func Free(dir string) (bytes uint64, known bool) {
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil {
		return 0, false
	}
	return at.Bavail * uint64(at.Bsize), true
}

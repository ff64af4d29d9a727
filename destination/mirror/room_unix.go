//go:build linux || darwin

package mirror

import "golang.org/x/sys/unix"

// freeBytes is what an ordinary user may still write.
func freeBytes(dir string) (free uint64, known bool) {
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil {
		return 0, false
	}
	return at.Bavail * uint64(at.Bsize), true
}

//go:build !unix

package mirror

import "os"

// lockFile makes the file, or with readOnly opens it; nothing is locked here.
func lockFile(root *os.Root, name string, readOnly bool) (*os.File, error) {
	flags := os.O_RDWR | os.O_CREATE
	if readOnly {
		flags = os.O_RDONLY
	}
	return root.OpenFile(name, flags, 0o600)
}

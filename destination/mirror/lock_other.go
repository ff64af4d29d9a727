//go:build !unix

package mirror

import "os"

// lockFile makes the file; nothing is locked here.
func lockFile(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

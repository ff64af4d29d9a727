//go:build !unix

package destination

import "os"

// lockFile creates the file. This system has no lock that ends with its process.
func lockFile(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

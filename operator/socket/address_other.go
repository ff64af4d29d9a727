//go:build !linux

package socket

import (
	"fmt"
	"path/filepath"
)

// maxName is how long the name of a socket may be on the systems that allow
// the least (sun_path, with its final 0).
const maxName = 103

// shortened is the name by which a socket in the directory can be made or dialed, until done is
// called.
func shortened(dir, file string) (name string, done func(), err error) {
	name = filepath.Join(dir, file)
	if len(name) > maxName {
		return "", nil, fmt.Errorf("the name of the directory is too long for a socket in it: %s", dir)
	}
	return name, func() {}, nil
}

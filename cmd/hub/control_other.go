//go:build !linux

package main

import (
	"fmt"
	"path/filepath"

	"carillon/store/pebblestore"
)

// maxSocketName is how long the name of a socket may be on the systems that allow
// the least (sun_path, with its final 0).
const maxSocketName = 103

// socketAddress is the name by which the control socket of the directory can be made
// or dialed, until done is called.
func socketAddress(dir string) (name string, done func(), err error) {
	name = filepath.Join(dir, pebblestore.ControlSocket)
	if len(name) > maxSocketName {
		return "", nil, fmt.Errorf("the name of the directory is too long for a socket in it: %s", dir)
	}
	return name, func() {}, nil
}

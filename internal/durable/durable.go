// Package durable writes files that survive a crash of the machine: a reader finds the old content
// or the new one, never a part.
package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Suffix ends the name of a file that is being written. A crash may leave such a file; the next
// WriteFile of the same name replaces it.
const Suffix = ".temp"

// WriteFile replaces a file, which only its owner can read. The new content is durable when
// WriteFile returns nil. After an error the old content is still there, or the new one, and no
// file with Suffix.
func WriteFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name+Suffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDirectory(filepath.Dir(name))
}

// MkdirAll makes a directory, which only its owner can read, and those between it and root. Their
// names are durable when MkdirAll returns nil, also of directories that a process has made before
// it was killed. root is above dir; it exists already, and its own name is durable.
func MkdirAll(root, dir string) error {
	below, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(below) {
		return fmt.Errorf("%s is not below %s", dir, root)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for ; below != "."; below = filepath.Dir(below) {
		if err := SyncDirectory(filepath.Join(root, filepath.Dir(below))); err != nil {
			return err
		}
	}
	return nil
}

// SyncDirectory makes the names in a directory durable: of files that are new, renamed or removed.
func SyncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

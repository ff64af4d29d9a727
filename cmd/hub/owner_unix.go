//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// refuseRoot keeps root from making files in the directory of another user, who could
// not start a hub on it any more.
func refuseRoot(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	in, info, err := nearest(dir)
	if err != nil {
		return err
	}
	if owner, known := info.Sys().(*syscall.Stat_t); known && owner.Uid != 0 {
		return fmt.Errorf("the directory %s belongs to the user %d: run this as that user, or its hub could not start any more", in, owner.Uid)
	}
	return nil
}

// nearest is the directory, or the one in which it would be made.
func nearest(dir string) (string, fs.FileInfo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	for {
		info, err := os.Stat(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir, info, err
		}
		dir = filepath.Dir(dir)
	}
}

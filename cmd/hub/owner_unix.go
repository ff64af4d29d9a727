//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// refuseRoot keeps root from making files in the directory of another user, who could
// not start a hub on it any more.
func refuseRoot(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) || os.Geteuid() != 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if owner, known := info.Sys().(*syscall.Stat_t); known && owner.Uid != 0 {
		return fmt.Errorf("the directory belongs to the user %d: run this as that user, or its hub could not start any more", owner.Uid)
	}
	return nil
}

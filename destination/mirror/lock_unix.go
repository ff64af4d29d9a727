//go:build unix

package mirror

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile makes the file, or with readOnly opens it, and locks it for as long as it is open.
func lockFile(root *os.Root, name string, readOnly bool) (*os.File, error) {
	flags := os.O_RDWR | os.O_CREATE
	if readOnly {
		flags = os.O_RDONLY
	}
	f, err := root.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another process mirrors into it")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

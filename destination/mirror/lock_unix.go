//go:build unix

package mirror

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile makes the file and locks it for as long as it is open.
func lockFile(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
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

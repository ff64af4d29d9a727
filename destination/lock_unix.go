//go:build unix

package destination

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile creates the file and locks it while it is open. The lock ends with the process.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another process uses it")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

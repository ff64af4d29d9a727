package socket

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxName is how long the name of a socket may be (sun_path, with its final 0).
const maxName = 107

// shortened is the name by which a socket in the directory can be made or dialed, until done is
// called: the directory may lie deeper than a socket's name can say.
func shortened(dir, file string) (name string, done func(), err error) {
	if name = filepath.Join(dir, file); len(name) <= maxName {
		return name, func() {}, nil
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	name = fmt.Sprintf("/proc/self/fd/%d/%s", fd, file)
	return name, func() { _ = unix.Close(fd) }, nil
}

//go:build unix

package h1

import (
	"io"
	"net"
	"os"
	"syscall"
)

// canStep: requests go out and answers come in by system calls of our own.
const canStep = true

// readFD reads what has come, without waiting. Its errors are those of net; where nothing has
// come, it is os.ErrDeadlineExceeded.
func readFD(fd uintptr, b []byte) (int, error) {
	for {
		switch n, err := read(fd, b); {
		case err == syscall.EINTR:
		case err != nil:
			return 0, netError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// writeFD writes the beginning of a header and of the body after it, without waiting. Either may
// be empty. Its errors are like those of readFD.
func writeFD(fd uintptr, head, body []byte) (int, error) {
	for {
		n, err := writev(fd, head, body)
		if err == nil {
			return n, nil
		}
		if err != syscall.EINTR {
			return 0, netError("write", err)
		}
	}
}

// netError makes of an error what net would have made of it.
func netError(op string, err error) error {
	if err == syscall.EAGAIN {
		return os.ErrDeadlineExceeded
	}
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)}
}

// nothingThere reports whether a read would wait.
func nothingThere(fd uintptr) bool {
	var one [1]byte
	_, err := readFD(fd, one[:])
	return err == os.ErrDeadlineExceeded
}

// empty reports whether a read would wait. It consumes nothing.
func empty(fd uintptr) bool {
	for {
		err := peek(fd)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}

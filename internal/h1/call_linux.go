package h1

import (
	"syscall"
	"unsafe"
)

// The scheduler is not told of these calls: their sockets never block, and telling it
// costs more than the rest of what is ours of a call. It cannot go on without them,
// though, so none may take long.

// maxRaw is how much one of them copies at most, some 20 µs.
const maxRaw = 64 << 10

// readFD is syscall.Read for a socket that does not block.
func readFD(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p) }

// writeFD is syscall.Write for a socket that does not block, of the beginning of p.
func writeFD(fd uintptr, p []byte) (int, error) {
	return call(syscall.SYS_WRITE, fd, p[:min(len(p), maxRaw)])
}

func call(number, fd uintptr, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

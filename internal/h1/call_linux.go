package h1

import (
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The scheduler is not told of these calls: their sockets never block, and telling it
// costs more than the rest of what is ours of a call. It cannot go on without them,
// though, so none may take long.

// maxRaw is how much one of them copies at most, some 20 µs.
const maxRaw = 64 << 10

// readFD is syscall.Read for a socket that does not block.
func readFD(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p) }

// peekFD reads a byte, and leaves it there.
func peekFD(fd uintptr) (int, error) {
	var one byte
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return result(n, 0, errno)
}

// writeFD writes the beginning of a header and the body behind it to a socket that
// does not block; either may be empty.
func writeFD(fd uintptr, head, body []byte) (int, error) {
	head = head[:min(len(head), maxRaw)]
	body = body[:min(len(body), maxRaw-len(head))]
	if len(head) == 0 {
		return call(syscall.SYS_WRITE, fd, body)
	}
	if len(body) == 0 {
		return call(syscall.SYS_WRITE, fd, head)
	}
	var pieces [2]syscall.Iovec
	pieces[0].Base, pieces[1].Base = unsafe.SliceData(head), unsafe.SliceData(body)
	pieces[0].SetLen(len(head))
	pieces[1].SetLen(len(body))
	return result(syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&pieces)), uintptr(len(pieces))))
}

func call(number, fd uintptr, p []byte) (int, error) {
	return result(syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

func result(n, _ uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// distance is how long the kernel has seen the way to the other side and back take, or what is
// told where it does not know.
func distance(tcp *net.TCPConn, otherwise time.Duration) time.Duration {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return otherwise
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && info.Rtt > 0 {
			otherwise = time.Duration(info.Rtt) * time.Microsecond
		}
	})
	return otherwise
}

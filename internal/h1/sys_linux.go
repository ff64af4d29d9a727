//go:build !386

package h1

import (
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The scheduler does not hear of these calls. Their sockets never block, and announcing a
// call costs a ninth of a whole delivery. The scheduler cannot go on without them, so none
// may last.

// maxRaw is how many bytes one of them copies at most, which takes some 20 µs.
const maxRaw = 64 << 10

// read is syscall.Read.
func read(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p) }

// peek reads a byte and leaves it in the socket.
func peek(fd uintptr) error {
	var one byte
	_, err := result(
		syscall.RawSyscall6(
			syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0,
		),
	)
	return err
}

// writev writes both by one system call.
func writev(fd uintptr, head, body []byte) (int, error) {
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

// distance is the kernel's estimate of the round trip to the other side, or otherwise where it has
// none.
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

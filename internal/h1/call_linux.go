package h1

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// writeFD writes the beginning of a header and of the body after it to a socket that does
// not block. Either may be empty.
func writeFD(fd uintptr, head, body []byte) (int, error) {
	if len(head) == 0 {
		return unix.Write(int(fd), body)
	}
	return unix.Writev(int(fd), [][]byte{head, body})
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

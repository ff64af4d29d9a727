package h1

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// writev is one system call that writes both.
func writev(fd int, head, body []byte) (int, error) {
	if len(head) == 0 {
		return unix.Write(fd, body)
	}
	return unix.Writev(fd, [][]byte{head, body})
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

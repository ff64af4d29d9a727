//go:build unix && !linux

package h1

import (
	"net"
	"syscall"
	"time"
)

// writev writes a part of one of both.
func writev(fd int, head, body []byte) (int, error) {
	if len(head) == 0 {
		head = body
	}
	return syscall.Write(fd, head)
}

func distance(_ *net.TCPConn, otherwise time.Duration) time.Duration { return otherwise }

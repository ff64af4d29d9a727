//go:build unix && (!linux || 386)

package h1

import (
	"net"
	"syscall"
	"time"
)

func read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

func peek(fd uintptr) error {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err
}

// writev writes a part of one of both.
func writev(fd uintptr, head, body []byte) (int, error) {
	if len(head) == 0 {
		head = body
	}
	return syscall.Write(int(fd), head)
}

func distance(_ *net.TCPConn, otherwise time.Duration) time.Duration { return otherwise }

//go:build unix && !linux

package h1

import "syscall"

func readFD(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

func writeFD(fd uintptr, head, body []byte) (int, error) {
	if len(head) > 0 {
		return syscall.Write(int(fd), head)
	}
	return syscall.Write(int(fd), body)
}

func peekFD(fd uintptr) (int, error) {
	var one [1]byte
	n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n, err
}

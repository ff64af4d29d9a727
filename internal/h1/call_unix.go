//go:build unix && !linux

package h1

import "syscall"

func writeFD(fd uintptr, head, body []byte) (int, error) {
	if len(head) > 0 {
		return syscall.Write(int(fd), head)
	}
	return syscall.Write(int(fd), body)
}

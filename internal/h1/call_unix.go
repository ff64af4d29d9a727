//go:build unix && !linux

package h1

import "syscall"

func readFD(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

func writeFD(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }

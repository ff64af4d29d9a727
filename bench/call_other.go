//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

func readFD(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

func writeFD(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }

// The scenario that needs these is left out on this system.

func sharePort(_, _ string, _ syscall.RawConn) error { return errors.ErrUnsupported }

func processCPU(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

func mostFiles() (int, error) { return 0, errors.ErrUnsupported }

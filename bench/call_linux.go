package main

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The sink's sockets never block, so that its calls need not go through the scheduler: they are most
// of its cost.

func readFD(fd int, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p) }

func writeFD(fd int, p []byte) (int, error) { return call(syscall.SYS_WRITE, fd, p) }

func call(number uintptr, fd int, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(
		number, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
	)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// sharePort lets several sockets listen on one port, each with a backlog of its own.
func sharePort(_, _ string, raw syscall.RawConn) (err error) {
	failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(failed, err)
}

// processCPU returns the CPU time of a process in nanoseconds. The metrics of a process
// have steps of 10 ms, which is too much for a round over TLS.
func processCPU(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED: which of a process's clocks
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &t); err != nil {
		return 0, fmt.Errorf("the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// mostFiles returns how many files a process may open.
func mostFiles() (int, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return int(min(limit.Max, 1<<30)), err
}

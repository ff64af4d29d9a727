//go:build unix

package program

import "syscall"

// OpenFiles returns how many files the process may have open. Go has raised
// the limit as far as it may when the process began.
func OpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 1 << 30
	}
	return int(limit.Cur)
}

// ownFilesOnly has all files made with mode 0600 and all directories with 0700 at most.
func ownFilesOnly() { syscall.Umask(0o077) }

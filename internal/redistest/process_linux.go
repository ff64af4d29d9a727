package redistest

import "syscall"

// attributes let the process end with the test binary, also when that is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

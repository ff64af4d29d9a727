//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

func shellOf() (name, flag string) { return "/bin/sh", "-c" }

// inOwnGroup has the command, and all that it starts, ended together.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

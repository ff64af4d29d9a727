//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"time"
)

func shellOf() (name, flag string) { return "/bin/sh", "-c" }

// inOwnGroup has the command be a group with all that it starts, which is told to end when cmd's
// context ends. The function it returns is for a command that has failed, and returns when the group is
// gone: what is left of it is told to end, and killed when that took longer than grace. (The
// number of a group is not given anew while somebody is in it; who has ended is in it until its
// parent, or the system's first process, has asked for its status.)
func inOwnGroup(cmd *exec.Cmd, grace time.Duration) (end func()) {
	const look = 20 * time.Millisecond // nobody reports when a group is gone
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var told time.Time
	cmd.Cancel = func() error {
		told = time.Now()
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	return func() {
		if cmd.Process == nil {
			return // it did not begin
		}
		if told.IsZero() {
			_ = cmd.Cancel()
		}
		for syscall.Kill(-cmd.Process.Pid, 0) == nil {
			if time.Since(told) >= grace {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				return
			}
			time.Sleep(look)
		}
	}
}

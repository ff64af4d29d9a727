//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"time"
)

func shellOf() (name, flag string) { return "/bin/sh", "-c" }

// inOwnGroup puts the command in a group with everything that it starts; the group is asked to end
// when cmd's context ends. The function it returns is for a command that has failed, and returns when
// the group is gone. It asks the rest of the group to end, and kills it if that takes longer than
// grace. (The number of a group is not reused while it has members; an ended process is a member until
// its parent, or the system's first process, has read its status.)
func inOwnGroup(cmd *exec.Cmd, grace time.Duration) (end func()) {
	const look = 20 * time.Millisecond // the system does not report the end of a group
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

//go:build !unix

package main

import (
	"os/exec"
	"time"
)

func shellOf() (name, flag string) { return "cmd", "/c" }

// inOwnGroup does nothing: the command alone is ended.
func inOwnGroup(*exec.Cmd, time.Duration) (end func()) { return func() {} }

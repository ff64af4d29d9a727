package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// startProfile has perf sample a process until stop is called. Look at it with
// perf report -i FILE.
func (e *env) startProfile(ctx context.Context, name string, pid int) (stop func(), err error) {
	if e.profile == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(e.profile, 0o755); err != nil {
		return nil, fmt.Errorf("-profile: %w", err)
	}
	file := filepath.Join(e.profile, name+".perf")
	cmd := exec.CommandContext(ctx, "perf", "record", "-q", "-F", "299", "-g", "-p", strconv.Itoa(pid), "-o", file)
	cmd.Stderr = e.stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("-profile: %w", err)
	}
	return sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it writes what it has, and ends
		kill := time.AfterFunc(stopWithin, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait() // it has complained already
		e.log("a profile is in %s", file)
	}), nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// env is what all scenarios share.
type env struct {
	plan        plan
	engines     []engine
	binary      string   // the hub
	environment []string // of hubs, beside that of bench
	dir         string   // removed at the end
	town        *town
	report      *report
	stderr      io.Writer
}

// log writes progress to stderr.
func (e *env) log(format string, args ...any) {
	fmt.Fprintf(e.stderr, time.Now().Format("15:04:05 ")+format+"…\n", args...)
}

// store is where the hub of a scenario keeps its state: a directory, or a redis-server of its
// own with its files in that directory.
type store struct {
	dir   string
	redis *redisServer // nil on Pebble
}

// flag is the value of --store.
func (s *store) flag() string {
	if s.redis != nil {
		return "redis://" + s.redis.address + "/0"
	}
	return "pebble:" + filepath.Join(s.dir, "hub")
}

// remove ends the store, and frees its space for the next.
func (s *store) remove() {
	if s.redis != nil {
		s.redis.stop()
	}
	_ = os.RemoveAll(s.dir) // the run's directory is removed at its end
}

func (e *env) newStore(ctx context.Context, on engine) (*store, error) {
	dir, err := os.MkdirTemp(e.dir, string(on)+"-")
	if err != nil || on == onPebble {
		return &store{dir: dir}, err
	}
	server, err := startRedis(ctx, dir)
	return &store{dir: dir, redis: server}, err
}

// onEach runs a scenario on each engine, with a store of its own.
func (e *env) onEach(ctx context.Context, do func(on engine, s *store) error) error {
	for _, on := range e.engines {
		if err := e.with(ctx, on, func(s *store) error { return do(on, s) }); err != nil {
			return fmt.Errorf("on %s: %w", on, err)
		}
	}
	return nil
}

func (e *env) with(ctx context.Context, on engine, do func(s *store) error) error {
	s, err := e.newStore(ctx, on)
	if err != nil {
		return err
	}
	defer s.remove()
	return do(s)
}

// describe writes the machine of the figures, and the command that made them.
func (e *env) describe(command string) {
	if e.report.markdown {
		e.report.note("# What was measured\n\nThis file is the output of the program in this directory. " +
			"Absolute figures depend on the machine and the moment; quote the ratios.")
	}
	e.report.note("    %s", command)
	rows := [][]string{
		cells("machine|%s/%s, %d processors, %s, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
			factOf("/proc/cpuinfo", `model name\s*: (.*)`), factOf("/proc/meminfo", `MemTotal: *(.*)`)),
		cells("kernel|%s", factOf("/proc/sys/kernel/osrelease", `(.*)`)),
		cells("Go|%s", runtime.Version()),
	}
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		version := regexp.MustCompile(`v=(\S+)`).FindSubmatch(out)
		rows = append(rows, cells("Redis|%s, appendonly yes, appendfsync always", version[1]))
	}
	e.report.table([]string{"", ""}, append(rows, cells("hub|default flags and environment but for listeners, "+
		"--url and --store; sink, publisher and hub share the processors")))
}

// factOf is what the pattern finds in a file about this machine.
func factOf(file, pattern string) string {
	data, _ := os.ReadFile(file) // not every system has it
	if match := regexp.MustCompile(pattern).FindSubmatch(data); match != nil {
		return string(match[1])
	}
	return "unknown"
}

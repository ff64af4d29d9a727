package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a directory of /proc: a process ID, or self.
type process string

func processOf(pid int) process { return process(strconv.Itoa(pid)) }

// memory reads a line of the process's status, such as VmHWM or VmRSS, in bytes. It is 0 where
// there is no such process or line.
func (p process) memory(line string) int64 {
	kilobytes, _, _ := strings.Cut(field("/proc/"+string(p)+"/status", line, "0 kB"), " ")
	n, err := strconv.ParseInt(kilobytes, 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// resident is how much of the process is resident now, in MB.
func (p process) resident() float64 { return float64(p.memory("VmRSS")) / 1e6 }

// peak is how much of the process was resident at most, in MB. getrusage would count the parent's
// before exec as well.
func (p process) peak() float64 { return float64(p.memory("VmHWM")) / 1e6 }

// peakReset is the file of a process that resets the peak (Linux, proc_pid_clear_refs(5)).
const peakReset = "clear_refs"

// procHas reports whether this system has a file for each process.
func procHas(name string) bool {
	_, err := os.Stat("/proc/self/" + name)
	return err == nil
}

// resetPeak makes the peak what is resident now. It does nothing where the system cannot.
func (p process) resetPeak() error {
	if !procHas(peakReset) {
		return nil
	}
	if err := os.WriteFile("/proc/"+string(p)+"/"+peakReset, []byte("5"), 0); err != nil {
		return fmt.Errorf("resetting the peak of a process's memory: %w", err)
	}
	return nil
}

// peakEvery is how often the peak of a running command is read: what a command that ends has
// grown since the last reading is not seen.
const peakEvery = 5 * time.Millisecond

// runs runs a program that was built to its end, and returns the peak of its memory in MB.
func (m *mirroring) runs(ctx context.Context, program string, args ...string) (took time.Duration, peak float64, err error) {
	begin := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(m.env.dir, program), args...)
	cmd.Stdout, cmd.Stderr = m.stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	stop, err := m.startProfile(ctx, fmt.Sprintf("%s-%d", program, cmd.Process.Pid), cmd.Process.Pid)
	if err != nil {
		m.log("%v", err)
		stop = func() {}
	}
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(peakEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				err = fmt.Errorf("%s %s: %w", program, args[0], err)
			}
			return time.Since(begin), peak, err
		case <-tick.C:
			peak = max(peak, processOf(cmd.Process.Pid).peak())
		}
	}
}

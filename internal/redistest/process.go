package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// program is what Redis, Sentinel and Cluster nodes are run from.
const program = "redis-server"

const (
	// startTime bounds how long a server may take until it answers.
	startTime = 20 * time.Second
	// startTries is how often another port is tried where one was taken
	// between finding and using it.
	startTries = 5
	// stopTime bounds an end in good order; after that the server is killed.
	stopTime = 10 * time.Second
)

// process is a running program.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed when it has ended and was waited for
}

// launch starts the program. Its output goes to a file in dir.
func launch(dir string, args ...string) (*process, error) {
	name := filepath.Join(dir, "output.log")
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(program, args...), log: name, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Dir = dir
	p.cmd.SysProcAttr = attributes()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // killed or not, it has ended
		close(p.ended)
	}()
	return p, nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-p.ended:
	case <-time.After(stopTime):
		p.kill()
	}
}

// output is the end of what the program has printed.
func (p *process) output() string {
	text, _ := os.ReadFile(p.log) // for a message that says more where it can
	return string(text[max(0, len(text)-2000):])
}

// Eventually waits until a condition of real processes holds, within a bound.
func Eventually(t testing.TB, holds func() error) {
	t.Helper()
	deadline := time.Now().Add(startTime)
	for {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

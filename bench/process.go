package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Bounds of the waits; a run that exceeds one has failed.
const (
	stopWithin    = 40 * time.Second
	deliverWithin = 5 * time.Minute
)

// The roles of the processes that bench starts of itself, each apart so that its CPU time is
// its own.
const (
	roleSink     = "sink"
	roleNetHTTP  = "net/http"
	roleFastHTTP = "fasthttp"
)

// child is such a process, as the flag -child has it.
type child struct {
	Role        string
	Hosts       int    // of the sink
	Target      string // of a loop: host:port, over TLS the port
	Requests    int    // of a loop, in a round
	Callbacks   int
	Connections int
	BodyBytes   int
	Authority   string        // the directory that newAuthority filled; empty: no TLS
	CloseAfter  time.Duration // hosts close connections that are idle for so long; 0: never
}

// launch starts the child.
func (c child) launch(ctx context.Context) (*program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return launch(exec.CommandContext(ctx, self, "-child", string(config)))
}

// program is a running process that prints a line when it is ready.
type program struct {
	pid   int
	ready string
	in    io.Writer
	out   *bufio.Reader
	stop  func() // as an operator would, and waits for the end
	kill  func()
}

// launch starts a process and waits for its ready line.
func launch(cmd *exec.Cmd) (*program, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := stopper(cmd)
	stop := func() { _ = in.Close(); end() } // a loop ends with its input
	kill := func() { _ = cmd.Process.Kill(); stop() }
	p := &program{pid: cmd.Process.Pid, in: in, out: bufio.NewReaderSize(out, 1<<20), stop: stop, kill: kill}
	if p.ready, err = p.out.ReadString('\n'); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s did not become ready (see above): %w", strings.Join(cmd.Args, " "), err)
	}
	return p, nil
}

// field is a value of the ready line.
func (p *program) field(name string) string {
	for field := range strings.FieldsSeq(p.ready) {
		if value, ok := strings.CutPrefix(field, name+"="); ok {
			return value
		}
	}
	return ""
}

// stopper makes a function that ends a process, and returns when it has ended.
func stopper(cmd *exec.Cmd) func() {
	return sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		force := time.AfterFunc(stopWithin, func() { _ = cmd.Process.Kill() })
		defer force.Stop()
		_ = cmd.Wait() // bench does not care how it ended
	})
}

// finish runs a command to its end.
func finish(ctx context.Context, stdin io.Reader, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, out)
	}
	return nil
}

// build builds one of the programs into a directory.
func build(ctx context.Context, dir, command string) (binary string, err error) {
	binary = dir + "/" + command
	err = finish(ctx, nil, "go", "build", "-o", binary, "carillon/cmd/"+command)
	return binary, err
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// until asks again and again until done returns true, for at most so long.
func until(ctx context.Context, limit, every time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if yes, err := done(); yes || err != nil {
			return err
		}
		if err := pause(ctx, every); err != nil {
			return errors.Join(errors.New("it did not happen in time"), err)
		}
	}
}

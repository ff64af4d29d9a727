// The programs that these tests run are built without the race detector, so under it the same
// would be run once more.
//
//go:build !race

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
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon/internal/redistest"
	"carillon/internal/together"
)

const (
	// buildWithin bounds the build of the programs, on a machine that does much else.
	buildWithin = 5 * time.Minute
	// comesWithin is how long anything may take that is waited for.
	comesWithin = 90 * time.Second
)

func TestMain(m *testing.M) {
	together.Wait()
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built are the three programs, in one directory.
var built struct {
	sync.Once
	dir string
	err error
}

// programs builds the programs, once for all tests, as they are: without the race detector.
func programs(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "carillon-endtoend-"); built.err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
		defer cancel()
		// Without what debuggers want, which takes half of the time.
		build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", built.dir+string(filepath.Separator), "carillon/cmd/...")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("building the programs: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// record is a line of a program's log, as far as it matters here.
type record struct {
	Msg, Subscription, Archive string
	First, Last                uint64
}

// child is a program in a process of its own. Tests can wait for its output and log lines.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	ready map[string]string // the fields of the ready line
	read  sync.WaitGroup    // its outputs

	mu      sync.Mutex
	changed chan struct{} // guarded by mu: closed, and made anew, with whatever comes
	out     []string      // guarded by mu: whole lines, but for the ready line
	log     []record      // guarded by mu
	text    strings.Builder
	over    bool // guarded by mu: it prints nothing more
}

// launch starts a program and waits for its ready line.
func launch(t *testing.T, program string, args ...string) *child {
	t.Helper()
	c := &child{t: t, ready: map[string]string{}, changed: make(chan struct{})}
	c.cmd = exec.Command(filepath.Join(programs(t), program), args...)
	c.cmd.Env = append(os.Environ(), "HUB_DRAIN=0s") // no balancer asks
	stdout, err := c.cmd.StdoutPipe()
	stderr, err2 := c.cmd.StderrPipe()
	if err := errors.Join(err, err2, c.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	c.read.Go(func() { c.lines(stderr, c.logged) })
	first := true
	c.read.Go(func() {
		c.lines(stdout, func(line string) {
			if !first {
				c.out = append(c.out, line)
				return
			}
			first = false
			c.ready = readyFields(line)
		})
		c.change(func() { c.over = true })
	})
	c.await("its ready line", func() bool { return len(c.ready) > 0 })
	return c
}

// readyFields reads a ready line, which is an object where all lines are.
func readyFields(line string) map[string]string {
	fields := map[string]string{}
	if json.Unmarshal([]byte(line), &fields) == nil {
		return fields
	}
	for _, field := range strings.Fields(line) {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	return fields
}

// lines hands on every whole line: a killed process may leave a part of one.
func (c *child) lines(from io.Reader, take func(string)) {
	for r := bufio.NewReader(from); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		c.change(func() { take(strings.TrimSuffix(line, "\n")) })
	}
}

func (c *child) logged(line string) {
	var r record
	_ = json.Unmarshal([]byte(line), &r) // a line that is no object has no message that is looked for
	c.log = append(c.log, r)
	c.text.WriteString(line + "\n")
}

func (c *child) change(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until what the process has printed and logged is enough. c.mu is held when it
// is asked.
func (c *child) await(what string, enough func() bool) {
	c.t.Helper()
	late := time.After(comesWithin)
	for {
		c.mu.Lock()
		done, over, changed := enough(), c.over, c.changed
		c.mu.Unlock()
		if done {
			return
		}
		if over {
			c.t.Fatalf("%s: ended before %s\n%s", c.cmd.Args, what, c.logs())
		}
		select {
		case <-changed:
		case <-late:
			c.t.Fatalf("%s: waited in vain for %s\n%s", c.cmd.Args, what, c.logs())
		}
	}
}

// countLogged counts the lines of the log with a message. c.mu is held.
func (c *child) countLogged(message string) (n int) {
	for i := range c.log {
		if c.log[i].Msg == message {
			n++
		}
	}
	return n
}

// archived counts the documents that a notifier says it has put into these archives.
func (c *child) archived(archives ...string) (n int) {
	for i := range c.log {
		if c.log[i].Msg == "a document was archived" && slices.Contains(archives, c.log[i].Archive) {
			n++
		}
	}
	return n
}

func (c *child) logs() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	const most = 8 << 10
	text := c.text.String()
	return text[max(0, len(text)-most):]
}

// kill ends the process without warning (SIGKILL). It may be called twice.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended already
	c.read.Wait()
	_ = c.cmd.Wait()
}

// stop ends the process as an operator would.
func (c *child) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Errorf("%s: %v\n%s", c.cmd.Args, err, c.logs())
	}
	c.read.Wait()
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("%s: %v\n%s", c.cmd.Args, err, c.logs())
	}
}

// freeAddress is an address for what must come back at the same one.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

package docs_test

import (
	"bufio"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// running is a program that a page started and that runs on.
type running struct {
	w     *walk
	name  string
	ours  bool // one of the three: it ends with status 0
	cmd   *exec.Cmd
	lines chan string   // of its standard output
	errs  chan string   // of its standard error
	read  chan struct{} // closed when both have ended

	mu  sync.Mutex
	log strings.Builder // what it wrote to standard error
}

// manyLines is more than any program prints, so that no program blocks on its output.
const manyLines = 10_000

// settings are the variables at the start of a command line.
var settings = regexp.MustCompile(`^(\w+=\S+\s+)*`)

// start starts a program that runs on, in its own process group.
func (w *walk) start(b block, name, command string) *running {
	w.t.Helper()
	line := strings.TrimSuffix(w.here(command), " &")
	line = settings.ReplaceAllString(line, "${0}exec ") // so that signals reach the program alone
	cmd := exec.CommandContext(w.ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = w.dir, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r := &running{
		w: w, name: name, cmd: cmd, ours: slices.Contains([]string{"hub", "notifier", "destination"}, name),
		lines: make(chan string, manyLines), errs: make(chan string, manyLines), read: make(chan struct{}),
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatalf("%s:%d: %s: %v", b.page, b.line, command, err)
	}
	group := -cmd.Process.Pid
	w.t.Cleanup(func() { // it has ended long ago unless the test failed
		if cmd.ProcessState == nil {
			_ = syscall.Kill(group, syscall.SIGKILL)
			<-r.read
			_ = cmd.Wait()
		}
	})
	go r.readAll(out, log)
	w.running = append(w.running, r)
	return r
}

func (r *running) readAll(out, log io.Reader) {
	defer close(r.read)
	var both sync.WaitGroup
	both.Go(func() {
		defer close(r.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			r.lines <- scanner.Text()
		}
	})
	both.Go(func() {
		defer close(r.errs)
		for scanner := bufio.NewScanner(log); scanner.Scan(); {
			r.mu.Lock()
			r.log.WriteString(scanner.Text() + "\n")
			r.mu.Unlock()
			r.errs <- scanner.Text()
		}
	})
	both.Wait()
}

func (r *running) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// next returns the next n lines of output.
func (r *running) next(b block, n int) (lines []string) {
	r.w.t.Helper()
	for range n {
		select {
		case line, ok := <-r.lines:
			if !ok {
				r.w.t.Fatalf("%s:%d: %s has ended, behind\n%s\nits log:\n%s", b.page, b.line, r.name, strings.Join(lines, "\n"), r.logged())
			}
			lines = append(lines, line)
		case <-r.w.ctx.Done():
			r.w.t.Fatalf("%s:%d: %s prints no more than\n%s\nits log:\n%s", b.page, b.line, r.name, strings.Join(lines, "\n"), r.logged())
		}
	}
	return lines
}

// waitLog returns when the log has a line with the text.
func (r *running) waitLog(b block, text string) {
	r.w.t.Helper()
	for {
		select {
		case line, ok := <-r.errs:
			if !ok {
				r.w.t.Fatalf("%s:%d: %s has ended and never logged %q:\n%s", b.page, b.line, r.name, text, r.logged())
			}
			if strings.Contains(line, text) {
				return
			}
		case <-r.w.ctx.Done():
			r.w.t.Fatalf("%s:%d: %s never logged %q:\n%s", b.page, b.line, r.name, text, r.logged())
		}
	}
}

// find returns the program last started under a name.
func (w *walk) find(b block, name string) *running {
	w.t.Helper()
	for _, r := range slices.Backward(w.running) {
		if r.name == name {
			return r
		}
	}
	w.t.Fatalf("%s:%d: no program %q is running", b.page, b.line, name)
	return nil
}

// stop ends a program as Ctrl-C does.
func (w *walk) stop(r *running) {
	w.t.Helper()
	w.running = slices.DeleteFunc(w.running, func(other *running) bool { return other == r })
	if err := syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT); err != nil {
		w.t.Fatalf("%s: %v", r.name, err)
	}
	<-r.read
	if err := r.cmd.Wait(); err != nil && r.ours {
		w.t.Errorf("%s ended with %v after Ctrl-C; want status 0. Its log:\n%s", r.name, err, r.logged())
	}
}

package carillon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tourWithin ends a tour that hangs.
const tourWithin = 2 * time.Minute

// TestTour walks the tour of README.md: it runs the commands as they are
// written, on ports that are free and in a directory of its own, and compares
// what they print with what README says, line by line. Only the ports and the
// datetimes may differ.
func TestTour(t *testing.T) {
	tour := readTour(t)
	ctx, cancel := context.WithTimeout(t.Context(), tourWithin)
	defer cancel()
	w := &walk{t: t, ctx: ctx, bin: build(t), dir: t.TempDir(), ports: map[string]string{}}

	w.start("HUB_LISTEN=127.0.0.1:0 HUB_ADMIN=127.0.0.1:0", tour["hub"], "listen", "admin")
	hub := "http://127.0.0.1:" + w.ports["8080"] + "/websub/"
	w.start("NOTIFIER_LISTEN=127.0.0.1:0 NOTIFIER_INTAKE=127.0.0.1:0 NOTIFIER_HUB="+hub, tour["notifier"], "listen", "intake")
	changes := w.start("DESTINATION_LISTEN=127.0.0.1:0", tour["destination"], "listen")
	w.subscribed(hub)
	w.events(tour["events"])
	for _, want := range tour["changes"] {
		w.compare("the destination", <-changes, want)
	}
	w.stop()
}

// walk is one walk through the tour.
type walk struct {
	t     *testing.T
	ctx   context.Context
	bin   string
	dir   string
	ports map[string]string // the port of README: the port of this walk
	begun []*exec.Cmd
}

// readTour returns the lines of each part of the tour.
func readTour(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	tour := map[string][]string{}
	for _, part := range regexp.MustCompile("(?s)<!-- tour: (\\w+) -->\n```console\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
		tour[part[1]] = strings.Split(part[2], "\n")
	}
	if len(tour) != 5 || len(tour["changes"]) == 0 {
		t.Fatalf("README's tour has %d parts; the test knows five", len(tour))
	}
	return tour
}

func build(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("building the commands: %v\n%s", err, out)
	}
	return bin
}

// start starts a command of the tour and compares its first line. It returns
// what the command prints after it.
func (w *walk) start(env string, part []string, listeners ...string) <-chan string {
	w.t.Helper()
	line, ok := strings.CutPrefix(strings.TrimSuffix(part[0], " &"), "$ go run ./cmd/")
	if !ok || len(part) != 2 {
		w.t.Fatalf("README: %q is not a command with one line of output", part)
	}
	args := strings.Fields(w.here(line))
	cmd := exec.CommandContext(w.ctx, filepath.Join(w.bin, args[0]), args[1:]...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), strings.Fields(env)...)
	log := &strings.Builder{}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.begun = append(w.begun, cmd)
	w.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended long ago unless the test failed
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-w.ctx.Done():
			}
		}
	}()
	ready, ok := <-lines
	if !ok {
		_ = cmd.Wait()
		w.t.Fatalf("%s ended before it was ready:\n%s", args[0], log)
	}
	w.learn(ready, part[1], listeners)
	w.compare(args[0], ready, part[1])
	return lines
}

// learn notes which port of this walk stands for which port of README.
func (w *walk) learn(got, want string, listeners []string) {
	for _, name := range listeners {
		port := regexp.MustCompile(` ` + name + `=127\.0\.0\.1:(\d+)`)
		g, r := port.FindStringSubmatch(got), port.FindStringSubmatch(want)
		if g == nil || r == nil {
			w.t.Fatalf("no listener %q in %q or in README's %q", name, got, want)
		}
		w.ports[r[1]] = g[1]
	}
}

// here puts the ports of this walk in the place of README's.
func (w *walk) here(text string) string {
	for readme, port := range w.ports {
		text = strings.ReplaceAll(text, ":"+readme, ":"+port)
	}
	return text
}

var datetime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`)

func (w *walk) compare(who, got, want string) {
	w.t.Helper()
	if g, r := datetime.ReplaceAllString(got, "DATETIME"), datetime.ReplaceAllString(w.here(want), "DATETIME"); g != r {
		w.t.Errorf("%s printed\n  %s\nREADME says\n  %s", who, g, r)
	}
}

// subscribed returns when the hub has a subscription, which a reader of the
// tour sees in the log lines.
func (w *walk) subscribed(hub string) {
	w.t.Helper()
	admin := "http://127.0.0.1:" + w.ports["8081"] + "/metrics"
	for w.ctx.Err() == nil {
		resp, err := http.Get(admin)
		if err != nil {
			w.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.Contains(string(body), "\ncarillon_delivery_subscriptions 1\n") {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	w.t.Fatalf("the destination never subscribed at %s", hub)
}

// events hands in the events, as README's curl command does.
func (w *walk) events(part []string) {
	w.t.Helper()
	curl := regexp.MustCompile(`^\$ curl -H 'Content-Type: (\S+)' --data-binary @(\S+) (http://\S+)$`).FindStringSubmatch(part[0])
	if curl == nil || len(part) != 2 {
		w.t.Fatalf("README: %q is not the curl command that the test knows", part)
	}
	events, err := os.Open(filepath.FromSlash(curl[2]))
	if err != nil {
		w.t.Fatal(err)
	}
	defer events.Close()
	resp, err := http.Post(w.here(curl[3]), curl[1], events)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || string(answer) != part[1] && string(answer) != part[1]+"\n" {
		w.t.Errorf("the notifier answered %d %q (%v); README says %q", resp.StatusCode, answer, err, part[1])
	}
}

// stop ends the commands as Ctrl-C does, the destination first.
func (w *walk) stop() {
	w.t.Helper()
	for _, cmd := range slices.Backward(w.begun) {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			w.t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			w.t.Errorf("%s ended with %v after Ctrl-C; want status 0", filepath.Base(cmd.Path), err)
		}
	}
}

// TestReadmeTellsTheTwoCommands keeps the two commands that newcomers and CI
// rely on where they look for them.
func TestReadmeTellsTheTwoCommands(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"go run ./cmd/hub", "go test ./..."} {
		if !strings.Contains(string(text), fmt.Sprintf("\n    %s\n", command)) {
			t.Errorf("README.md does not have the command %q on a line of its own", command)
		}
	}
}

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"carillon/cmd/internal/program"
	"carillon/internal/redistest"
	"carillon/internal/together"
)

// beHub in the environment makes the test binary a hub: the tests start real
// processes without building anything.
const beHub = "CARILLON_TEST_BE_HUB"

func TestMain(m *testing.M) {
	if os.Getenv(beHub) != "" {
		os.Exit(program.Main(hubUnderTest))
	}
	together.Wait()
	os.Exit(m.Run())
}

// process is a hub in a process of its own.
type process struct {
	cmd   *exec.Cmd
	out   io.Reader
	ready map[string]string // the fields of the ready line
	log   *logText
}

// logText is what a process writes to stderr. It may be read meanwhile.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// hubEnvironment has the test binary be a hub that ends without a drain, unless its flags
// say otherwise: no test but those of the drain has a balancer.
func hubEnvironment() []string { return append(os.Environ(), beHub+"=1", "HUB_DRAIN=0s") }

// startHub starts a hub and waits for its ready line.
func startHub(t *testing.T, args ...string) *process {
	t.Helper()
	return startHubBy(t, nil, args...)
}

// startHubBy starts a hub by another command, which gets the hub's as its
// arguments.
func startHubBy(t *testing.T, by []string, args ...string) *process {
	t.Helper()
	p := launchHub(t, by, args...)
	p.awaitReady(t)
	return p
}

// launchHub starts a hub that may not become ready.
func launchHub(t *testing.T, by []string, args ...string) *process {
	t.Helper()
	whole := append(append(slices.Clone(by), os.Args[0]), args...)
	p := &process{cmd: exec.Command(whole[0], whole[1:]...), ready: map[string]string{}, log: &logText{}}
	p.cmd.Env = hubEnvironment()
	p.cmd.Stderr = p.log
	var err error
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// awaitReady waits for the ready line.
func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	line, err := bufio.NewReader(p.out).ReadString('\n')
	if err != nil {
		p.kill()
		t.Fatalf("the hub did not become ready: %v\n%s", err, p.log)
	}
	go io.Copy(io.Discard, p.out)
	for _, field := range strings.Fields(line) {
		name, value, _ := strings.Cut(field, "=")
		p.ready[name] = value
	}
}

// kill ends the process without warning (SIGKILL). It may be called twice.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()
}

// stop ends the process as an operator would and returns how it ended.
func (p *process) stop(t *testing.T) error {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return p.cmd.Wait()
}

// freePort returns a port for a hub that must come back at the same one.
func freePort(t *testing.T) int {
	t.Helper()
	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func subscribe(hub, topic, callback string, more url.Values) (int, string, error) {
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}}
	for name, values := range more {
		form[name] = values
	}
	return answer(http.PostForm(hub, form))
}

func publish(hub, topic, contentType, body string) (int, string, error) {
	return publishAt(hub, hub, topic, contentType, body)
}

// publishAt publishes to the hub by the address of one of its processes.
func publishAt(address, hub, topic, contentType, body string) (int, string, error) {
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hub))
	return answer(http.DefaultClient.Do(req))
}

func answer(resp *http.Response, err error) (int, string, error) {
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

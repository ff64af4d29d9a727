//go:build unix

package main

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SIGHUP has a hub apply the settings that can change, and log the rest. A broken file changes
// nothing, and the hub goes on.
func TestSIGHUP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "hub.yaml")
	const base = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlease-min: 5m\n"
	rewrite := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(base+"store: pebble:"+filepath.Join(dir, "store")+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite("")
	cmd := exec.Command(os.Args[0], "--config", config)
	cmd.Env = hubEnvironment()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, ready: map[string]string{}, log: &logText{}}
	if p.out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	defer time.AfterFunc(time.Minute, p.kill).Stop() // or a hub that says nothing is waited for
	p.awaitReady(t)
	log := bufio.NewScanner(stderr)
	reload := func(until string) string {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for log.Scan() {
			said.WriteString(log.Text() + "\n")
			if strings.Contains(log.Text(), until) {
				return said.String()
			}
		}
		t.Fatalf("the log ended without %q:\n%s", until, &said)
		return ""
	}

	rewrite("log-level: debug\nretry-for: 48h\n")
	const done = "the configuration was reloaded"
	if said := reload(done); !strings.Contains(said, `"setting":"log-level","before":"info","now":"debug"`) ||
		!strings.Contains(
			said, `"setting":"retry-for","in_force":"72h","configured":"48h"`,
		) || !strings.Contains(said, `"changed":1,"take_a_restart":1`) {
		t.Errorf("it says:\n%s", said)
	}
	rewrite("log-level: warn\nlease-max: 1s\nlaese: 1h\n")
	if said := reload("was not reloaded"); !strings.Contains(said, `"level":"ERROR"`) || !strings.Contains(said, `laese`) || !strings.Contains(said, "--lease-max") {
		t.Errorf("of a broken file it says:\n%s", said)
	}
	rewrite("log-level: info\n")
	if said := reload(done); !strings.Contains(said, `"before":"debug","now":"info"`) || !strings.Contains(said, `"take_a_restart":0`) {
		t.Errorf("of a mended file it says:\n%s", said)
	}
	if status, _, err := answer(http.Get("http://" + p.ready["admin"] + "/healthz")); err != nil || status != http.StatusOK {
		t.Errorf("afterwards: %d, %v", status, err)
	}
	go func() {
		for log.Scan() { // or the pipe fills
		}
	}()
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
}

// A notifying service manager learns that the hub is ready, and that it ends.
func TestNotifyReady(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := listenNotify(t, filepath.Join(dir, "s"))
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "s"))
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+filepath.Join(dir, "store"))
	if got := socket(); got != "READY=1" {
		t.Errorf("told %q; want READY=1", got)
	}
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
	if got := socket(); got != "STOPPING=1" {
		t.Errorf("told %q; want STOPPING=1", got)
	}
}

// listenNotify receives a process's messages to its service manager.
func listenNotify(t *testing.T, name string) (next func() string) {
	t.Helper()
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	_ = ln.SetReadDeadline(time.Now().Add(time.Minute)) // so that a silent hub fails the test
	return func() string {
		told := make([]byte, 256)
		n, err := ln.Read(told)
		if err != nil {
			t.Fatal(err)
		}
		return string(told[:n])
	}
}

//go:build unix

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SIGHUP has a notifier take another token, and refuse an invalid one.
func TestSIGHUP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "notifier.yaml")
	rewrite := func(token string) {
		t.Helper()
		text := "listen: 127.0.0.1:0\nintake: 127.0.0.1:0\ndata: " + filepath.Join(dir, "data") + "\nhub-token-file: " + writeToken(t, token) + "\n"
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite("carillon_a")
	cmd := exec.Command(os.Args[0], "--config", config)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop() // or one that says nothing is waited for
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.HasPrefix(line, "notifier ready ") {
		t.Fatalf("%q, %v", line, err)
	}
	log := bufio.NewScanner(stderr)
	reload := func(until string) (said string) {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for log.Scan() {
			if said += log.Text() + "\n"; strings.Contains(log.Text(), until) {
				break
			}
		}
		if !strings.Contains(said, until) || strings.Contains(said, "carillon_") {
			t.Fatalf("it says\n%s\nwant %s, and no token", said, until)
		}
		return said
	}
	rewrite("carillon_b")
	if said := reload("the configuration was reloaded"); !strings.Contains(said, `"setting":"hub-token-file"`) || !strings.Contains(said, `"changed":1,"take_a_restart":0`) {
		t.Errorf("of another token it says\n%s", said)
	}
	rewrite("carillon_c\ncarillon_d")
	if said := reload("was not reloaded"); !strings.Contains(said, "holds no token") {
		t.Errorf("of no token it says\n%s", said)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for log.Scan() { // to its end, so that Wait may close it
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// config check looks at what a start would, and makes nothing.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for line, want := range map[string]string{
		"":                                 "notifier: the configuration is good\n",
		"--max-entries 0 --keep -1h":       "--max-entries must be 1 to 50000, not 0\nnotifier: --keep must be over 0, not -1h0m0s\n",
		"--listen 0.0.0.0:0":               "give --url",
		"--hub ftp://a.test/ --intake x":   "--hub: \"ftp://a.test/\" is not an absolute http or https URL",
		"--hub-token-file /none":           "--hub-token-file: open /none",
		"--tls-cert a --intake-tls-key b":  "--intake-tls-key is given without --intake-tls-cert",
		"--hub http://a.test/ --listen :1": "every address of this machine",
	} {
		var out bytes.Buffer
		status := run(t.Context(), append([]string{"config", "check", "--data", data}, strings.Fields(line)...), &out, &out)
		if (status == 0) != (line == "") || !strings.Contains(out.String(), want) {
			t.Errorf("%q: %d\n%s\nwant %s", line, status, &out, want)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the directory was made")
	}
}

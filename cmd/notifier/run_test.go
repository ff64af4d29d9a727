package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runOnce runs the notifier in this process and returns its exit status.
func runOnce(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--log-level", "error"}, args...)
	code = runWith(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestRefusalsToStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--max-entries must be 1 to 50000, not 0":     {"--max-entries", "0"},
		"--max-entries must be 1 to 50000, not 50001": {"--max-entries", "50001"},
		"--max-wait must be over 0":                   {"--max-wait", "0s"},
		"--keep must be over 0":                       {"--keep=-1s"},
		"--changelist-entries must be 1 to 50000":     {"--changelist-entries", "0"},
		"--changelist-for must be over 0":             {"--changelist-for", "0s"},
		"--changelist-for must be over 0 and at":      {"--changelist-for", "800h"},
		`--describedby: "b" is no set here`:           {"--describedby", "b=https://a.example/"},
		`--describedby: "about" must be`:              {"--describedby", "about"},
		`more than one document for the set "a"`:      {"--describedby", "a=https://a.example/", "--describedby", "a=https://b.example/"},
		`--hide-channel: "b" is no set`:               {"--hide-channel", "b"},
		`--set: ".well-known" is not a name`:          {"--set", ".well-known"},
		`--set: "a" is there twice`:                   {"--set", "a,a"},
		`--url: "x/" is not an absolute`:              {"--url", "x"},
		`--hub: "hub" is not an absolute`:             {"--hub", "hub"},
		"--strict is for --stdin only":                {"--strict"},
		"--listen " + taken.Addr().String():           {"--listen", taken.Addr().String()},
		"--intake " + taken.Addr().String():           {"--intake", taken.Addr().String()},
		"--data " + file:                              {"--data", file},
		"unknown flag --sett":                         {"--sett", "a"},
	} {
		code, stdout, stderr := runOnce(t, "", append([]string{"--data", filepath.Join(t.TempDir(), "data")}, args...)...)
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want one line with %q", args, code, stdout, stderr, want)
		}
	}
}

func TestDataDirectoryInUse(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startProcess(t, "--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--data", data)
	defer p.kill()
	code, _, stderr := runOnce(t, "", "--data", data)
	if want := "notifier: --data " + data + ": data directory in use by another process\n"; code != 1 || stderr != want {
		t.Errorf("status %d, stderr %q; want %q", code, stderr, want)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	events, err := os.ReadFile("../../testdata/events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, stdin string
		args        []string
		code, sent  int
		stderr      string
	}{
		{"the example events", string(events), nil, 0, 8, ""},
		{"nothing", "", nil, 0, 0, ""},
		{"a bad line", "{}\n" + string(events), nil, 1, 8, "notifier: stdin: line 1: loc is missing\n"},
		{"a bad line, strict", "{}\n" + string(events), []string{"--strict"}, 1, 0, "notifier: stdin: line 1: loc is missing\n"},
		{"several sets", string(events[:bytes.IndexByte(events, '\n')]), []string{"--set", "a", "--set", "b"}, 1, 0, "notifier: stdin: line 1: sets is missing\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			hub := &moodyHub{calm: true}
			server := httptest.NewServer(hub)
			defer server.Close()
			args := append([]string{"--data", t.TempDir(), "--hub", server.URL, "--stdin", "--max-wait", "1h"}, c.args...)
			code, stdout, stderr := runOnce(t, c.stdin, args...)
			if code != c.code || stderr != c.stderr || hub.sent != c.sent {
				t.Errorf("status %d, stderr %q, %d events at the hub; want %d, %q, %d", code, stderr, hub.sent, c.code, c.stderr, c.sent)
			}
			if !strings.HasPrefix(stdout, "notifier ready listen=127.0.0.1:") || strings.Count(stdout, "\n") != 1 ||
				!strings.Contains(stdout, " intake=127.0.0.1:") || !strings.Contains(stdout, " url=http://127.0.0.1:") {
				t.Errorf("the ready line is %q", stdout)
			}
		})
	}
}

// TestSignals: SIGTERM and SIGINT end the program with 0 in time, while the hub
// hangs and standard input does not end.
func TestSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			reached, release := make(chan struct{}, 1), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // so that the server sees the connection close
				select {
				case reached <- struct{}{}:
				default:
				}
				<-release
			}))
			defer server.Close()
			defer close(release)
			p := startProcess(
				t, "--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--data", t.TempDir(),
				"--hub", server.URL, "--max-wait", "1ms", "--log-level", "error",
			)
			defer p.kill()
			resp, err := http.Post(
				"http://"+p.intake+"/sets/default/events", "application/json",
				strings.NewReader(`{"loc":"http://a.example/","change":"created"}`),
			)
			if err != nil || resp.StatusCode != http.StatusAccepted {
				t.Fatal(resp, err)
			}
			resp.Body.Close()
			<-reached
			if err := p.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			late, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			select {
			case <-p.ended:
			case <-late.Done():
				t.Fatal("it has not ended after 30 s")
			}
			if code := p.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit status %d", code)
			}
		})
	}
}

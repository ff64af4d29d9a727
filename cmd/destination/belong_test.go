package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// Changes that were handed on as lines are in no mirror: a later mirror begins with a baseline.
func TestMirrorAfterLines(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	s.put("/old", "old")
	s.snapshot()
	hub := s.withHub()
	host := strings.TrimPrefix(s.URL, "http://")
	follow := []string{"follow", "--topic", s.topic, "--trust-host", host, "--data", m.data, "--listen", "127.0.0.1:0", "--min-free", "1B"}
	s.put("/new", "new")
	p := start(t, append(follow, "--start", payload.FormatDatetime(s.at))...)
	p.line()
	if c := p.change(); c.Loc != s.URL+"/new" {
		t.Errorf("the first change is %+v", c)
	}
	<-hub.asked
	if status := p.end(); status != 0 {
		t.Fatalf("status %d: %s", status, &p.logs)
	}
	if _, logs := m.run(
		"incremental", 1, "--topic", s.topic, "--trust-host", strings.TrimPrefix(hub.URL, "http://"),
	); !strings.Contains(logs, "take a baseline first") {
		t.Errorf("incremental: %s", logs)
	}
	got := make(chan any)
	s.got["/old"] = got
	p = start(t, append(follow, "--mirror", m.dir, "--base", s.URL+"/")...)
	p.line()
	<-got
	<-hub.asked // the hub verifies the renewal: the callback must be there for it
	if status := p.end(); status != 0 {
		t.Errorf("status %d: %s", status, &p.logs)
	}
}

// A mirror that is not there, as its disk is not mounted, is neither whole nor made anew.
func TestMirrorNotMounted(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	hub := s.withHub()
	s.put("/a", "a")
	s.snapshot()
	hosts := []string{"--topic", s.topic, "--trust-host", strings.TrimPrefix(hub.URL, "http://")}
	for _, dir := range []string{m.dir, m.data} {
		if _, logs := m.run("audit", 1, hosts...); !strings.Contains(logs, "there is no state of a mirror; take a baseline first") {
			t.Errorf("audit before a baseline: %s", logs)
		}
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("audit has made %s", dir)
		}
	}
	m.run("baseline", 0, hosts...)
	away := m.dir + "-away"
	if err := os.Rename(m.dir, away); err != nil {
		t.Fatal(err)
	}
	for _, made := range []bool{false, true} {
		if made {
			if err := os.Mkdir(m.dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, command := range []string{"incremental", "baseline", "audit"} {
			if out, logs := m.run(command, 1, hosts...); out != "" || !strings.Contains(logs, "the copies that are recorded are not there") {
				t.Errorf("%s: %s%s", command, out, logs)
			}
		}
		p := start(
			t, "follow", "--topic", s.topic, "--trust-host", strings.TrimPrefix(s.URL, "http://"),
			"--data", m.data, "--mirror", m.dir, "--listen", "127.0.0.1:0", "--min-free", "1B",
		)
		if status := p.ended(); status != 1 || !strings.Contains(p.logs.String(), "are not there") {
			t.Errorf("follow: status %d: %s", status, &p.logs)
		}
	}
	if left, err := os.ReadDir(m.dir); err != nil || len(left) > 0 {
		t.Errorf("the mount point has %v, %v", left, err)
	}
	if err := os.Remove(m.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, m.dir); err != nil {
		t.Fatal(err)
	}
	m.run("audit", 0, hosts...)
}

// A Source whose topic is hidden, and shown again, is the same; another one is not.
func TestHiddenChannel(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	s.put("/a", "a")
	s.snapshot()
	hub := s.withHub()
	trusted := []string{"--trust-host", strings.TrimPrefix(hub.URL, "http://")}
	follow := []string{
		"follow", "--topic", s.topic, "--trust-host", strings.TrimPrefix(s.URL, "http://"),
		"--data", m.data, "--listen", "127.0.0.1:0", "--min-free", "1B",
	}
	m.run("baseline", 0, append(trusted, "--topic", s.topic)...)
	shown := s.topic
	s.topic = ""
	m.run("incremental", 0, trusted...)
	m.run("audit", 0, append(trusted, "--topic", shown)...)
	p := start(t, append(follow, "--mirror", m.dir, "--base", s.URL)...)
	p.line()
	<-hub.asked
	if status := p.end(); status != 0 {
		t.Errorf("status %d: %s", status, &p.logs)
	}
	s.topic = shown
	m.run("incremental", 0, append(trusted, "--topic", shown)...)
}

// A mistyped --topic takes no data directory, and an unused --start can be given anew.
func TestMistyped(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.put("/a", "a")
	s.snapshot()
	data := filepath.Join(t.TempDir(), "data")
	nothing := httptest.NewServer(http.NotFoundHandler())
	defer nothing.Close()
	follow := func(args ...string) *process {
		return start(t, append([]string{"follow", "--data", data, "--listen", "127.0.0.1:0", "--min-free", "1B"}, args...)...)
	}
	if status := follow("--topic", "nonsense").ended(); status != 1 {
		t.Errorf("status %d", status)
	}
	p := follow("--topic", nothing.URL+"/boks/")
	p.line()
	if status := p.end(); status != 0 {
		t.Errorf("status %d: %s", status, &p.logs)
	}
	p = follow("--source", s.URL, "--start", payload.FormatDatetime(s.at.Add(-time.Hour)))
	if status := p.ended(); status != 1 || !strings.Contains(p.logs.String(), "begin elsewhere, by --start") {
		t.Errorf("status %d: %s", status, &p.logs)
	}
	p = follow("--source", s.URL, "--start", "baseline")
	p.line()
	if c := p.change(); c.Loc != s.URL+"/a" || c.Via != "resourcelist" {
		t.Errorf("the first change is %+v", c)
	}
	if status := p.end(); status != 0 {
		t.Errorf("status %d: %s", status, &p.logs)
	}
	p = follow("--topic", nothing.URL+"/boks/") // it belongs to the Source now
	if status := p.ended(); status != 1 || !strings.Contains(p.logs.String(), "it belongs to") {
		t.Errorf("status %d: %s", status, &p.logs)
	}
}

// ended waits until the command has ended by itself, whatever it prints.
func (p *process) ended() int {
	p.t.Helper()
	for p.lines.Scan() {
	}
	return <-p.status
}

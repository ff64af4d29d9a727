package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// newIntake is a notifier's, which hands on what it takes.
func newIntake(t *testing.T) (uri string, took <-chan map[string]any) {
	events := make(chan map[string]any, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		n := 0
		for line := range bytes.Lines(body) {
			var e map[string]any
			if err := json.Unmarshal(line, &e); err != nil {
				t.Error(err)
			}
			events <- e
			n++
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"accepted":%d}`, n)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/sets/agg/events", events
}

// An aggregator that follows publishes the resources of a baseline from packages, with their own
// hashes and the links to the origin. It also publishes their later changes.
func TestPublishAfterBaselineByDump(t *testing.T) {
	t.Parallel()
	const files, as = 30, "http://mirror.example/"
	m, s := newDumper(t)
	hub := s.withHub()
	for i := range files {
		s.put(fmt.Sprintf("/f%d.txt", i), fmt.Sprint("text ", i))
	}
	s.snapshot()
	s.dump(2)
	trusted := []string{"--topic", s.topic, "--trust-host", strings.TrimPrefix(hub.URL, "http://")}
	if out, logs := m.run("baseline", 0, append(trusted, "--dump", "only")...); !strings.Contains(
		out, fmt.Sprintf("; %d from 2 packages, 0 by GET)", files),
	) {
		t.Fatalf("%s%s", out, logs)
	}
	intake, took := newIntake(t)
	p := start(t, "follow", "--topic", s.topic, "--mirror", m.dir, "--data", m.data, "--base", s.URL+"/", "--trust-host", strings.TrimPrefix(s.URL, "http://"),
		"--min-free", "1B", "--listen", "127.0.0.1:0", "--settle", "1ms", "--publish", intake, "--as", as)
	p.line()
	sub := <-hub.asked
	told := map[string]string{} // hash by origin
	for _, e := range s.listed {
		told[e.Loc] = e.Hash
	}
	below := as + strings.Replace(strings.TrimPrefix(s.URL, "http://"), ":", "+", 1)
	check := func(e map[string]any) {
		t.Helper()
		origin := strings.Replace(fmt.Sprint(e["loc"]), below, s.URL, 1)
		if want, known := told[origin]; !known || e["hash"] != want || !strings.Contains(fmt.Sprint(e["ln"]), "href:"+origin) || !strings.Contains(fmt.Sprint(e["ln"]), "rel:via") {
			t.Errorf("published %v; the origin has %q", e, want)
		}
		delete(told, origin)
	}
	for len(told) > 0 {
		check(<-took)
	}
	changed := s.put("/f3.txt", "changed")
	told[changed.Loc] = changed.Hash
	var doc bytes.Buffer
	n, err := payload.NewNotificationWriter(&doc, payload.Interval{From: s.at, Until: changed.Datetime.Add(time.Second)}, "")
	s.must(errors.Join(err, n.Write(changed), n.Close()))
	hub.deliver(sub, "n1", doc.String())
	check(<-took)
	if status := p.end(); status != 0 {
		t.Fatalf("status %d: %s", status, &p.logs)
	}
	m.want("f3.txt", "changed")
	m.run("audit", 0, trusted...)
	if n := s.gets(); n != 1 {
		t.Errorf("%d files were asked for", n)
	}
}

// A command that is stopped in the middle says how to go on, at each moment, and going on works.
func TestStoppedInTheMiddle(t *testing.T) {
	t.Parallel()
	m, s := newDumper(t)
	for i := range 10 {
		s.put(fmt.Sprintf("/f%d.txt", i), fmt.Sprint("text ", i))
	}
	s.snapshot()
	s.dump(2)
	asked := errors.New("signal: interrupt")
	for _, path := range []string{"/caps.xml", "/resources.xml", "/resourcedump.xml", "/0.zip", "/1.zip"} {
		ctx, stop := context.WithCancelCause(t.Context())
		s.mu.Lock()
		s.before = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			stop(asked)
			<-r.Context().Done()
			return true
		}
		s.mu.Unlock()
		var out, logs bytes.Buffer
		status := run(ctx, []string{"baseline", "--source", s.URL, "--mirror", m.dir, "--data", m.data, "--min-free", "1B"}, &out, &logs)
		if said := logs.String(); status != 1 || !strings.HasSuffix(
			said,
			"baseline: it was stopped before its end (signal: interrupt); give the same command again, and it goes on with what is there\n",
		) {
			t.Errorf("stopped at %s: status %d: %s", path, status, said)
		}
		stop(nil)
	}
	s.mu.Lock()
	s.before = nil
	s.mu.Unlock()
	m.run("baseline", 0)
	m.run("audit", 0)
}

// A package of changes that was taken is not kept, and not asked for again: the disk need not have
// room for all, and a run that is stopped goes on behind it.
func TestChangeDumpOfManyPackages(t *testing.T) {
	t.Parallel()
	t.Run("one after the other", func(t *testing.T) { changeDumpOfMany(t, false) })
	t.Run("all of one interval", func(t *testing.T) { changeDumpOfMany(t, true) })
}

func changeDumpOfMany(t *testing.T, together bool) {
	const packages, each = 5, 20
	m, s := newDumper(t)
	s.put("/f.txt", "text")
	s.snapshot()
	s.dump(1)
	m.run("baseline", 0)
	s.changesFrom = s.at
	head := payload.Head{Capability: payload.CapChangeDumpManifest, Until: s.at}
	for p := range packages {
		for i := range each {
			s.put(fmt.Sprintf("/new/%d-%d.txt", p, i), fmt.Sprint("new ", i))
		}
		head.From, head.Until = head.Until, s.clock.Add(time.Second)
		if together {
			head = payload.Head{Capability: head.Capability, From: s.at, Until: s.at.Add(24 * time.Hour)}
		}
		s.changed = append(s.changed, s.pack(fmt.Sprintf("/c%d.zip", p), head, s.changes[p*each:]))
	}
	for i := range s.changed {
		if together {
			s.changed[i].From, s.changed[i].Until = s.at, s.at.Add(24*time.Hour)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.mu.Lock()
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if left, _ := filepath.Glob(filepath.Join(m.dir, ".carillon", "packages", "*.zip")); len(left) > 0 && !together {
			t.Errorf("when %s is asked for, %v is there", r.URL.Path, left)
		}
		if r.URL.Path == "/c3.zip" {
			stop()
			<-r.Context().Done()
		}
		return false
	}
	s.mu.Unlock()
	args := []string{"incremental", "--source", s.URL, "--mirror", m.dir, "--data", m.data, "--min-free", "1B", "--dump", "only"}
	var out, logs bytes.Buffer
	if status := run(ctx, args, &out, &logs); status != 1 {
		t.Fatalf("status %d: %s%s", status, &out, &logs)
	}
	m.want("new/2-19.txt", "new 19")
	m.want("new/3-0.txt", "")
	s.mu.Lock()
	s.before = nil
	s.mu.Unlock()
	want := "from 2 packages"
	if together { // any of them may have what is missing
		want = "from 5 packages"
	}
	if out, logs := m.run("incremental", 0, "--dump", "only"); !strings.Contains(out, fmt.Sprintf("; %d %s", 2*each, want)) {
		t.Errorf("%s%s", out, logs)
	}
	m.run("audit", 0)
	for p, want := range []int{1, 1, 1, 2, 1} {
		if n := len(s.asked[fmt.Sprintf("/c%d.zip", p)]); n != want {
			t.Errorf("package %d was asked for %d times, want %d", p, n, want)
		}
	}
}

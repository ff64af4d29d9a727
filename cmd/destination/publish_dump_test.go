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

// What a baseline has taken from packages is published by an aggregator that follows, with its
// own hash and the way to the origin; and so is what changes then.
func TestPublishAfterBaselineByDump(t *testing.T) {
	const files, as = 30, "http://mirror.example/"
	m, s := newDumper(t)
	hub := s.withHub()
	for i := range files {
		s.put(fmt.Sprintf("/f%d.txt", i), fmt.Sprint("text ", i))
	}
	s.snapshot()
	s.dump(2)
	trusted := []string{"--topic", s.topic, "--trust-host", strings.TrimPrefix(hub.URL, "http://")}
	if out, logs := m.run("baseline", 0, append(trusted, "--dump", "only")...); !strings.Contains(out, fmt.Sprintf("; %d from 2 packages, 0 by GET)", files)) {
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

// Who stops a command in the middle is told how it goes on, wherever that was; and it does.
func TestStoppedInTheMiddle(t *testing.T) {
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
		if said := logs.String(); status != 1 || !strings.HasSuffix(said, "baseline: it was stopped before its end (signal: interrupt); give the same command again, and it goes on with what is there\n") {
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

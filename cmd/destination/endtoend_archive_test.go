//go:build !race

package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// head reads what a document of the library says of itself.
func (l *library) head(path string) payload.Header {
	l.t.Helper()
	resp, err := http.Get(l.way.URL + path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	head, err := payload.NewReader(resp.Body, payload.Limits{}).Header()
	if err != nil {
		l.t.Fatal(err)
	}
	return head
}

// failing runs a command of the program that ends with status 1.
func (l *library) failing(args ...string) (stdout, stderr string) {
	l.t.Helper()
	var out, logs bytes.Buffer
	cmd := exec.CommandContext(l.t.Context(), filepath.Join(programs(l.t), "destination"), args...)
	cmd.Stdout, cmd.Stderr = &out, &logs
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		l.t.Errorf("%v: %v\n%s%s", args, err, &out, &logs)
	}
	return out.String(), logs.String()
}

// TestArchivesOfANotifier has a mirror that lags behind the live Change Lists go on by the archive,
// and brings others to earlier moments: content changed since is reported, and never written.
func TestArchivesOfANotifier(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	l.args = append(l.args, "--archive", "town", "--changelist-entries", "5", "--keep", "1ms")
	l.write("first ", 0, 20)
	l.startNotifier()
	l.awaitPublished()
	l.killNotifier()
	l.startNotifier() // it makes the first Resource List at once
	l.notifier.await("an archived Resource List", func() bool { return l.notifier.archived("resourcelist-archive") > 0 })
	at := func(dir string, more ...string) []string {
		return append([]string{"--source", l.way.URL + "/", "--mirror", dir, "--data", filepath.Join(t.TempDir(), "data"), "--delete"}, more...)
	}
	lagging := at(l.copies)
	l.destination(append([]string{"baseline"}, lagging...)...)
	behind := time.Now().UTC()

	var moments []time.Time
	var was []map[string]string
	for i := range 5 {
		l.write(fmt.Sprint("round ", i, " "), 3*i, 3*i+7) // of which the next one writes four again
		if i == 2 {
			l.remove(18, 20)
		}
		l.awaitPublished()
		moments, was = append(moments, time.Now().UTC()), append(was, l.tree(l.files))
	}
	for end := time.Now().Add(comesWithin); !l.head("/town/changelist.xml").FromTime.After(behind); {
		if time.Now().After(end) {
			t.Fatal("the live Change Lists still reach back")
		}
	}
	// A list that is being closed lacks the newest events for a moment: the next run takes them.
	source := l.tree(l.files)
	for end := time.Now().Add(comesWithin); !maps.Equal(l.copied(), source) && time.Now().Before(end); {
		if done := l.destination(append([]string{"incremental"}, lagging...)...); !strings.Contains(done, " 0 failed") {
			t.Fatalf("by the archive: %s", done)
		}
	}
	l.compare()

	now := l.tree(l.files)
	listed := regexp.MustCompile(`(?m)^not as it was "`)
	for i, moment := range moments {
		same := 0
		for name, text := range was[i] {
			if now[name] == text {
				same++
			}
		}
		dir := t.TempDir()
		args := at(dir, "--at", payload.FormatDatetime(moment), "--retries", "0")
		var out string
		if same == len(was[i]) {
			out = l.destination(append([]string{"baseline"}, args...)...)
		} else {
			out, _ = l.failing(append([]string{"baseline"}, args...)...)
		}
		if lost := len(listed.FindAllString(out, -1)); lost != len(was[i])-same {
			t.Errorf("moment %d: %d are listed, and %d of %d are the same: %s", i, lost, same, len(was[i]), out)
		}
		for name, text := range l.tree(dir) {
			_, file, inside := strings.Cut(name, "/town/files/")
			if inside && (text != was[i][file] || text != now[file]) {
				t.Errorf("moment %d: %s is %q, and was %q", i, file, text, was[i][file])
			}
		}
	}
	if _, logs := l.failing(
		append([]string{"baseline"}, at(t.TempDir(), "--at", "2020-01-02T03:04:05Z")...)...,
	); !strings.Contains(logs, "the earliest state that it lists or has archived is of ") {
		t.Errorf("before all: %s", logs)
	}
}

// TestMomentsOfANotifier has a notifier archive what it dumps, changes every file, and brings five moments
// back equal byte for byte, each into a new mirror, and one after the other into one.
func TestMomentsOfANotifier(t *testing.T) {
	t.Parallel()
	const perList, closed = 5, 4 // of the first files
	l := newLibrary(t)
	l.args = append(l.args, "--archive", "town", "--dump", "town", "--changelist-entries", fmt.Sprint(perList))
	l.write("first ", 0, perList*closed)
	l.startNotifier()
	l.awaitPublished()
	l.killNotifier()
	l.startNotifier() // it makes the first Resource List at once
	l.notifier.await("an archived Resource List", func() bool { return l.notifier.archived("resourcelist-archive") > 0 })

	var moments []time.Time
	var was []map[string]string
	for i := range 5 {
		if i == 3 {
			l.write("round 3 ", 0, perList-2)
			l.remove(18, 20)
		} else {
			l.write(fmt.Sprint("round ", i, " "), 4*i, 4*i+perList) // of which the next one writes one again
		}
		l.awaitPublished()
		l.awaitDumped(closed + i + 1)
		moments, was = append(moments, time.Now().UTC()), append(was, l.tree(l.files))
	}
	l.write("the last ", 0, 30)
	l.awaitPublished()

	one := filepath.Join(t.TempDir(), "copies")
	for _, i := range []int{3, 0, 4, 2, 1} {
		for _, dir := range []string{one, filepath.Join(t.TempDir(), "copies")} {
			out := l.destination("baseline", "--source", l.way.URL+"/", "--mirror", dir, "--data", dir+"-data", "--delete",
				"--at", payload.FormatDatetime(moments[i]), "--retries", "0")
			host, err := url.Parse(l.way.URL)
			if err != nil {
				t.Fatal(err)
			}
			got := l.tree(filepath.Join(dir, strings.ReplaceAll(host.Host, ":", "+"), "town", "files"))
			if !maps.Equal(got, was[i]) {
				t.Errorf("moment %d is %q, and was %q: %s", i, got, was[i], out)
			}
		}
	}
}

// awaitDumped waits until the live Change Dump lists so many packages.
func (l *library) awaitDumped(packages int) {
	l.t.Helper()
	client, err := lists.New(lists.Config{})
	if err != nil {
		l.t.Fatal(err)
	}
	for end := time.Now().Add(comesWithin); ; {
		n := 0
		_, err := client.ChangeDump(l.t.Context(), l.way.URL+"/town/changedump.xml", time.Time{}, func(lists.Package) error { n++; return nil })
		switch {
		case err != nil && !lists.Final(err) || time.Now().After(end):
			l.t.Fatalf("the Change Dump lists %d packages: %v", n, err)
		case n >= packages:
			return
		}
	}
}

//go:build !race

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// library is a directory that a notifier watches and serves, with a hub and a mirror.
type library struct {
	t             *testing.T
	files, copies string
	args, hubArgs []string // of the notifier and the hub
	way           *relay   // to the notifier
	hub, notifier *child
	made          int // changes, a notification each
	told          int // of those, by notifiers that were killed
}

func newLibrary(t *testing.T) *library {
	dir := t.TempDir()
	l := &library{
		t: t, files: filepath.Join(dir, "files"), copies: filepath.Join(dir, "copies"),
		way: newRelay(t, make(chan string, 10_000)), hubArgs: hubArgs(t, dir),
	}
	l.hub = launch(t, "hub", l.hubArgs...)
	l.args = []string{
		"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--hub", l.hub.ready["url"], "--url", l.way.URL + "/",
		"--data", filepath.Join(dir, "notifier"), "--watch", "town=" + l.files, "--serve", "town",
		"--watch-settle", "50ms", "--max-entries", "1", "--max-wait", "1ms",
	}
	return l
}

func (l *library) startNotifier() {
	l.t.Helper()
	l.notifier = launch(l.t, "notifier", l.args...)
	l.way.leadTo(l.notifier)
}

func (l *library) killNotifier() {
	l.notifier.kill()
	l.told += l.notifier.countLogged("the hub accepted a notification")
}

// write writes files, each of which is a change.
func (l *library) write(text string, from, until int) {
	l.t.Helper()
	for i := from; i < until; i++ {
		l.made++
		name := l.name(i)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			l.t.Fatal(err)
		}
		// Renamed into its place, it is one change however slow this process is.
		made := filepath.Join(filepath.Dir(l.files), "made")
		if err := os.WriteFile(made, fmt.Append(nil, text, i), 0o600); err != nil {
			l.t.Fatal(err)
		}
		if err := os.Rename(made, name); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *library) name(i int) string {
	return filepath.Join(l.files, fmt.Sprint("room ", i%3), fmt.Sprint("ä & ", i, ".txt"))
}

func (l *library) remove(from, until int) {
	l.t.Helper()
	for i := from; i < until; i++ {
		l.made++
		if err := os.Remove(l.name(i)); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *library) awaitPublished() {
	l.t.Helper()
	l.notifier.await("notifications", func() bool {
		return l.told+l.notifier.countLogged("the hub accepted a notification") >= l.made
	})
}

// copied are the copies, by the names of their files.
func (l *library) copied() map[string]string {
	l.t.Helper()
	host, err := url.Parse(l.way.URL)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.tree(filepath.Join(l.copies, strings.ReplaceAll(host.Host, ":", "+"), "town", "files"))
}

// compare walks both directories.
func (l *library) compare() (files int) {
	l.t.Helper()
	source, copies := l.tree(l.files), l.copied()
	for name, text := range source {
		if got, there := copies[name]; !there || got != text {
			l.t.Errorf("the copy of %q is %q (%t); want %q", name, got, there, text)
		}
		delete(copies, name)
	}
	for name := range copies {
		l.t.Errorf("the copy %q has no original", name)
	}
	return len(source)
}

func (l *library) tree(dir string) map[string]string {
	l.t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went after its directory was read
		}
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		all[name] = string(text)
		return err
	})
	if err != nil {
		l.t.Error(err)
	}
	return all
}

// destination runs a command of the program to its end.
func (l *library) destination(args ...string) string {
	l.t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(l.t.Context(), filepath.Join(programs(l.t), "destination"), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		l.t.Errorf("%v: %v\n%s%s", args, err, out, &stderr)
	}
	return string(out)
}

// TestMirrorMissesNothing is the same for copies of a directory's files. The mirror is killed, the hub
// gives up, the notifier is killed too, and files change while no process watches. In the end every
// file has its copy, and there are no other copies.
func TestMirrorMissesNothing(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	l.write("first ", 0, 60)
	l.startNotifier()
	l.awaitPublished()
	// A notifier that starts makes the first Resource List at once.
	l.killNotifier()
	l.startNotifier()
	l.notifier.await("a Resource List", func() bool { return l.notifier.countLogged("a Resource List was made") > 0 })

	data := filepath.Join(t.TempDir(), "data")
	callback := newRelay(t, nil)
	args := []string{
		"follow", "--topic", l.way.URL + "/town/change/", "--listen", "127.0.0.1:0", "--url", callback.URL,
		"--data", data, "--settle", "100ms", "--mirror", l.copies, "--delete",
	}
	follower := launch(t, "destination", args...)
	callback.leadTo(follower)
	follower.await("its baseline and its subscription", func() bool {
		return follower.countLogged("the baseline is taken") > 0 && follower.countLogged("subscribed") > 0
	})
	l.write("by push ", 50, 70)
	l.awaitPublished()
	follower.kill()

	l.write("while it is away ", 10, 30)
	l.remove(30, 40)
	l.awaitPublished()
	l.hub.await("it to give up", func() bool { return l.hub.countLogged("notifications given up: their time is over") > 0 })
	l.killNotifier()
	l.write("while nobody watches ", 65, 75)
	l.remove(0, 10)
	l.startNotifier()
	l.awaitPublished()

	follower = launch(t, "destination", args...)
	callback.leadTo(follower)
	l.write("the last ", 100, 101)
	l.awaitFetched(100)
	follower.stop()

	// The work under way at the stop is done now.
	source := []string{"--source", l.way.URL + "/", "--mirror", l.copies, "--data", data}
	done := l.destination(append([]string{"incremental", "--delete"}, source...)...)
	audit := l.destination(append([]string{"audit"}, source...)...)
	if !strings.HasPrefix(audit, "audit: in sync: ") {
		t.Errorf("the audit says %s", audit)
	}
	t.Logf("%d notifications; %d files equal\n%s%s", l.made, l.compare(), done, audit)
}

// awaitFetched waits until a file is asked for.
func (l *library) awaitFetched(i int) {
	l.t.Helper()
	name := "/" + filepath.Base(l.name(i))
	late := time.After(comesWithin)
	for {
		select {
		case path := <-l.way.seen:
			if strings.HasSuffix(path, name) {
				return
			}
		case <-late:
			l.t.Fatal("nobody asked for ", name)
		}
	}
}

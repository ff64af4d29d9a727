//go:build !race

package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/payload"
)

// dumped is a directory that a notifier watches, serves and dumps.
type dumped struct {
	t       *testing.T
	rng     *rand.Rand
	home    string // of all that is kept
	dir     string // of the files
	files   int    // with plain names
	version int    // of the last file that was written
	args    []string
	heard   *heard
	way     *relay // to the notifier

	notifier *child
	came     chan struct{} // requests for packages

	mu    sync.Mutex
	paths map[string]int // guarded by mu: the requested paths, by kind
}

func newDumped(t *testing.T, files int) *dumped {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := &dumped{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), home: t.TempDir(), files: files, heard: newHeard(t), paths: map[string]int{},
		came: make(chan struct{}, 1),
	}
	d.dir = filepath.Join(d.home, "files")
	for i := range files {
		d.write(plainName(i))
	}
	for _, name := range append([]string{"large.bin", "large/empty.txt"}, oddNames...) {
		d.write(name)
	}
	seen := make(chan string)
	d.way = newRelay(t, seen)
	go d.count(seen)
	t.Cleanup(func() { close(seen) })
	t.Cleanup(d.way.Close) // runs before it, so that no request comes later
	d.args = []string{
		"--listen", "127.0.0.1:0", "--intake", freeAddress(t), "--hub", d.heard.URL, "--url", d.way.URL + "/",
		"--data", filepath.Join(d.home, "notifier"), "--watch", "town=" + d.dir, "--serve", "town", "--watch-settle", "50ms",
		"--changelist-entries", fmt.Sprint(max(listEntries, files/listEntries)),
		"--dump", "town", "--dump-package-bytes", fmt.Sprint(dumpedPackage),
	}
	return d
}

func (d *dumped) startNotifier() {
	d.t.Helper()
	d.notifier = launch(d.t, "notifier", d.args...)
	d.way.leadTo(d.notifier)
}

func (d *dumped) killNotifier() { d.notifier.kill() }

// awaitResourceList waits until the Source has a Resource List. A notifier that starts without one
// makes it at once.
func (d *dumped) awaitResourceList() {
	d.t.Helper()
	if d.serves("resourcelist.xml") {
		return
	}
	d.killNotifier()
	d.startNotifier()
	d.notifier.await("a Resource List", func() bool { return d.notifier.countLogged("a Resource List was made") > 0 })
}

func (d *dumped) serves(document string) bool {
	d.t.Helper()
	resp, err := http.Get(d.notifier.ready["url"] + "town/" + document)
	if err != nil {
		d.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// dumpArgs have a Resource Dump made.
func (d *dumped) dumpArgs() []string {
	return []string{"dump", "town", "--intake", d.notifier.ready["intake"]}
}

// start starts a command of a program. ended gets how it ends.
func (d *dumped) start(program string, args ...string) (cmd *exec.Cmd, ended chan error) {
	d.t.Helper()
	var out bytes.Buffer
	cmd = exec.Command(filepath.Join(programs(d.t), program), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, &out)
		}
		ended <- err
	}()
	return cmd, ended
}

// whole runs a command to its end, which must be good, and returns how long it took.
func (d *dumped) whole(program string, args ...string) time.Duration {
	d.t.Helper()
	begin := time.Now()
	_, ended := d.start(program, args...)
	if err := <-ended; err != nil {
		d.t.Fatalf("%v\nthe notifier:\n%s", err, d.notifier.logs())
	}
	return time.Since(begin)
}

// dumpOnceScanned makes a dump by a notifier that has just started.
func (d *dumped) dumpOnceScanned() {
	d.t.Helper()
	for end := time.Now().Add(comesWithin); ; {
		_, ended := d.start("notifier", d.dumpArgs()...)
		err := <-ended
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "was not scanned yet") || time.Now().After(end) {
			d.t.Fatalf("%v\nthe notifier:\n%s", err, d.notifier.logs())
		}
	}
}

func (d *dumped) output(program string, args ...string) string {
	out, err := exec.CommandContext(d.t.Context(), filepath.Join(programs(d.t), program), args...).Output()
	if err != nil {
		d.t.Errorf("%s %v: %v", program, args, err)
	}
	return string(out)
}

// within waits for a part of a time.
func (d *dumped) within(most time.Duration) {
	<-time.After(time.Duration(d.rng.Int64N(int64(most))))
}

// killEach kills a command so often, each time soon after it has asked for a package, and then runs
// it to its end. It asks for so many packages if it is not killed.
func (d *dumped) killEach(kills, packages int, args []string) {
	d.t.Helper()
	inTime := 0
	for range kills {
		if d.killAfter(1+d.rng.IntN(max(1, packages/kills)), args) {
			inTime++
		}
	}
	d.whole("destination", args...)
	d.t.Logf("%s: %d of %d kills came before its end", args[0], inTime, kills)
	if inTime == 0 {
		d.t.Errorf("%s: no kill came before its end", args[0])
	}
}

// killAfter kills a command after so many requests for packages. It reports whether that was before
// the command's end.
func (d *dumped) killAfter(packages int, args []string) bool {
	d.t.Helper()
	for len(d.came) > 0 {
		<-d.came // of the run before
	}
	cmd, ended := d.start("destination", args...)
	for {
		select {
		case err := <-ended:
			if err != nil {
				d.t.Error(err)
			}
			return false
		case <-d.came:
		}
		if packages--; packages == 0 {
			d.within(killDelay)
			_ = cmd.Process.Kill() // it may have ended
			return <-ended != nil
		}
	}
}

// killDelay is how long after its last request a command is killed at most.
const killDelay = 20 * time.Millisecond

// count counts what is asked for.
func (d *dumped) count(seen <-chan string) {
	for path := range seen {
		for _, kind := range []string{"/resourcedump/", "/changedump/", "/files/"} {
			if strings.HasPrefix(path, "/town"+kind) {
				d.mu.Lock()
				d.paths[kind]++
				d.mu.Unlock()
				if kind != "/files/" {
					select {
					case d.came <- struct{}{}:
					default: // no reader waits for it
					}
				}
			}
		}
	}
}

// asked returns what was asked for so far.
func (d *dumped) asked() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.paths)
}

// byDump checks that resources came by packages, of the kind, and few by GET. It returns how many
// packages were asked for.
func (d *dumped) byDump(what string, before map[string]int, kind string, resources int) (packages int) {
	d.t.Helper()
	now := d.asked()
	files := now["/files/"] - before["/files/"]
	packages = now[kind] - before[kind]
	d.t.Logf("%s: %d requests for packages, %d for files", what, packages, files)
	if packages == 0 || files > resources/2 {
		d.t.Errorf("%s: %d requests for packages, %d for files; of %d resources most should come by packages", what, packages, files, resources)
	}
	return packages
}

// awaitChangeDump waits until each closed Change List is in the Change Dump. Nothing may change
// meanwhile.
func (d *dumped) awaitChangeDump() {
	d.t.Helper()
	const made = "a dump was made"
	for {
		d.notifier.mu.Lock()
		before := d.notifier.countLogged(made)
		d.notifier.mu.Unlock()
		if d.ends("changelist.xml") == d.ends("changedump.xml") {
			return
		}
		d.notifier.await("another part of the Change Dump", func() bool { return d.notifier.countLogged(made) > before })
	}
}

// ends is up to when the closed documents or packages of an index or a dump go.
func (d *dumped) ends(document string) (last string) {
	d.t.Helper()
	resp, err := http.Get(d.notifier.ready["url"] + "town/" + document)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return ""
	}
	for r := payload.NewReader(resp.Body, payload.Limits{}); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return last
		}
		if err != nil {
			d.t.Fatalf("%s: %v", document, err)
		}
		if e.Until != "" {
			last = e.Until
		}
	}
}

// census counts the contents below a directory, by their SHA-256.
func (d *dumped) census(dir string) map[string]int {
	d.t.Helper()
	all := map[string]int{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir // the mirror's own
		case entry.IsDir():
			return nil
		}
		text, err := os.ReadFile(name)
		all[fmt.Sprintf("sha-256:%x", sha256.Sum256(text))]++
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

// awaitHeard waits until the notifications add up to what the files have.
func (d *dumped) awaitHeard() {
	d.t.Helper()
	d.heard.await(d.t, d.census(d.dir))
}

// copyOf is one mirror of the directory.
type copyOf struct {
	d    *dumped
	name string
}

func (d *dumped) mirror(name string) *copyOf { return &copyOf{d, name} }

func (m *copyOf) dir() string { return filepath.Join(m.d.home, m.name) }

func (m *copyOf) args(command string, more ...string) []string {
	return append([]string{command, "--source", m.d.way.URL + "/", "--mirror", m.dir(), "--data", m.dir() + "-data"}, more...)
}

// compare compares all contents, and those of plain names name by name.
func (m *copyOf) compare(when string) {
	t := m.d.t
	t.Helper()
	want, got := m.d.census(m.d.dir), m.d.census(m.dir())
	missing, more := differences(want, got), differences(got, want)
	if missing+more > 0 {
		t.Errorf("%s, %s: %d contents are missing, and %d should not be there", m.name, when, missing, more)
	}
	host := strings.ReplaceAll(strings.TrimPrefix(m.d.way.URL, "http://"), ":", "+")
	wrong := 0
	for i := range m.d.files {
		for _, name := range []string{plainName(i), "new/" + plainName(i)} {
			want, err := os.ReadFile(filepath.Join(m.d.dir, name))
			got, err2 := os.ReadFile(filepath.Join(m.dir(), host, "town", "files", name))
			if (err == nil) == (err2 == nil) && bytes.Equal(want, got) {
				continue
			}
			if wrong++; wrong <= 5 {
				t.Errorf("%s, %s: the copy of %s has %d bytes (%v); the file has %d (%v)", m.name, when, name, len(got), err2, len(want), err)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%s, %s: %d copies are wrong", m.name, when, wrong)
	}
}

// differences counts what one has more of than the other.
func differences(one, other map[string]int) (n int) {
	for hash, count := range one {
		n += max(0, count-other[hash])
	}
	return n
}

// heard is a hub that records notifications, and does not relay them.
type heard struct {
	*httptest.Server
	mu      sync.Mutex
	changed chan struct{}     // guarded by mu: closed, and made anew, with each notification
	hashes  map[string]string // guarded by mu: by loc
}

func newHeard(t *testing.T) *heard {
	h := &heard{changed: make(chan struct{}), hashes: map[string]string{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.record(r.Body); err != nil {
			t.Errorf("a notification: %v", err)
		}
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *heard) record(body io.Reader) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := payload.NewReader(body, payload.Limits{}); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil // of a notifier that was killed, which sends it again
		}
		if err != nil {
			return err
		}
		if e.Change == payload.Deleted {
			delete(h.hashes, e.Loc)
			continue
		}
		h.hashes[strings.Clone(e.Loc)] = strings.Clone(e.Hash)
	}
	close(h.changed)
	h.changed = make(chan struct{})
	return nil
}

// await waits until the resources have these contents.
func (h *heard) await(t *testing.T, want map[string]int) {
	t.Helper()
	for late := time.After(10 * comesWithin); ; {
		h.mu.Lock()
		got, changed := map[string]int{}, h.changed
		for _, hash := range h.hashes {
			got[hash]++
		}
		h.mu.Unlock()
		missing, more := differences(want, got), differences(got, want)
		if missing+more == 0 {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the notifications never add up to the files: %d contents are missing, and %d are gone; of %d", missing, more, len(want))
		}
	}
}

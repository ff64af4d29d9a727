//go:build !race

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/payload"
)

// A process that is killed in the middle of a package goes on where it was: whole packages are not
// fetched again, and the unfinished one goes on by Range.
func TestKilledInAPackage(t *testing.T) {
	t.Parallel()
	// The server sends more than the buffers on the way hold, so that some of it was written.
	const files, parts, large, sent = 300, 3, 32 << 20, 30 << 20
	m, s := newDumper(t)
	for i := range files {
		s.put(fmt.Sprintf("/d%d/f%d-%d", i%7, i, i%parts), fmt.Sprint("text ", i))
	}
	for part := range parts {
		text := make([]byte, large) // that cannot be packed
		_, _ = rand.NewChaCha8([32]byte{byte(part)}).Read(text)
		s.put(fmt.Sprintf("/large%d", part), string(text))
	}
	s.snapshot()
	slices.SortFunc(s.listed, func(a, b payload.Entry) int { return strings.Compare(a.Loc[len(a.Loc)-1:], b.Loc[len(b.Loc)-1:]) })
	s.dump(parts)
	for part := range parts {
		name := fmt.Sprintf("/%d.zip", part)
		halfway := make(chan struct{})
		s.mu.Lock()
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != name {
				return false
			}
			if r.Header.Get("Range") != "" {
				t.Errorf("%s is asked for from %s, and was not begun", name, r.Header.Get("Range"))
			}
			s.mu.Lock()
			zip := s.zips[name]
			s.mu.Unlock()
			w.Header().Set("ETag", s.etag(zip))
			w.Header().Set("Content-Length", fmt.Sprint(len(zip)))
			_, _ = w.Write(zip[:sent])
			_ = http.NewResponseController(w).Flush()
			close(halfway)
			<-r.Context().Done()
			return true
		}
		s.mu.Unlock()
		cmd := exec.Command(
			filepath.Join(programs(t), "destination"), "baseline", "--source", m.shelf.URL,
			"--mirror", m.dir, "--data", m.data, "--min-free", "1B",
		)
		var logs strings.Builder
		cmd.Stdout, cmd.Stderr = &logs, &logs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-halfway:
		case err := <-ended:
			t.Fatalf("it ended before %s came: %v\n%s", name, err, &logs)
		case <-t.Context().Done():
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
		// From now on the package is served; the next is cut.
		s.mu.Lock()
		s.before = nil
		s.mu.Unlock()
	}
	out, logs := m.run("baseline", 0)
	if !strings.Contains(out, fmt.Sprintf("%d whole", files+parts)) {
		t.Errorf("%s%s", out, logs)
	}
	m.run("audit", 0)
	if n := s.gets(); n != 0 {
		t.Errorf("%d files were asked for by GET", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for part := range parts {
		asked := s.asked[fmt.Sprintf("/%d.zip", part)]
		ranges := 0
		for i, from := range asked {
			if (from == "") != (i == 0) {
				t.Errorf("package %d was asked for from %q", part, asked)
				break
			}
			if strings.HasPrefix(from, "bytes=") {
				ranges++
			}
		}
		// A process that was killed before it had taken a whole package asks whether that has changed:
		// each of the processes from the one that began the package asks for it once at most.
		if processes := parts + 1 - part; ranges != 1 || len(asked) > processes {
			t.Errorf("package %d was asked for from %q by %d processes", part, asked, processes)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"carillon/cmd/internal/program"
	"carillon/internal/house"
	"carillon/store/pebblestore"
)

// fullDisk is a disk that can be full.
type fullDisk struct {
	vfs.FS
	full atomic.Bool
	hit  atomic.Int64 // writes that found it full
}

func newFullDisk() *fullDisk {
	d := &fullDisk{}
	d.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpCreate, errorfs.OpFilePreallocate:
			if d.full.Load() {
				d.hit.Add(1)
				return syscall.ENOSPC
			}
		}
		return nil
	}))
	return d
}

// GetDiskUsage reports what is free.
func (d *fullDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	usage := vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40}
	if d.full.Load() {
		usage.AvailBytes = 0
	}
	return usage, nil
}

// TestFullDisk runs a whole hub on a disk that becomes full while it works: it answers 503
// with Retry-After, goes on to deliver what it has as far as its memory goes, and is as
// before when there is room, with nothing lost of what it acknowledged.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s, disk := newSink(t), newFullDisk()
	dir := filepath.Join(t.TempDir(), "store")
	hub, log, stop := houseOn(t, disk, dir)
	s.setHub(hub, 0)
	for i := range 3 {
		if status, text, err := subscribe(hub, s.topicURL("hosts"), s.callbackURL(fmt.Sprint(i)), nil); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %s %v", status, text, err)
		}
	}
	s.await(t, "the verifications", func() bool { return len(s.verified) == 3 })
	acknowledged := publishSome(t, hub, s, "before", 20)

	disk.full.Store(true)
	// The one that finds the disk full waits with it, and is answered when there is room.
	first := make(chan struct{})
	go func() {
		defer close(first)
		persist(t, "publishing first", func() (int, string, error) {
			return publish(hub, s.topicURL("hosts"), "text/plain", "first")
		}, http.StatusOK)
	}()
	eventually(t, "the disk to be full", func() bool { return disk.hit.Load() > 0 && strings.Contains(log.String(), "disk is full") })
	refusals := 0
	for i := range 20 {
		resp, err := http.DefaultClient.Do(publication(t, hub, s.topicURL("hosts"), fmt.Sprint("meanwhile ", i)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		switch {
		case resp.StatusCode == http.StatusOK:
			acknowledged = append(acknowledged, fmt.Sprint("meanwhile ", i))
		case resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "":
			t.Errorf("on a full disk: %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
		default:
			refusals++
		}
	}
	disk.full.Store(false)
	if refusals == 0 {
		t.Error("a full disk refused nothing")
	}
	persist(t, "publishing when there is room again", func() (int, string, error) {
		return publish(hub, s.topicURL("hosts"), "text/plain", "afterwards")
	}, http.StatusOK)
	<-first
	acknowledged = append(acknowledged, "afterwards", "first")
	s.await(t, "all that was acknowledged", func() bool {
		for i := range 3 {
			for _, body := range acknowledged {
				if !s.has(fmt.Sprint(i), body) {
					return false
				}
			}
		}
		return true
	})
	stop()
	if text := log.String(); !strings.Contains(text, "full") || strings.Contains(text, "panic") {
		t.Errorf("the log does not say what is the matter, or too much:\n%s", text)
	}
	t.Logf("full disk: %d acknowledged and delivered, %d refused with 503, %d writes found no room", len(acknowledged), refusals, disk.hit.Load())
	// The store on the disk is whole.
	hub, _, stop = houseOn(t, disk, dir)
	defer stop()
	s.setHub(hub, 0)
}

// houseOn runs a hub in this process, on a disk, until stop is called.
func houseOn(t *testing.T, disk vfs.FS, dir string) (hub string, log *logText, stop func()) {
	t.Helper()
	c := commands{Serve: serveCommand{open: openWith(house.Hooks{Pebble: func(c *pebblestore.Config) { c.FS = disk }})}}
	args := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:" + dir, "--retry-first", "100ms", "--retry-max", "1s"}
	if _, err := program.Read("hub", summary, &c, args, io.Discard); err != nil {
		t.Fatal(err)
	}
	log = &logText{}
	h, err := c.Serve.start(t.Context(), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- h.run(ctx, func() { close(ready) })
		h.close()
		close(ended)
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return h.url, log, func() {
		cancel()
		for err := range ended {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// publishSome publishes several bodies, all of which are taken.
func publishSome(t *testing.T, hub string, s *sink, what string, n int) (bodies []string) {
	t.Helper()
	for i := range n {
		bodies = append(bodies, fmt.Sprint(what, " ", i))
		if status, text, err := publish(hub, s.topicURL("hosts"), "text/plain", bodies[i]); err != nil || status != http.StatusOK {
			t.Fatalf("publishing: %d %s %v", status, text, err)
		}
	}
	return bodies
}

func publication(t *testing.T, hub, topic, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, hub, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hub))
	return req
}

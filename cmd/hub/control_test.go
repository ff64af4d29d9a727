package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/internal/engine"
	"carillon/operator/ask"
	"carillon/store/pebblestore"
)

// While a hub runs a command asks it; else the command opens the store. A hub that was
// killed leaves its socket, which the next replaces.
func TestControlSocket(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), strings.Repeat("deep/", 40))
	for name, dir := range map[string]string{"short": t.TempDir(), "longer than a socket's name": long} {
		t.Run(name, func(t *testing.T) {
			f := storeFlags{Store: "pebble:" + dir}
			args := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", f.Store}
			socket := filepath.Join(dir, pebblestore.ControlSocket)
			asks := func(online bool) {
				t.Helper()
				c, err := f.openClient(t.Context(), ask.Settings, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				if c.Online != online || c.Version == "" {
					t.Errorf("asked a running hub: %t, version %q; want %t", c.Online, c.Version, online)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			p := startHub(t, args...)
			asks(true)
			if info, err := os.Stat(socket); err != nil || info.Mode() != fs.ModeSocket|0o600 {
				t.Errorf("the socket: %v, %v; want mode 0600", info, err)
			}
			p.kill()
			if _, err := os.Stat(socket); err != nil {
				t.Errorf("a hub that was killed has left no socket: the test does not test what it says: %v", err)
			}
			asks(false)
			p = startHub(t, args...)
			asks(true)
			if err := p.stop(t); err != nil {
				t.Errorf("%v\n%s", err, p.log)
			}
			for _, left := range list(t, dir) {
				if left == pebblestore.ControlSocket || strings.HasSuffix(left, pebblestore.ScratchSuffix) {
					t.Errorf("a hub that ended has left %s", left)
				}
			}
			asks(false)
		})
	}
}

// list returns the names in a directory.
func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// A store that is in use by what answers no commands is one line.
func TestControlOfNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := pebblestore.Open(pebblestore.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := storeFlags{Store: "pebble:" + dir}
	ask := func() string {
		t.Helper()
		_, err := f.openClient(t.Context(), ask.Settings, slog.New(slog.DiscardHandler))
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Fatalf("it says %v; want one line", err)
		}
		return err.Error()
	}
	const want = "no hub answers commands there"
	if said := ask(); !strings.Contains(said, want) {
		t.Errorf("without a socket it says %q", said)
	}
	socket, err := engine.Socket(dir).Listen()
	if err != nil {
		t.Fatal(err)
	}
	if err := socket.Close(); err != nil {
		t.Fatal(err)
	}
	if said := ask(); !strings.Contains(said, want) {
		t.Errorf("with a socket that nobody listens at it says %q", said)
	}
}

// A wrong request, or one that an older hub does not know, gets an error that names the fault.
func TestControlRefusals(t *testing.T) {
	t.Parallel()
	c, err := (&storeFlags{Store: "pebble:" + t.TempDir()}).openClient(t.Context(), ask.Settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Stream(t.Context(), http.MethodGet, "/of-tomorrow", nil)
	if err == nil || !strings.Contains(err.Error(), "does not know this command") {
		t.Errorf("a path of a later version: %v", err)
	}
	_, err = c.Stream(t.Context(), http.MethodPost, "/version", nil)
	if refused, is := errors.AsType[ask.Refused](err); !is || refused.Status != http.StatusMethodNotAllowed {
		t.Errorf("another method: %v", err)
	}
}

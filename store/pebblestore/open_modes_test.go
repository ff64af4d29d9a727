//go:build unix

package pebblestore_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"carillon/store/pebblestore"
)

// TestFilesOfOthers: opening the store takes read permission on its files from other users, with one
// log line; the directory keeps its owner's permissions.
func TestFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open := func() string {
		var log bytes.Buffer
		db, err := pebblestore.Open(pebblestore.Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		closeDB(t, db)
		return log.String()
	}
	all := func() []os.DirEntry {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) < 5 {
			t.Fatalf("%v, error %v", entries, err)
		}
		return entries
	}
	defer syscall.Umask(syscall.Umask(0o077)) // as a program has it (cmd/internal/program)
	open()
	for _, entry := range all() {
		if err := os.Chmod(filepath.Join(dir, entry.Name()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const told = "other users could read"
	if log := open(); strings.Count(log, told) != 1 {
		t.Errorf("logged %s; want one warning", log)
	}
	for _, entry := range all() {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, error %v; want mode 0600", entry.Name(), info, err)
		}
	}
	if log := open(); strings.Contains(log, told) {
		t.Errorf("logged %s; there was nothing to close any more", log)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory: %v, error %v; it was 0755", info.Mode(), err)
	}
}

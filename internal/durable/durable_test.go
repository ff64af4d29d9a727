package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"carillon/internal/durable"
)

var errDisk = errors.New("the disk is full")

// TestWriteFile checks that a file has the new content after success and the old content after
// an error, and that nothing else is left in the directory.
func TestWriteFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(name+durable.Suffix, []byte("what a crash has left"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text, want string
		err        error
	}{
		{"first", "first", nil},
		{"second, and longer", "second, and longer", nil},
		{"half", "second, and longer", errDisk},
		{"3", "3", nil},
	} {
		err := durable.WriteFile(name, func(to io.Writer) error {
			if _, err := io.WriteString(to, step.text); err != nil {
				return err
			}
			return step.err
		})
		if !errors.Is(err, step.err) {
			t.Fatalf("writing %q: %v, want %v", step.text, err, step.err)
		}
		if text, err := os.ReadFile(name); err != nil || string(text) != step.want {
			t.Fatalf("after writing %q the file has %q, want %q: %v", step.text, text, step.want, err)
		}
		all, err := os.ReadDir(filepath.Dir(name))
		if err != nil || len(all) != 1 {
			t.Fatalf("after writing %q the directory has %v: %v", step.text, all, err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("the file has the mode %v: %v", info.Mode(), err)
		}
	}
	if err := durable.WriteFile(filepath.Join(name, "below a file"), func(io.Writer) error { return nil }); err == nil {
		t.Error("a file was written below a file")
	}
}

// TestSyncDirectory checks that a directory that is missing is an error.
func TestSyncDirectory(t *testing.T) {
	if err := durable.SyncDirectory(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := durable.SyncDirectory(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}

//go:build unix

package program_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"carillon/cmd/internal/program"
)

// TestOwnFilesOnly: files of a program are for its user only, for any umask at its start.
func TestOwnFilesOnly(t *testing.T) {
	before := syscall.Umask(0o022)
	defer syscall.Umask(before)
	dir := t.TempDir()
	file, directory := filepath.Join(dir, "file"), filepath.Join(dir, "directory")
	code := program.Main(func(context.Context, []string, io.Writer, io.Writer) int {
		if err := errors.Join(os.WriteFile(file, nil, 0o666), os.Mkdir(directory, 0o777)); err != nil {
			t.Error(err)
		}
		return 3
	})
	if code != 3 {
		t.Errorf("status %d", code)
	}
	for name, want := range map[string]os.FileMode{file: 0o600, directory: 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, error %v; want mode %o", name, info.Mode(), err, want)
		}
	}
}

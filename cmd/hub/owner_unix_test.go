//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDirectoryOfAnother: as root no command makes a store in another user's directory,
// nor below it, and none says that it has. Other users may not make such a directory.
func TestDirectoryOfAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chown(dir, 1234, 1234); err != nil {
		t.Logf("as root only: %v", err)
		return
	}
	for _, where := range []string{dir, filepath.Join(dir, "new")} {
		code, _, stderr := runCommand(t.Context(), "source", "add", "a", "--topic-prefix", "https://a.example/", "--store", "pebble:"+where)
		if code == 0 || !strings.Contains(stderr, "belongs to the user 1234") || strings.Contains(stderr, "there was no store") {
			t.Errorf("%s: status %d, stderr %q", where, code, stderr)
		}
	}
	if left := list(t, dir); len(left) > 0 {
		t.Errorf("it has made %q", left)
	}
}

package archive_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/notifier/archive"
)

// Files of a file system that gives no links of them are copied.
func TestLinkOrCopy(t *testing.T) {
	const elsewhere = "/proc/self"
	text, err := os.ReadFile(filepath.Join(elsewhere, "status"))
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := strings.Cut(string(text), "\n") // the rest changes
	dir := filepath.Join(t.TempDir(), "linked")
	if err := archive.Link(t.Context(), dir, elsewhere, "status"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "status")); err != nil || !strings.HasPrefix(string(got), want+"\n") {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if err := archive.Link(t.Context(), dir+"2", elsewhere, "status", "no such file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v of a file that is not there", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := archive.Link(stopped, dir+"3", elsewhere, "status"); !errors.Is(err, context.Canceled) {
		t.Errorf("a copy whose context has ended: %v", err)
	}
}

package machine_test

import (
	"os"
	"path/filepath"
	"testing"

	"carillon/internal/machine"
)

// TestNearestDirectory: the owner of a directory that is to be made is that of the
// nearest one that is there.
func TestNearestDirectory(t *testing.T) {
	there := t.TempDir()
	for _, dir := range []string{there, filepath.Join(there, "new"), filepath.Join(there, "new", "newer")} {
		if got, info, err := machine.NearestDirectory(dir); got != there || err != nil || !info.IsDir() {
			t.Errorf("%s: %s, %v, error %v; want %s", dir, got, info, err, there)
		}
	}
}

// TestExposedDirectory: a file that every user may read is reported where every user reaches it.
func TestExposedDirectory(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		dir, file os.FileMode
		warnings  int
	}{{0o700, 0o600, 0}, {0o700, 0o644, 0}, {0o755, 0o600, 0}, {0o755, 0o644, 1}} {
		if err := os.Chmod(dir, at.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, at.file); err != nil {
			t.Fatal(err)
		}
		if got := machine.ExposedDirectory("Store", dir); len(got) != at.warnings {
			t.Errorf("%o in %o: %q", at.file, at.dir, got)
		}
	}
}

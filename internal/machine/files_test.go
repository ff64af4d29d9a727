package machine_test

import (
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

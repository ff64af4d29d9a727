package dump_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// Where the disk is full no dump is made, and nothing of it is left; when there is room again one is.
func TestDiskFull(t *testing.T) {
	w := newWorld(t, notifier.Config{}, dump.Config{})
	for i := range 10 {
		w.put(fmt.Sprint(i), noise(uint64(i), 100<<10), payload.Created)
	}
	for _, name := range []string{"members.temp", "manifest.temp", "manifest.packed.temp", "1.zip.temp", "1.json.temp", "generation.json.temp"} {
		w.shelf.trouble(func(_ context.Context, opened string, _ int) error {
			if opened != loc("0") {
				return nil
			}
			making, err := filepath.Glob(filepath.Join(w.dir, "default", "resource", "*.making"))
			if err == nil && len(making) == 1 {
				err = os.Symlink("/dev/full", filepath.Join(making[0], name))
			}
			return err
		})
		if a := w.ask(); !strings.Contains(a.Error, "no space left") {
			t.Errorf("%s: %+v", name, a)
		}
		if left := w.files(); len(left) > 0 {
			t.Errorf("%s: %v are left", name, left)
		}
	}
	w.shelf.trouble(nil)
	if a := w.ask(); a.Error != "" {
		t.Error(a.Error)
	}
}

// Where the disk is nearly full no dump is begun: it would take what the journal needs.
func TestDiskNearlyFull(t *testing.T) {
	w := newWorld(t, notifier.Config{ChangeListEntries: 1}, dump.Config{})
	w.put("a", "a1", payload.Created)
	<-w.changed
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	w.dumps.MinFree = 1 << 62
	w.restart()
	w.put("b", "b1", payload.Created)
	if a := w.ask(); !strings.Contains(a.Error, "nearly full") || !strings.Contains(a.Error, "--dump-bytes") {
		t.Errorf("%+v", a)
	}
	w.log.await("kind=change error=\"the disk is nearly full")
	for _, path := range []string{"default/resourcedump.xml", "default/changedump.xml"} {
		if d := w.document(path); len(d.packages) != 1 {
			t.Errorf("%s: %+v", path, d.packages)
		}
	}
	w.counted()
}

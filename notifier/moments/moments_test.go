package moments_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"carillon/notifier/moments"
)

// TestDirectories checks that List reports what was begun and finished, oldest first, and nothing
// that is named otherwise.
func TestDirectories(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	if all, err := moments.List(dir); err != nil || len(all) > 0 {
		t.Errorf("in a directory that does not exist: %v, %v", all, err)
	}
	at := time.Date(2026, 3, 1, 9, 0, 0, 17_000, time.UTC)
	var want []moments.Found
	for i := range 4 {
		f := moments.Found{At: at.Add(time.Duration(i) * time.Microsecond), Whole: i%2 == 0}
		var err error
		if f.Path, err = moments.Begin(root, dir, f.At.In(time.FixedZone("", 3600))); err != nil {
			t.Fatal(err)
		}
		if f.Whole {
			if f.Path, err = moments.Finish(f.Path); err != nil {
				t.Fatal(err)
			}
		}
		want = append(want, f)
	}
	for _, other := range []string{"x", "20260301T090000Z", moments.Name(at) + ".temp"} {
		if err := os.Mkdir(filepath.Join(dir, other), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, moments.Name(at.Add(time.Hour)))
	if err := os.WriteFile(file, []byte(`{"a": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := moments.List(dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %+v, want %+v", err, got, want)
	}
	var is struct{ A int }
	if err := moments.ReadJSON(file, 8, &is); err != nil || is.A != 1 {
		t.Errorf("%+v, %v", is, err)
	}
	if err := moments.ReadJSON(file, 7, &is); err == nil || !strings.Contains(err.Error(), "more than 7 bytes") {
		t.Errorf("a file that is too large: %v", err)
	}
}

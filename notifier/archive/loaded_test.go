package archive_test

import (
	"errors"
	"strconv"
	"testing"

	"carillon/notifier/archive"
)

// TestLoaded: a document is read once while it is in use, an error each time.
func TestLoaded(t *testing.T) {
	var kept archive.Loaded[string]
	reads := 0
	get := func(dir string) {
		t.Helper()
		got, err := kept.Get(dir, func(dir string) (string, error) {
			reads++
			return "of " + dir, nil
		})
		if err != nil || got != "of "+dir {
			t.Fatalf("%s: %q, %v", dir, got, err)
		}
	}
	wrong := errors.New("wrong")
	for range 2 {
		if _, err := kept.Get("0", func(string) (string, error) { reads++; return "", wrong }); err != wrong {
			t.Fatal(err)
		}
	}
	if reads != 2 {
		t.Fatalf("after two errors there were %d reads", reads)
	}
	for n := range 40 {
		get("0") // which stays in use
		get(strconv.Itoa(n))
	}
	if reads != 2+40 {
		t.Errorf("40 documents were read %d times", reads-2)
	}
	if get("1"); reads != 2+41 {
		t.Error("a document that was not in use for long is still kept")
	}
}

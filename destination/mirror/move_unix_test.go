//go:build unix

package mirror_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"carillon/destination/mirror"
)

// A named pipe in the place of a directory fails what goes there, and holds up nothing.
func TestPipeInPlaceOfADirectory(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	if err := os.MkdirAll(filepath.Join(c.dir, c.host), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(c.dir, c.host, "dir"), 0o600); err != nil {
		t.Fatal(err)
	}
	through, beside := s.put("/dir/a", "one"), s.put("/b", "two")
	c.handle(through, beside)
	c.is(through.Loc, mirror.Failed, "not a directory")
	c.want("b", "two")
	c.nothingHalf()
}

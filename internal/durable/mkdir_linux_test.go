package durable_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"carillon/internal/durable"
)

// opened watches directories, and returns which of them were opened since: a directory is opened to
// make its names durable.
func opened(t *testing.T, dirs ...string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	byWatch := map[int]string{}
	for _, dir := range dirs {
		watch, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN)
		if err != nil {
			t.Fatal(err)
		}
		byWatch[watch] = dir
	}
	return func() (all []string) {
		events := make([]byte, 1<<16)
		n, err := unix.Read(fd, events)
		if err != nil {
			t.Fatal(err)
		}
		for events = events[:n]; len(events) > 0; {
			watch := int(binary.NativeEndian.Uint32(events))
			name := int(binary.NativeEndian.Uint32(events[12:]))
			if dir := byWatch[watch]; name == 0 && !slices.Contains(all, dir) { // not something in it
				all = append(all, dir)
			}
			events = events[unix.SizeofInotifyEvent+name:]
		}
		return all
	}
}

// TestMkdirAll checks that each name of a new directory is made durable: all directories from its
// parent up to root are synced, also if they were there before.
func TestMkdirAll(t *testing.T) {
	root := t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "a", "b")
	if err := os.MkdirAll(b, 0o700); err != nil {
		t.Fatal(err)
	}
	synced := opened(t, root, a, b)
	dir := filepath.Join(b, "c")
	for range 2 {
		if err := durable.MkdirAll(root, dir); err != nil {
			t.Fatal(err)
		}
		if got := synced(); !slices.Equal(got, []string{b, a, root}) {
			t.Errorf("synced were %v", got)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := durable.MkdirAll(root, root); err != nil {
		t.Error(err)
	}
	for _, elsewhere := range []string{filepath.Dir(root), filepath.Join(root, "..", "x")} {
		if err := durable.MkdirAll(root, elsewhere); err == nil {
			t.Errorf("%s was made, which is not below %s", elsewhere, root)
		}
	}
}

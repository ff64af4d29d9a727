package dump_test

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// TestDirectoryOfASet checks that the directory of a set, which its first dump makes, has a durable
// name: the directory above is opened for that.
func TestDirectoryOfASet(t *testing.T) {
	w := newWorld(t, notifier.Config{}, dump.Config{})
	w.put("a", "a1", payload.Created)
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, w.dir, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	events := make([]byte, 1<<16)
	n, _ := unix.Read(fd, events) // an error means no events
	for events = events[:max(n, 0)]; len(events) > 0; {
		name := int(binary.NativeEndian.Uint32(events[12:]))
		if name == 0 { // the directory itself, and not one in it
			return
		}
		events = events[unix.SizeofInotifyEvent+name:]
	}
	t.Errorf("%s was not synced", w.dir)
}

package dump_test

import (
	"fmt"
	"strings"
	"testing"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// TestRoomAfterFailure checks that a dump that did not fit leaves nothing on the disk and nothing
// in the count: the same set fits once it has become smaller.
func TestRoomAfterFailure(t *testing.T) {
	t.Parallel()
	// The members fit into the room, the package that is made of them does not fit beside them.
	w := newWorld(t, notifier.Config{}, dump.Config{PackageBytes: 2 << 20, Bytes: 2 << 20})
	for i := range 6 {
		w.put(fmt.Sprint(i), noise(uint64(i), 200<<10), payload.Created)
	}
	for range 3 {
		if a := w.ask(); !strings.Contains(a.Error, "--dump-bytes") {
			t.Fatalf("%+v", a)
		}
	}
	want := map[string]string{}
	for i := range 6 {
		want[loc(fmt.Sprint(i))] = noise(uint64(i), 100)
		w.put(fmt.Sprint(i), want[loc(fmt.Sprint(i))], payload.Updated)
	}
	if a := w.ask(); a.Error != "" {
		t.Fatalf("%+v", a)
	}
	w.same(w.dumped(w.document("default/resourcedump.xml")), want)
	w.stop()
	w.counted()
}

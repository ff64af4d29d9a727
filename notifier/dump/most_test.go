package dump_test

import (
	"fmt"
	"strings"
	"testing"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// TestMostPackages checks that no dump has more packages than a document can list: such a Resource
// Dump is refused, before anything is packed where that can be known, and the Change Dump drops its
// oldest part.
func TestMostPackages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{ChangeListEntries: 1}, dump.Config{
		Packages: 3, PackageEntries: 2, PackageBytes: 1 << 20,
	})
	for i := range 5 {
		w.put(fmt.Sprint(i), fmt.Sprint(i), payload.Created)
		<-w.changed
	}
	const dropped = "as a document can list no more packages"
	w.log.await(dropped)
	w.put("5", "5", payload.Created)
	<-w.changed
	if a := w.ask(); a.Error != "" {
		t.Fatal(a.Error)
	}
	before := w.document("default/resourcedump.xml")
	if len(before.packages) != 3 {
		t.Errorf("6 resources in packages of 2 are in %d", len(before.packages))
	}
	w.put("6", "6", payload.Created)
	<-w.changed
	if a := w.ask(); !strings.Contains(a.Error, "more than 3 packages") || !strings.Contains(a.Error, "--dump-package-bytes") {
		t.Errorf("7 resources: %+v", a)
	}
	w.put("large", noise(1, 4<<20), payload.Created)
	<-w.changed
	w.shelf.mu.Lock()
	w.shelf.opened = map[string]int{}
	w.shelf.mu.Unlock()
	if a := w.ask(); !strings.Contains(a.Error, "allow packages of more than 13981") {
		t.Errorf("4 MiB in packages of 1 MiB: %+v", a)
	}
	w.shelf.mu.Lock()
	if len(w.shelf.opened) > 0 {
		t.Errorf("%v were packed before that was refused", w.shelf.opened)
	}
	w.shelf.mu.Unlock()
	w.same(w.dumped(w.document("default/resourcedump.xml")), w.dumped(before))
	w.stop()
	w.start()
	changes := w.document("default/changedump.xml")
	if n := len(changes.packages); n != 3 || !strings.Contains(w.log.String(), dropped) {
		t.Errorf("the Change Dump has %d packages\n%s", n, w.log)
	}
}

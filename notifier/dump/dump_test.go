package dump_test

import (
	"testing"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

func TestResourceDump(t *testing.T) {
	w := newWorld(t, notifier.Config{}, dump.Config{})
	w.put("a", "first", payload.Created)
	w.put("empty", "", payload.Created)
	a := w.ask()
	if a.Error != "" || a.Entries != 2 {
		t.Fatalf("%+v", a)
	}
	d := w.document("default/resourcedump.xml")
	t.Logf("%+v", d)
	t.Logf("%q", w.dumped(d))
	t.Log(w.files())
}

package dump_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// inWords are the entries of a manifest, in few words.
func inWords(u unpacked) (all []string) {
	for _, e := range u.manifest.packages {
		one := strings.TrimPrefix(e.Loc, loc("")) + " " + string(e.Change)
		if e.Path != "" {
			one += " " + u.content[e.Path]
		}
		all = append(all, one)
	}
	return all
}

// The package of a Change List has each of its changes in order, with what the resource was at the
// end; deletions have no path, and what the same list has deleted later is left out.
func TestChangeDump(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{ChangeListEntries: 8}, dump.Config{})
	w.put("a", "a1", payload.Created)
	w.put("b", "b1", payload.Created)
	w.put("a", "a2", payload.Updated)
	w.put("c", "c1", payload.Created)
	w.put("b", "", payload.Deleted)
	w.put("c", "", payload.Deleted)
	w.put("c", "c2", payload.Created)
	w.shelf.put(loc("a"), "a3") // without an event yet
	w.put("d", "d1", payload.Created)
	g := <-w.changed
	d := w.document("default/changedump.xml")
	if d.header.Capability != payload.CapChangeDump || !d.header.FromTime.Equal(g.From) || d.header.Until != "" || len(d.packages) != 1 {
		t.Fatalf("%+v", d)
	}
	p := d.packages[0]
	_, file := w.get(p.Loc)
	u := open(t, file)
	want := []string{"a created a3", "a updated a3", "c created c2", "b deleted", "c deleted", "c created c2", "d created d1"}
	if fmt.Sprint(inWords(u)) != fmt.Sprint(want) {
		t.Errorf("entries %q\nwant %q", inWords(u), want)
	}
	if len(u.content) != 3 {
		t.Errorf("%d members", len(u.content))
	}
	if u.manifest.header.Capability != payload.CapChangeDumpManifest || u.manifest.header.From != p.From || u.manifest.header.Until != p.Until || p.Until == "" {
		t.Errorf("the manifest is %+v, the package %+v", u.manifest.header, p)
	}
	if got := w.dumped(d); len(got) != 3 {
		t.Errorf("%q", got)
	}
	for i := range 8 {
		w.put(fmt.Sprint(i), "x", payload.Created)
	}
	<-w.changed
	d = w.document("default/changedump.xml")
	if len(d.packages) != 2 || d.packages[1].From != d.packages[0].Until {
		t.Errorf("%+v", d.packages)
	}
	w.restart()
	if again := w.document("default/changedump.xml"); fmt.Sprint(again) != fmt.Sprint(d) {
		t.Errorf("after a restart\n%v\nwant\n%v", again, d)
	}
}

// A list that is too large for one package has several, which follow one another; a resource of both
// has its content in both.
func TestSplitChangeDump(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{ChangeListEntries: 30}, dump.Config{PackageEntries: 7})
	want := map[string]string{}
	for i := range 30 {
		name, change := fmt.Sprint(i%10), payload.Updated
		if i < 10 {
			change = payload.Created
		}
		text := fmt.Sprintf("%d of %d", i, i%10)
		w.put(name, text, change)
		want[loc(name)] = text
	}
	g := <-w.changed
	d := w.document("default/changedump.xml")
	if len(d.packages) != 5 || len(g.Packages) != 5 {
		t.Fatalf("%d packages", len(d.packages))
	}
	w.same(w.dumped(d), want)
	for i, p := range d.packages[1:] {
		if p.From != d.packages[i].Until {
			t.Errorf("package %d is from %s, the one before until %s", i+2, p.From, d.packages[i].Until)
		}
	}
	if d.packages[4].Until != payload.FormatDatetime(g.Until) || d.packages[0].From != payload.FormatDatetime(g.From) {
		t.Errorf("%+v of %s to %s", d.packages, g.From, g.Until)
	}
}

// Where there is no room for a part, the oldest go: the rest has no gap.
func TestChangeDumpRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{ChangeListEntries: 2}, dump.Config{PackageBytes: 1 << 20, Bytes: 1 << 20})
	for i := range 8 {
		w.put(fmt.Sprint(i), noise(uint64(i), 150<<10), payload.Created)
		if i%2 == 1 {
			<-w.changed
		}
	}
	d := w.document("default/changedump.xml")
	if len(d.packages) == 0 || len(d.packages) == 4 || !strings.Contains(w.log.String(), "dropped before its time") {
		t.Fatalf("%d packages; the log:\n%s", len(d.packages), w.log)
	}
	if got := w.dumped(d); got[loc("7")] != noise(7, 150<<10) {
		t.Errorf("the newest is not there: %d resources", len(got))
	}
}

// A resource may be deleted after its Change List was closed, and before that was packed. The Change
// Dump goes on, although such a list has no content.
func TestDeletedBeforeItsListIsPacked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{ChangeListEntries: 2}, dump.Config{})
	w.tell(entry("a", "a1", payload.Created), entry("b", "b1", payload.Created),
		entry("a", "", payload.Deleted), entry("b", "", payload.Deleted))
	first, second := <-w.changed, <-w.changed
	if first.Entries() != 0 || first.LeftOut[dump.Deleted] != 2 {
		t.Errorf("the first part has %d entries; left out: %v", first.Entries(), first.LeftOut)
	}
	d := w.document("default/changedump.xml")
	if len(d.packages) != 2 || !second.From.Equal(first.Until) {
		t.Fatalf("%+v", d.packages)
	}
	_, file := w.get(d.packages[1].Loc)
	if got, want := fmt.Sprint(inWords(open(t, file))), "[a deleted b deleted]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A part that lacks most of its content waits for it, and not for ever: the next parts would wait too.
func TestChangeDumpWaitsForContentOnlySoLong(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	w := newWorld(t, notifier.Config{ChangeListEntries: 2, Now: now}, dump.Config{Every: time.Hour})
	w.put("a", "a1", payload.Created)
	w.put("b", "b1", payload.Created)
	first := <-w.changed
	w.tell(entry("c", "c1", payload.Created), entry("d", "d1", payload.Created))
	w.put("e", "e1", payload.Created)
	w.put("f", "f1", payload.Created)
	w.log.await("more than half")
	if d := w.document("default/changedump.xml"); len(d.packages) != 1 {
		t.Errorf("%+v", d.packages)
	}
	ahead.Store(int64(2 * time.Hour))
	w.restart()
	if second := <-w.changed; !second.From.Equal(first.Until) || second.Entries() != 0 || second.LeftOut[dump.Missing] != 2 {
		t.Errorf("the second part has %d entries; left out: %v", second.Entries(), second.LeftOut)
	}
	if third := <-w.changed; third.Entries() != 2 {
		t.Errorf("the third part has %d entries", third.Entries())
	}
}

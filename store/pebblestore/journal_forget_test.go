package pebblestore_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/store/pebblestore"
)

// round appends an event, seals a notification of it, accepts that, closes its list and
// reads on, as a notifier does all day. Lists and events of a second ago are let go.
func round(t *testing.T, j *pebblestore.Journal, now time.Time) {
	t.Helper()
	ch, err := j.Open(t.Context(), "a", now)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(t.Context(), []notifier.Event{journaltest.Created("http://a.example/", "a")}, now); err != nil {
		t.Fatal(err)
	}
	n := notifier.Notification{Set: "a", From: ch.Next, Until: now.Add(time.Millisecond), Entries: 1}
	if err := j.Seal(t.Context(), n, []byte("bytes")); err != nil {
		t.Fatal(err)
	}
	if err := j.Accept(t.Context(), n, now.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	endList(t, j, n.Until)
	for _, err := range j.Events(t.Context(), "a", n.Until) {
		t.Errorf("an event, %v; none is left to read", err)
	}
}

// endList closes the open list and forgets those of a second ago.
func endList(t *testing.T, j *pebblestore.Journal, until time.Time) {
	t.Helper()
	lists, err := j.ChangeLists(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	l := lists[len(lists)-1]
	l.Until, l.Entries, l.Closed = until, 1, until
	if err := j.CloseList(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := j.DropLists(t.Context(), "a", until.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
}

// TestJournalStaysQuick: removed records do not slow down reads.
func TestJournalStaysQuick(t *testing.T) {
	j := journalOn(t, vfs.NewMem())
	defer j.Close()
	now := journalEpoch
	one := func() {
		now = now.Add(100 * time.Millisecond)
		round(t, j, now)
	}
	first := testing.AllocsPerRun(20, one)
	for range 3000 {
		one()
	}
	if late := testing.AllocsPerRun(20, one); late > 2*first {
		t.Errorf("a round allocates %v times in the beginning and %v times after 3,000", first, late)
	}
	left := 0
	for _, err := range j.Events(t.Context(), "a", time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		left++
	}
	if most := 610 + 20; left > most { // a minute's, and those of the second that is kept
		t.Errorf("%d events are left, want at most %d", left, most)
	}
}

// TestJournalKeepsNoOldBytes: no bytes stay but those of the notification accepted
// last, also where a process ended between the acceptance and what follows.
func TestJournalKeepsNoOldBytes(t *testing.T) {
	fs := vfs.NewMem()
	j := journalOn(t, fs)
	for i := range 5 {
		round(t, j, journalEpoch.Add(time.Duration(i)*time.Second))
	}
	if got := pebblestore.JournalBodies(j); got != 1 {
		t.Errorf("%d pieces of notifications are kept, want 1", got)
	}
	ch, err := j.Open(t.Context(), "a", journalEpoch)
	if err != nil {
		t.Fatal(err)
	}
	old := *ch.Accepted
	old.From = old.From.Add(-time.Hour)
	pebblestore.LeaveJournalBody(j, old, []byte("left behind"))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = journalOn(t, fs)
	defer j.Close()
	if got := pebblestore.JournalBodies(j); got != 1 {
		t.Errorf("after a start %d pieces of notifications are kept, want 1", got)
	}
}

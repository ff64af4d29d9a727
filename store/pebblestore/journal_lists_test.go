package pebblestore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/store/pebblestore"
)

// toLayout1 makes of the journal on the disk what a program of before would have left:
// without Change Lists, and without the events before keepFrom.
func toLayout1(t *testing.T, disk vfs.FS) {
	t.Helper()
	withPebble(t, disk, "journal", func(db *pebble.DB) error {
		return errors.Join(
			db.DeleteRange([]byte{0x44}, []byte{0xff}, pebble.Sync),
			db.Set([]byte("\x00format"), []byte("\x01\x11carillon notifier\x01"), pebble.Sync),
		)
	})
}

// TestJournalOfLayout1: its sets begin an open Change List with the first event that
// they have left, or where their notifications end, once and for all.
func TestJournalOfLayout1(t *testing.T) {
	disk := vfs.NewMem()
	j := journalOn(t, disk)
	ch, err := j.Open(t.Context(), "a", journalEpoch)
	if err != nil {
		t.Fatal(err)
	}
	accepted := notifier.Notification{Set: "a", From: ch.Next, Until: journalEpoch.Add(time.Hour)}
	for i := range 3 {
		now := journalEpoch.Add(time.Duration(i+1) * time.Minute)
		err = errors.Join(err, j.Append(t.Context(), []notifier.Event{journaltest.Created(fmt.Sprint("http://a.example/", i), "a")}, now))
	}
	_, opened := j.Open(t.Context(), "b", journalEpoch.Add(2*time.Hour))
	err = errors.Join(
		err, opened, j.Seal(t.Context(), accepted, nil),
		// So that Accept lets the first event go, as without lists.
		j.CloseList(t.Context(), notifier.ChangeList{Set: "a", From: ch.Next, Until: accepted.Until}),
		j.DropLists(t.Context(), "a", accepted.Until),
		j.Accept(t.Context(), accepted, journalEpoch.Add(2*time.Minute)), j.Close(),
	)
	if err != nil {
		t.Fatal(err)
	}
	toLayout1(t, disk)
	want := map[string]time.Time{"a": journalEpoch.Add(2 * time.Minute), "b": journalEpoch.Add(2 * time.Hour)}
	for range 2 {
		j = journalOn(t, disk)
		for set, from := range want {
			lists, err := j.ChangeLists(t.Context(), set)
			if err != nil || len(lists) != 1 || lists[0] != (notifier.ChangeList{Set: set, From: from}) {
				t.Errorf("the lists of %s are %+v, %v; want an open one from %s", set, lists, err, from)
			}
		}
		err := j.Append(t.Context(), []notifier.Event{journaltest.Created("http://a.example/", "a", "b")}, journalEpoch)
		if err := errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJournalOfLayout1IsMovedOnce: what its lists begin with is written down, as the events
// that tell it may go.
func TestJournalOfLayout1IsMovedOnce(t *testing.T) {
	disk := vfs.NewMem()
	j := journalOn(t, disk)
	_, err := j.Open(t.Context(), "a", journalEpoch)
	if err := errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	toLayout1(t, disk)
	if err := journalOn(t, disk).Close(); err != nil {
		t.Fatal(err)
	}
	withPebble(t, disk, "journal", func(db *pebble.DB) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{0x44}, UpperBound: []byte{0x45}})
		if err != nil {
			return err
		}
		if !it.First() {
			t.Error("no Change List was written down")
		}
		format, closer, err := db.Get([]byte("\x00format"))
		if err != nil || string(format) != "\x01\x11carillon notifier\x02" {
			t.Errorf("the format record is %q, %v", format, err)
		}
		return errors.Join(it.Close(), closer.Close())
	})
}

// TestJournalRefuses: what another layout, or damage, has made.
func TestJournalRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		key, value string
		want       error
		says       string
	}{
		"a newer layout": {"\x00format", "\x01\x11carillon notifier\x03", pebblestore.ErrNewer, "layout 3"},
		"a list of an unknown version": {
			"\x44a\x00\x00\x05\xd0\x00\x00\x00\x00\x00", "\x02\x00", pebblestore.ErrDamaged, "version 2",
		},
		"a list that nobody can have begun": {
			"\x44a\x00\x7f\x00\x00\x00\x00\x00\x00\x00", "\x01\x00", pebblestore.ErrDamaged, "does not follow",
		},
		"a list's key that is cut off": {"\x44a\x00\x7f", "\x01\x00", pebblestore.ErrDamaged, "4461007f"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			j := journalOn(t, disk)
			_, err := j.Open(t.Context(), "a", journalEpoch)
			if err := errors.Join(err, j.Close()); err != nil {
				t.Fatal(err)
			}
			withPebble(t, disk, "journal", func(db *pebble.DB) error {
				return db.Set([]byte(row.key), []byte(row.value), pebble.Sync)
			})
			_, err = pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: disk})
			if !errors.Is(err, row.want) || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %v with %q", err, row.want, row.says)
			}
		})
	}
}

// TestChangeListsWaitForTheSync: what is told of events and lists is not lost by a crash.
func TestChangeListsWaitForTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		gate := make(chan struct{})
		j := journalOn(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && isSync(op) && ofWAL(op) {
				<-gate
			}
			return nil
		})))
		defer j.Close()
		ch, err := j.Open(t.Context(), "a", journalEpoch)
		if err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		var calls sync.WaitGroup
		for _, call := range []func() error{
			func() error {
				return j.Append(t.Context(), []notifier.Event{journaltest.Created("http://a.example/", "a")}, journalEpoch)
			},
			func() error {
				_, err := j.Last(t.Context())
				return err
			},
			func() error {
				_, err := j.ChangeLists(t.Context(), "a")
				return err
			},
			func() error {
				return j.CloseList(t.Context(), notifier.ChangeList{Set: "a", From: ch.Next, Until: ch.Next.Add(time.Second)})
			},
		} {
			calls.Go(func() {
				if err := call(); err != nil {
					t.Error(err)
				}
				if armed.Load() {
					t.Error("a call returned before the sync")
				}
			})
			synctest.Wait() // the event is to be read by now
		}
		armed.Store(false)
		close(gate)
		calls.Wait()
	})
}

package pebblestore_test

import (
	"errors"
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

// TestJournalRefuses journals of another layout, and damaged ones.
func TestJournalRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		key, value string
		want       error
		says       string
	}{
		"a newer layout":  {"\x00format", "\x01\x11carillon notifier\x03", pebblestore.ErrNewer, "layout 3"},
		"an older layout": {"\x00format", "\x01\x11carillon notifier\x01", pebblestore.ErrOlder, "layout 1"},
		"a list of an unknown version": {
			"\x44a\x00\x00\x05\xd0\x00\x00\x00\x00\x00", "\x02\x00", pebblestore.ErrDamaged, "version 2",
		},
		"a list that nobody can have begun": {
			"\x44a\x00\x7f\x00\x00\x00\x00\x00\x00\x00", "\x01\x00", pebblestore.ErrDamaged, "does not follow",
		},
		"a set without lists":          {"\x44", "", pebblestore.ErrDamaged, "no open Change List"},
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
				if row.value == "" {
					return db.DeleteRange([]byte(row.key), []byte{row.key[0] + 1}, pebble.Sync)
				}
				return db.Set([]byte(row.key), []byte(row.value), pebble.Sync)
			})
			_, err = pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: disk})
			if !errors.Is(err, row.want) || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %v with %q", err, row.want, row.says)
			}
		})
	}
}

// TestChangeListsWaitForTheSync: a crash loses nothing that was reported of events and lists.
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

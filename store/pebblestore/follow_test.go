package pebblestore_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/destination/follow"
	"carillon/destination/follow/followtest"
	"carillon/store/pebblestore"
)

func TestFollowing(t *testing.T) {
	followtest.Run(t, func(t *testing.T) func() follow.Store {
		fs := vfs.NewCrashableMem()
		var store *pebblestore.Destination
		t.Cleanup(func() { _ = store.Close() })
		return func() follow.Store {
			if store != nil { // a power failure: writes without a sync are gone
				died := fs.CrashClone(vfs.CrashCloneCfg{})
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				fs = died
			}
			var err error
			if store, err = pebblestore.OpenDestination(pebblestore.Config{Dir: "d", FS: fs}); err != nil {
				t.Fatal(err)
			}
			return store.Following()
		}
	})
}

// A hub does not open a Destination's store, nor the other way round.
func TestDestinationDirectory(t *testing.T) {
	fs := vfs.NewMem()
	d, err := pebblestore.OpenDestination(pebblestore.Config{Dir: "d", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Following().Position(t.Context()); !errors.Is(err, follow.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := pebblestore.OpenJournal(pebblestore.Config{Dir: "d", FS: fs}); !errors.Is(err, pebblestore.ErrForeign) {
		t.Errorf("as a journal: %v", err)
	}
}

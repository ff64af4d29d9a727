package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/notifier/journaltest"
	"carillon/store/pebblestore"
)

func TestJournalResources(t *testing.T) {
	journaltest.RunResources(t, func(t *testing.T) journaltest.Place {
		fs := vfs.NewMem()
		return journalPlace(t, func() *pebblestore.Journal { return journalOn(t, fs) })
	})
}

// TestJournalResourcesCrashed runs the suite with a power failure in place of every close.
func TestJournalResourcesCrashed(t *testing.T) {
	journaltest.RunResources(t, func(t *testing.T) journaltest.Place {
		fs := vfs.NewCrashableMem()
		return journalPlace(t, func() *pebblestore.Journal {
			fs = fs.CrashClone(vfs.CrashCloneCfg{})
			return journalOn(t, fs)
		})
	})
}

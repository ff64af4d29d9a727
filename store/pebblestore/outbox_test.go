package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/destination/republish/republishtest"
	"carillon/store/pebblestore"
)

// Acknowledged changes survive a power failure: the end of each store is one.
func TestOutbox(t *testing.T) {
	disks := map[string]*vfs.MemFS{}
	republishtest.Outbox(t, func(t *testing.T) (republishtest.Store, func()) {
		fs := disks[t.Name()]
		if fs == nil {
			fs = vfs.NewCrashableMem()
		}
		d, err := pebblestore.OpenDestination(pebblestore.Config{Dir: "d", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		return republishtest.Store{Catalog: d.Mirrored(), Outbox: d.Outbox()}, func() {
			disks[t.Name()] = fs.CrashClone(vfs.CrashCloneCfg{})
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/destination/mirror"
	"carillon/destination/mirror/mirrortest"
	"carillon/store/pebblestore"
)

func openMirror(t *testing.T, fs vfs.FS) (*pebblestore.Destination, func()) {
	t.Helper()
	d, err := pebblestore.OpenDestination(pebblestore.Config{Dir: "destination", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	return d, func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMirrorCatalog(t *testing.T) {
	stores := map[string]vfs.FS{}
	mirrortest.Catalog(t, func(t *testing.T) (mirror.Catalog, func()) {
		if stores[t.Name()] == nil {
			stores[t.Name()] = vfs.NewMem()
		}
		d, closed := openMirror(t, stores[t.Name()])
		return d.Mirrored(), closed
	})
}

func TestMirrorLedger(t *testing.T) {
	d, closed := openMirror(t, vfs.NewMem())
	defer closed()
	mirrortest.Ledger(t, d.Ledger())
}

// What Save has acknowledged survives a crash; the directory is that of a follower too.
func TestMirrorAfterCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	d, closed := openMirror(t, fs)
	one := mirror.Copy{Loc: "http://a.test/1", Path: "a.test/1", State: mirror.Whole, File: &mirror.File{Size: 3}}
	if err := d.Mirrored().Save(t.Context(), []mirror.Copy{one}, nil); err != nil {
		t.Fatal(err)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	closed()
	d, closed = openMirror(t, crashed)
	defer closed()
	got, err := d.Mirrored().Copy(t.Context(), one.Loc)
	if err != nil || got.Path != one.Path || got.File == nil || got.File.Size != 3 {
		t.Errorf("after a crash: %+v, %v", got, err)
	}
	if owner, _, err := d.Mirrored().Owner(t.Context(), got.Claim()); err != nil || owner != one.Loc {
		t.Errorf("its path is of %q, %v", owner, err)
	}
}

package pebblestore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
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

// A store of a layout that was never released is refused, and stays as it is.
func TestMirrorOfAnOlderLayout(t *testing.T) {
	fs := vfs.NewMem()
	_, closed := openMirror(t, fs)
	closed()
	withPebble(t, fs, "destination", func(db *pebble.DB) error {
		return db.Set([]byte("\x00format"), []byte("\x01\x14carillon destination\x02"), pebble.Sync)
	})
	for range 2 {
		_, err := pebblestore.OpenDestination(pebblestore.Config{Dir: "destination", FS: fs})
		if !errors.Is(err, pebblestore.ErrOlder) || !strings.Contains(err.Error(), "layout 2; this one knows layout 3") {
			t.Errorf("got %v, want ErrOlder", err)
		}
	}
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

// Records of version 1 have no links. A store of this layout may hold them; they are read as they are.
func TestMirrorRecordsWithoutLinks(t *testing.T) {
	fs := vfs.NewMem()
	_, closed := openMirror(t, fs)
	closed()
	withPebble(t, fs, "destination", func(db *pebble.DB) error {
		told := "\x00\x00\x00\x03x:1\x011\x00\x00" // the change, the time, lastmod, hash, length, type, encoding
		return errors.Join(
			db.Set([]byte("\x58http://a.test/1"), []byte("\x01\x05a/one\x00"+told+"\x00\x00\x00\x00"), pebble.Sync),
			db.Set([]byte("\x5bhttp://a.test/1"), []byte("\x01"+told), pebble.Sync))
	})
	d, closed := openMirror(t, fs)
	defer closed()
	got, err := d.Mirrored().Copy(t.Context(), "http://a.test/1")
	if want := (mirror.Described{Hash: "x:1", Length: "1"}); err != nil || got.Path != "a/one" || got.Described != want {
		t.Errorf("%+v, %v", got, err)
	}
	for r, err := range d.Ledger().Resources(t.Context()) {
		if err != nil || r.Hash != "x:1" {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

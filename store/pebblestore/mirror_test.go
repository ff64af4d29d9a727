package pebblestore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

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

// A store of layout 1 has claims by another folding: they are made anew. Of two copies that have one
// claim now, one is fetched again, to a path of its own.
func TestMirrorClaimsOfLayout1(t *testing.T) {
	const stored, same = "a.test/\u1fb3\u05b0", "a.test/\u03b1\u05b0\u03b9"
	formerly := func(at string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(at))) }
	copies := []mirror.Copy{
		{Loc: "http://a.test/plain", Path: "a.test/plain", State: mirror.Whole, File: &mirror.File{Size: 1}},
		{Loc: "http://a.test/caf\u00e9", Path: "a.test/caf\u00e9", State: mirror.Whole, File: &mirror.File{Size: 2}},
		{Loc: "http://a.test/one", Path: stored, State: mirror.Whole, File: &mirror.File{Size: 3}},
		{Loc: "http://a.test/two", Path: same, State: mirror.Whole, File: &mirror.File{Size: 4}},
	}
	for name, count := range map[string]int{"alone": 3, "two of one claim": 4} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			d, closed := openMirror(t, fs)
			for _, c := range copies[:count] {
				if err := d.Mirrored().Save(t.Context(), []mirror.Copy{c}, nil); err != nil {
					t.Fatal(err)
				}
			}
			closed()
			withPebble(t, fs, "destination", func(db *pebble.DB) error {
				b := db.NewBatch()
				err := errors.Join(b.Delete([]byte("\x00claims"), nil), b.Set([]byte("\x00format"), []byte("\x01\x14carillon destination\x01"), nil))
				for _, c := range copies[:count] {
					err = errors.Join(err, b.Delete([]byte("\x59"+c.Claim()), nil))
				}
				for _, c := range copies[:count] {
					err = errors.Join(err, b.Set([]byte("\x59"+formerly(c.Path)), []byte(c.Loc), nil))
				}
				return errors.Join(err, b.Commit(pebble.Sync))
			})
			for range 2 {
				d, closed = openMirror(t, fs)
				for _, c := range copies[:3] {
					if c.Path == stored && count == 4 {
						continue
					}
					if owner, _, err := d.Mirrored().Owner(t.Context(), c.Claim()); err != nil || owner != c.Loc {
						t.Errorf("%+q is of %q, %v", c.Path, owner, err)
					}
				}
				if owner, _, err := d.Mirrored().Owner(t.Context(), formerly(stored)); err != nil || owner != "" {
					t.Errorf("the former claim is of %q, %v", owner, err)
				}
				due, _, err := d.Mirrored().Due(t.Context(), time.Now(), 10)
				if err != nil || len(due) != count-3 {
					t.Errorf("due are %+v, %v", due, err)
				}
				for _, c := range due {
					if c.Loc != "http://a.test/one" || c.Path != "" || c.File != nil || c.State != mirror.Failed {
						t.Errorf("due is %+v", c)
					}
				}
				closed()
			}
		})
	}
}

// Copies and the ledger of layout 2 have no links; they are read as they are.
func TestMirrorRecordsOfLayout2(t *testing.T) {
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
	if want := (mirror.Told{Hash: "x:1", Length: "1"}); err != nil || got.Path != "a/one" || got.Told != want {
		t.Errorf("%+v, %v", got, err)
	}
	for r, err := range d.Ledger().Resources(t.Context()) {
		if err != nil || r.Hash != "x:1" {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

package pebblestore_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/store/pebblestore"
)

// FuzzBackup: any stream is a backup, or there is an error that names the fault. A restore agrees, and
// leaves nothing of a refused stream.
func FuzzBackup(f *testing.F) {
	disk := vfs.NewMem()
	db, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: disk, MemTableBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	fillTwo(f, db)
	stream := backupOf(f, db)
	closeDB(f, db)
	f.Add(stream)
	f.Add(stream[:len(stream)/2])
	f.Add(bytes.Replace(stream, []byte("MANIFEST-"), []byte("../../../"), 1))
	f.Fuzz(func(t *testing.T, stream []byte) {
		info, err := pebblestore.VerifyBackup(t.Context(), bytes.NewReader(stream))
		target := vfs.NewMem()
		_, restored := restore(t, target, stream)
		if err != nil && (restored == nil || !known(err)) {
			t.Errorf("%+v is no backup: %v; and is restored: %v", info, err, restored)
		}
		if restored == nil {
			closeDB(t, openRestored(t, target))
			return
		}
		if left, err := target.List("."); err == nil {
			for _, name := range left {
				if name != "var" {
					t.Errorf("%s is left beside %s", name, backupDir)
				}
			}
		}
	})
}

// known reports whether an error names the fault of a backup.
func known(err error) bool {
	for _, k := range []error{pebblestore.ErrNoBackup, pebblestore.ErrBackupCutOff, pebblestore.ErrBackupDamaged, pebblestore.ErrNewer} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

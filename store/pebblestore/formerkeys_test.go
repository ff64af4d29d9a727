package pebblestore_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/transfer/transfertest"
)

// A store of layout 5 that has keys of an earlier form is refused and left as it is; an export
// of it goes into a store of this layout with nothing lost.
func TestFormerKeys(t *testing.T) {
	disk := vfs.NewMem()
	open := func(former bool) (*pebblestore.DB, error) {
		return pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: disk, FormerKeys: former})
	}
	format := func() (text string) {
		withPebble(t, disk, "var/store", func(db *pebble.DB) error {
			value, closer, err := db.Get([]byte("\x00format"))
			if err != nil {
				return err
			}
			text = string(value)
			return closer.Close()
		})
		return text
	}
	putRaw(t, disk, []record{{[]byte("\x00format"), []byte("\x01\x0ccarillon hub\x05")}})
	db, err := open(true)
	if err != nil {
		t.Fatal(err)
	}
	transfertest.PutFormer(t, transfertest.Engine(db))
	closeDB(t, db)

	_, err = open(false)
	var refused *delivery.FormerKeysError
	if !errors.As(err, &refused) || refused.Count != transfertest.FormerRecords || !strings.Contains(err.Error(), "hub export") {
		t.Fatalf("got error %v, want a *FormerKeysError with %d records", err, transfertest.FormerRecords)
	}
	if got := format(); got != "\x01\x0ccarillon hub\x05" {
		t.Errorf("the refused store has the format %q", got)
	}
	db, err = open(true)
	if err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	transfertest.Export(t, transfertest.Engine(db), &stream)
	closeDB(t, db)
	transfertest.WantFormer(t, transfertest.Engine(openOn(t, vfs.NewMem())), &stream)
}

// A store of layout 5 whose keys are all as they are now is of layout 6 after its first start.
func TestNoFormerKeys(t *testing.T) {
	disk := vfs.NewMem()
	putRaw(t, disk, []record{{[]byte("\x00format"), []byte("\x01\x0ccarillon hub\x05")}})
	db := openOn(t, disk)
	closeDB(t, db)
	withPebble(t, disk, "var/store", func(db *pebble.DB) error {
		value, closer, err := db.Get([]byte("\x00format"))
		if err != nil || string(value) != "\x01\x0ccarillon hub\x06" {
			t.Errorf("the format record is %q, error %v", value, err)
		}
		return closer.Close()
	})
}

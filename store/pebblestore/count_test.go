package pebblestore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
)

// TestLogsOfBeforeAreCounted opens a store of layout 2, whose topics do not have
// what their logs take.
func TestLogsOfBeforeAreCounted(t *testing.T) {
	disk := vfs.NewMem()
	db := openOn(t, disk)
	const topics, each = 40, 5
	for i := range topics * each {
		p := delivery.Publication{Topic: fmt.Sprint(topic, i%topics), Body: make([]byte, 100*i)}
		if _, err := db.Log().Append(t.Context(), p, uuid.New(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	closeDB(t, db)
	withPebble(t, disk, "var/store", func(db *pebble.DB) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{6}, UpperBound: []byte{7}})
		if err != nil {
			return err
		}
		b := db.NewBatch()
		for ok := it.First(); ok; ok = it.Next() {
			record := append([]byte{1}, it.Value()[1:]...)
			for record[len(record)-2] >= 0x80 { // the bytes are a number at the end
				record = record[:len(record)-1]
			}
			if err := b.Set(it.Key(), record[:len(record)-1], nil); err != nil {
				return err
			}
		}
		if err := it.Close(); err != nil {
			return err
		}
		if err := b.Set([]byte("\x00format"), []byte("\x01\x0ccarillon hub\x02"), nil); err != nil {
			return err
		}
		if err := b.Delete([]byte("\x00counted"), nil); err != nil {
			return err
		}
		return b.Commit(pebble.Sync)
	})
	for range 2 {
		db = openOn(t, disk)
		if got := topicsOf(t, db); len(got) != topics { // it checks what they say to take
			t.Errorf("%d topics are listed, want %d", len(got), topics)
		}
		closeDB(t, db)
	}
}

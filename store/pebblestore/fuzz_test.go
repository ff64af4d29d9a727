package pebblestore_test

import (
	"testing"

	"carillon/store/pebblestore"
)

// FuzzDecode reads anything as any kind of record.
func FuzzDecode(f *testing.F) {
	for _, record := range pebblestore.SampleRecords() {
		f.Add(record)
	}
	f.Add([]byte{})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, record []byte) {
		if err := pebblestore.DecodeAll(record); err != nil {
			t.Fatal(err)
		}
	})
}

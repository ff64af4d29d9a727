package redisstore_test

import (
	"testing"

	"carillon/store/redisstore"
)

// FuzzRecords reads anything as any kind of record, name and field.
func FuzzRecords(f *testing.F) {
	for _, record := range redisstore.SampleRecords() {
		f.Add(record, "topic", "body")
	}
	f.Add("1\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "", "")
	f.Add("99999999999:", "topic", "-1")
	f.Fuzz(func(t *testing.T, record, name, beside string) {
		if err := redisstore.DecodeAll(record, name, beside); err != nil {
			t.Fatal(err)
		}
	})
}

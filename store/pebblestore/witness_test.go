package pebblestore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/store/pebblestore"
)

// TestSevenDigits: a store whose files get numbers of seven digits before it is killed is
// not taken for damaged. Pebble writes numbers with six digits or more, so that
// 1000000.log sorts before 999999.log.
func TestSevenDigits(t *testing.T) {
	crossed := 0
	for before := range 20 {
		disk := vfs.NewCrashableMem()
		closeDB(t, openOn(t, disk))
		f, err := disk.Create(fmt.Sprintf("var/store/%d.log", 999_999-before), vfs.WriteCategoryUnspecified) // numbers go on from there
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		db := openOn(t, disk)
		first := newestLog(t, disk)
		const appends = 30 // each of 100 KB: some need the next log
		for range appends {
			if err := appendOne(t.Context(), db, strings.Repeat("x", 100<<10)); err != nil {
				t.Fatal(err)
			}
		}
		disk = disk.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))})
		if len(newestLog(t, disk)) > len(first) {
			crossed++
		}
		if head, err := headOf(t.Context(), openOn(t, disk), topicURL); head != appends || err != nil {
			t.Fatalf("there are %d, error %v; want %d", head, err, appends)
		}
	}
	if crossed == 0 {
		t.Error("none was killed between: the test shows nothing")
	}
}

func newestLog(t *testing.T, disk vfs.FS) string {
	t.Helper()
	return pebblestore.NewestLog(names(t, disk, "var/store")...)
}

// TestNewestFile: the newest file has the highest number, and a file without one does not belong to
// the store.
func TestNewestFile(t *testing.T) {
	for _, test := range []struct{ want, is string }{
		{"1000000.log", pebblestore.NewestLog("1000000.log", "999999.log", "999999.sst", "1000001.sst")},
		{"1000002.log", pebblestore.NewestLog("999999.log", "1000002.log", "notes.log", "LOCK")},
		{"000010.log", pebblestore.NewestLog("000009.log", "000010.log")},
		{"", pebblestore.NewestLog("notes.log", "marker.manifest.000001.MANIFEST-000001")},
		{
			"marker.manifest.1000000.MANIFEST-1000009",
			pebblestore.NewestManifest("marker.manifest.1000000.MANIFEST-1000009", "marker.manifest.999999.MANIFEST-999998", "MANIFEST-1000010"),
		},
	} {
		if test.is != test.want {
			t.Errorf("the newest is %q; want %q", test.is, test.want)
		}
	}
}

package pebblestore_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

const backupDir = "var/restored"

func backupOf(t testing.TB, db *pebblestore.DB) []byte {
	t.Helper()
	b, err := db.Backup(t.Context(), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := errors.Join(b.Write(t.Context(), &stream), b.Close()); err != nil {
		t.Fatal(err)
	}
	return stream.Bytes()
}

func restore(t testing.TB, disk vfs.FS, stream []byte) (pebblestore.Restored, error) {
	return pebblestore.RestoreBackup(t.Context(), pebblestore.Config{Dir: backupDir, FS: disk}, bytes.NewReader(stream))
}

func openRestored(t testing.TB, disk vfs.FS) *pebblestore.DB {
	t.Helper()
	db, err := pebblestore.Open(pebblestore.Config{Dir: backupDir, FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func names(t testing.TB, disk vfs.FS, dir string) []string {
	t.Helper()
	all, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// A backup that is made while there are appends has what was acknowledged before, and
// is a beginning of the log; the store has nothing more to do with it afterwards.
func TestBackup(t *testing.T) {
	disk := vfs.NewMem()
	db := openOn(t, disk)
	defer closeDB(t, db)
	for n := range 100 {
		if err := appendOne(t.Context(), db, fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	var appending sync.WaitGroup
	appending.Go(func() {
		for n := 100; n < 300; n++ {
			if err := appendOne(t.Context(), db, fmt.Sprint(n)); err != nil {
				t.Error(err)
			}
		}
	})
	stream := backupOf(t, db)
	appending.Wait()
	for _, name := range names(t, disk, "var/store") {
		if strings.HasSuffix(name, pebblestore.ScratchSuffix) {
			t.Errorf("the backup has left %s", name)
		}
	}
	info, err := pebblestore.VerifyBackup(t.Context(), bytes.NewReader(stream))
	if err != nil || info.Program != "1.2.3" || info.Files == 0 {
		t.Fatalf("the backup says %+v, error %v", info, err)
	}
	done, err := restore(t, disk, stream)
	if err != nil {
		t.Fatal(err)
	}
	if done.Topics != 1 || done.Notifications < 100 || done.Notifications > 300 || done.Damaged != 0 {
		t.Errorf("restored %+v; want 100 notifications or some more", done)
	}
	again := openRestored(t, disk)
	defer closeDB(t, again)
	for n := range done.Notifications {
		got, err := again.Log().Read(t.Context(), topicURL, delivery.Seq(n+1))
		if err != nil || got.Seq != delivery.Seq(n+1) || string(got.Body) != fmt.Sprint(n) {
			t.Fatalf("the %d-th notification is %+v, error %v", n+1, got, err)
		}
	}
}

// Numbers that the store can have given since the backup are not given again: neither sequence numbers
// nor epochs. That happens once, however often the store is opened, and also if another tool has
// unpacked the backup.
func TestRestoredNumbers(t *testing.T) {
	disk := vfs.NewMem()
	db := openOn(t, disk)
	for range 5 {
		if err := appendOne(t.Context(), db, "before"); err != nil {
			t.Fatal(err)
		}
	}
	epoch := ownAll(t, db)[0].Epoch
	stream := backupOf(t, db)
	for range 3 {
		if err := appendOne(t.Context(), db, "lost"); err != nil {
			t.Fatal(err)
		}
	}
	closeDB(t, db)
	if _, err := restore(t, disk, stream); err != nil {
		t.Fatal(err)
	}
	again := openRestored(t, disk)
	if head, err := headOf(t.Context(), again, topicURL); err != nil || head != 5 {
		t.Errorf("the head is %d, error %v; want 5", head, err)
	}
	for range 2 {
		if err := appendOne(t.Context(), again, "after"); err != nil {
			t.Fatal(err)
		}
	}
	first, err := again.Log().Read(t.Context(), topicURL, 6)
	if err != nil || first.After != 5 || first.Seq <= 8 {
		t.Fatalf("the first after the restore is %d after %d, error %v; want a number above 8, after 5", first.Seq, first.After, err)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if least := delivery.Seq(65_536 * (time.Since(begin)/time.Second - 3600)); time.Now().After(begin) && first.Seq < least {
		t.Errorf("the first after the restore is %d; want what the clock says, from %d", first.Seq, least)
	}
	if second, err := again.Log().Read(t.Context(), topicURL, first.Seq+1); err != nil || second.Seq != first.Seq+1 {
		t.Errorf("then comes %+v, error %v; want the next number", second, err)
	}
	if raised := ownAll(t, again)[0].Epoch; raised <= epoch+1 {
		t.Errorf("the epoch is %d, and was %d; want it far above", raised, epoch)
	}
	closeDB(t, again)
	again = openRestored(t, disk)
	defer closeDB(t, again)
	if err := appendOne(t.Context(), again, "after a restart"); err != nil {
		t.Fatal(err)
	}
	if head, err := headOf(t.Context(), again, topicURL); err != nil || head != first.Seq+2 {
		t.Errorf("the head after a restart is %d, error %v; want %d", head, err, first.Seq+2)
	}
	for _, name := range names(t, disk, backupDir) {
		if strings.HasPrefix(name, "backup.") || strings.HasPrefix(name, "restore.") {
			t.Errorf("the restore has left %s", name)
		}
	}
}

// A clock that was put back does not bring numbers back.
func TestRestoredNumbersByAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is the year 2000
		disk := vfs.NewMem()
		db := openOn(t, disk)
		if err := appendOne(t.Context(), db, "before"); err != nil {
			t.Fatal(err)
		}
		stream := backupOf(t, db)
		closeDB(t, db)
		if _, err := restore(t, disk, stream); err != nil {
			t.Fatal(err)
		}
		again := openRestored(t, disk)
		defer closeDB(t, again)
		if err := appendOne(t.Context(), again, "after"); err != nil {
			t.Fatal(err)
		}
		if head, err := headOf(t.Context(), again, topicURL); err != nil || head < 1<<26 {
			t.Errorf("the head is %d, error %v; want it 2^26 above", head, err)
		}
	})
}

// However a backup is cut off or changed, either it is the same all the same or it is
// refused, and nothing is there.
func TestDamagedBackup(t *testing.T) {
	disk := vfs.NewMem()
	db := openOn(t, disk)
	for range 20 {
		if err := appendOne(t.Context(), db, strings.Repeat("body", 200)); err != nil {
			t.Fatal(err)
		}
	}
	stream := backupOf(t, db)
	closeDB(t, db)
	verify := func(stream []byte) error {
		_, err := pebblestore.VerifyBackup(t.Context(), bytes.NewReader(stream))
		return err
	}
	wanted := []error{pebblestore.ErrNoBackup, pebblestore.ErrBackupCutOff, pebblestore.ErrBackupDamaged, pebblestore.ErrNewer}
	content := sumsOf(t, stream)
	end := len(stream) - 1024 // of the last entry; tar ends with two blocks of zeros
	for at := 0; at < len(stream); at += 61 {
		if err := verify(stream[:at]); at <= end-512 && !slices.ContainsFunc(wanted, func(want error) bool { return errors.Is(err, want) }) {
			t.Fatalf("cut off at %d of %d: %v", at, len(stream), err)
		}
		changed := bytes.Clone(stream)
		changed[at] ^= 1 << (at % 8)
		err := verify(changed)
		if err == nil && !slices.Equal(sumsOf(t, changed), content) {
			t.Fatalf("byte %d was changed, and nobody sees it", at)
		}
		if err != nil && !slices.ContainsFunc(wanted, func(want error) bool { return errors.Is(err, want) }) {
			t.Fatalf("byte %d was changed: %v", at, err)
		}
	}
	for text, want := range map[string]error{
		"": pebblestore.ErrNoBackup, "dear diary": pebblestore.ErrNoBackup, strings.Repeat("dear diary", 9999): pebblestore.ErrNoBackup,
		string(stream[:100]): pebblestore.ErrBackupCutOff,
	} {
		if err := verify([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%.20q: %v; want %v", text, err, want)
		}
	}
	half := stream[:len(stream)/2]
	if _, err := restore(t, disk, half); !errors.Is(err, pebblestore.ErrBackupCutOff) {
		t.Errorf("restored half a backup: %v", err)
	}
	if left, err := disk.List(backupDir); err == nil {
		t.Errorf("half a backup has left %q", left)
	}
}

// sumsOf are the sums of what is in the backup.
func sumsOf(t *testing.T, stream []byte) (sums []string) {
	t.Helper()
	for in := tar.NewReader(bytes.NewReader(stream)); ; {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			return sums
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, in); err != nil {
			t.Fatal(err)
		}
		sums = append(sums, entry.Name+" "+hex.EncodeToString(sum.Sum(nil)))
	}
}

// A stream that is made to harm gets nowhere: no names but Pebble's, no links, no more
// than it says.
func TestHostileBackup(t *testing.T) {
	head := func(files int, bytes int64) *entry {
		return &entry{tar.Header{Name: "backup.json"}, fmt.Sprintf(
			`{"format":"carillon hub backup","version":1,"layout":3,"files":%d,"bytes":%d}`, files, bytes)}
	}
	file := func(name, content string) *entry { return &entry{tar.Header{Name: name}, content} }
	for name, row := range map[string]struct {
		entries []*entry
		want    error
	}{
		"nothing":               {nil, pebblestore.ErrNoBackup},
		"another archive":       {[]*entry{file("photo.jpeg", "x")}, pebblestore.ErrNoBackup},
		"a head of another":     {[]*entry{file("backup.json", `{"format":"music"}`)}, pebblestore.ErrNoBackup},
		"a head without end":    {[]*entry{file("backup.json", strings.Repeat(" ", 1<<17))}, pebblestore.ErrNoBackup},
		"a later version":       {[]*entry{file("backup.json", `{"format":"carillon hub backup","version":2}`)}, pebblestore.ErrNewer},
		"a later layout":        {[]*entry{file("backup.json", `{"format":"carillon hub backup","version":1,"layout":99}`)}, pebblestore.ErrNewer},
		"a path":                {[]*entry{head(1, 9), file("../000001.sst", "x")}, pebblestore.ErrBackupDamaged},
		"a path from the root":  {[]*entry{head(1, 9), file("/etc/000001.sst", "x")}, pebblestore.ErrBackupDamaged},
		"a path below":          {[]*entry{head(1, 9), file("a/000001.sst", "x")}, pebblestore.ErrBackupDamaged},
		"another name":          {[]*entry{head(1, 9), file("LOCK", "x")}, pebblestore.ErrBackupDamaged},
		"the mark of a restore": {[]*entry{head(1, 9), file("restore.unfinished", "x")}, pebblestore.ErrBackupDamaged},
		"a socket's name":       {[]*entry{head(1, 9), file("control.sock", "x")}, pebblestore.ErrBackupDamaged},
		"a link": {[]*entry{
			head(1, 9), {tar.Header{Name: "000001.sst", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, ""},
		}, pebblestore.ErrBackupDamaged},
		"a hard link": {[]*entry{
			head(1, 9), {tar.Header{Name: "000001.sst", Typeflag: tar.TypeLink, Linkname: "LOCK"}, ""},
		}, pebblestore.ErrBackupDamaged},
		"a directory":    {[]*entry{head(1, 9), {tar.Header{Name: "000001.sst", Typeflag: tar.TypeDir}, ""}}, pebblestore.ErrBackupDamaged},
		"a name twice":   {[]*entry{head(2, 9), file("000001.sst", "x"), file("000001.sst", "x")}, pebblestore.ErrBackupDamaged},
		"more bytes":     {[]*entry{head(1, 1), file("000001.sst", "xx")}, pebblestore.ErrBackupDamaged},
		"more files":     {[]*entry{head(1, 9), file("000001.sst", "x"), file("000002.sst", "x")}, pebblestore.ErrBackupDamaged},
		"fewer files":    {[]*entry{head(2, 1), file("000001.sst", "x"), file("backup.sha256", "")}, pebblestore.ErrBackupDamaged},
		"no sums":        {[]*entry{head(1, 1), file("000001.sst", "x"), file("backup.sha256", "")}, pebblestore.ErrBackupDamaged},
		"negative bytes": {[]*entry{head(1, -1), file("000001.sst", "x")}, pebblestore.ErrNoBackup},
	} {
		t.Run(name, func(t *testing.T) {
			var stream bytes.Buffer
			out := tar.NewWriter(&stream)
			for _, e := range row.entries {
				e.Size, e.Mode = int64(len(e.content)), 0o600
				if err := out.WriteHeader(&e.Header); err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(out, e.content); err != nil {
					t.Fatal(err)
				}
			}
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
			disk := vfs.NewMem()
			if _, err := restore(t, disk, stream.Bytes()); !errors.Is(err, row.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got error %v, want %v", err, row.want)
			}
			if left, err := disk.List(backupDir); err == nil {
				t.Errorf("it has left %q", left)
			}
		})
	}
}

type entry struct {
	tar.Header
	content string
}

// A restore that was killed leaves what no hub starts on, and the next restore
// replaces it. Anything else is not touched.
func TestRestoreIntoADirectoryInUse(t *testing.T) {
	disk := vfs.NewMem()
	db := openOn(t, disk)
	stream := backupOf(t, db)
	closeDB(t, db)
	for _, name := range []string{"restore.unfinished", "000004.sst", "MANIFEST-000001"} {
		write(t, disk, backupDir+"/"+name)
	}
	if _, err := pebblestore.Open(pebblestore.Config{Dir: backupDir, FS: disk}); !errors.Is(err, pebblestore.ErrUnfinished) {
		t.Errorf("opened what a restore has left: %v", err)
	}
	if _, err := restore(t, disk, stream); err != nil {
		t.Fatal(err)
	}
	closeDB(t, openRestored(t, disk))
	before := names(t, disk, backupDir)
	if _, err := restore(t, disk, stream); !errors.Is(err, pebblestore.ErrNotEmpty) {
		t.Errorf("restored over a store: %v", err)
	}
	if after := names(t, disk, backupDir); !slices.Equal(before, after) {
		t.Errorf("a restore that was refused has changed %q to %q", before, after)
	}
}

// One backup at a time, none with little room on the disk, and none goes on when the room becomes
// little. The next one removes the leftovers of a killed process.
func TestBackupLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		db := openOn(t, disk)
		if err := appendOne(t.Context(), db, strings.Repeat("body", 1<<18)); err != nil {
			t.Fatal(err)
		}
		first, err := db.Backup(t.Context(), "1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Backup(t.Context(), "1"); !errors.Is(err, pebblestore.ErrBackupRuns) {
			t.Errorf("a second at a time: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := first.Write(ctx, io.Discard); !errors.Is(err, context.Canceled) {
			t.Errorf("one that was ended: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}

		second, err := db.Backup(t.Context(), "1")
		if err != nil {
			t.Fatal(err)
		}
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: pebblestore.DefaultMinFree - 1})
		time.Sleep(time.Minute)
		if err := second.Write(t.Context(), io.Discard); !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("while the disk became nearly full: %v", err)
		}
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = db.Backup(t.Context(), "1")
		if !errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), "bytes free") {
			t.Errorf("on a disk that is nearly full: %v", err)
		}
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40})
		time.Sleep(time.Minute)
		if _, err := pebblestore.VerifyBackup(t.Context(), bytes.NewReader(backupOf(t, db))); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
		closeDB(t, db)

		write(t, disk, "var/store/backup"+pebblestore.ScratchSuffix+"/store/000004.sst")
		closeDB(t, openOn(t, disk))
		if left := names(t, disk, "var/store"); slices.Contains(left, "backup"+pebblestore.ScratchSuffix) {
			t.Errorf("what was left of a backup is still there: %q", left)
		}
		if _, err := db.Backup(t.Context(), "1"); !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("of a store that is closed: %v", err)
		}
	})
}

package pebblestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"carillon/store/pebblestore"
)

// wholeDirectory is a store that was closed, in two layers: a table file, and a
// write-ahead log with as much again, all of it acknowledged.
func wholeDirectory(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewMem()
	for range 2 {
		db := openOn(t, disk)
		for range 30 {
			if err := appendOne(t.Context(), db, strings.Repeat("body", 100)); err != nil {
				t.Fatal(err)
			}
		}
		closeDB(t, db)
	}
	return disk
}

// newest is the last file in the store whose name has the prefix and the suffix.
func newest(t *testing.T, disk vfs.FS, prefix, suffix string) (path string) {
	t.Helper()
	for _, name := range names(t, disk, "var/store") {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			path = "var/store/" + name
		}
	}
	if path == "" {
		t.Fatalf("there is no %s…%s", prefix, suffix)
	}
	return path
}

// rewrite changes a file.
func rewrite(t *testing.T, disk vfs.FS, path string, change func(content []byte) []byte) {
	t.Helper()
	f, err := disk.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if f, err = disk.Create(path, vfs.WriteCategoryUnspecified); err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(change(bytes.Clone(content)))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedDirectory damages each file of a store in each way. Either all that was
// acknowledged is there, or one line names the directory and the way out, and
// nothing was deleted.
func TestDamagedDirectory(t *testing.T) {
	whole := wholeDirectory(t)
	files := map[string]string{
		"the table": newest(t, whole, "", ".sst"), "the write-ahead log": newest(t, whole, "", ".log"),
		"the manifest": newest(t, whole, "MANIFEST-", ""), "the options": newest(t, whole, "OPTIONS-", ""),
		"the format's marker": newest(t, whole, "marker.format-version.", ""), "the manifest's marker": newest(t, whole, "marker.manifest.", ""),
		"the witness": newest(t, whole, "sizes", ""),
	}
	refused := 0
	for name, path := range files {
		try := func(how string, change func(disk *vfs.MemFS)) {
			t.Helper()
			if !openDamaged(t, whole, name+": "+how, change) {
				refused++
			}
		}
		remove := func(disk *vfs.MemFS, path string) {
			if err := disk.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		try("missing", func(disk *vfs.MemFS) { remove(disk, path) })
		if path != files["the witness"] {
			try("missing with the witness", func(disk *vfs.MemFS) { remove(disk, path); remove(disk, files["the witness"]) })
		}
		for _, part := range []int{0, 10, 50, 90, 99} {
			at := func(content []byte) int { return len(content) * part / 100 }
			try(fmt.Sprintf("cut off at %d%%", part), func(disk *vfs.MemFS) {
				rewrite(t, disk, path, func(content []byte) []byte { return content[:at(content)] })
			})
			try(fmt.Sprintf("garbled from %d%%", part), func(disk *vfs.MemFS) {
				rewrite(t, disk, path, func(content []byte) []byte {
					return append(content[:at(content)], bytes.Repeat([]byte{0xa5}, len(content)-at(content))...)
				})
			})
			try(fmt.Sprintf("one bit at %d%%", part), func(disk *vfs.MemFS) {
				rewrite(t, disk, path, func(content []byte) []byte {
					if len(content) > 0 {
						content[at(content)] ^= 4
					}
					return content
				})
			})
		}
	}
	t.Logf("%d of %d were refused", refused, len(files)*17-1)
}

// openDamaged opens a copy of the store that was changed, and reports whether it opened.
func openDamaged(t *testing.T, whole *vfs.MemFS, name string, change func(disk *vfs.MemFS)) bool {
	t.Helper()
	disk := vfs.NewMem()
	if _, err := vfs.Clone(whole, disk, "var/store", "var/store"); err != nil {
		t.Fatal(err)
	}
	change(disk)
	before := names(t, disk, "var/store")
	db, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: disk})
	if err != nil {
		wantWayOut(t, name, err)
		for _, file := range before {
			if _, err := disk.Stat("var/store/" + file); err != nil && strings.HasSuffix(file, ".sst") {
				t.Errorf("%s: refused, and %s was deleted", name, file)
			}
		}
		return false
	}
	defer closeDB(t, db)
	if head, err := headOf(t.Context(), db, topicURL); err != nil || head != 60 {
		// A damaged block of a table is logged.
		if !errors.Is(err, pebblestore.ErrDamaged) {
			t.Errorf("%s: the log ends at %d, error %v; want all 60, or a refusal", name, head, err)
		}
	}
	return true
}

func wantWayOut(t *testing.T, name string, err error) {
	t.Helper()
	line := err.Error()
	if !errors.Is(err, pebblestore.ErrDamaged) || !strings.Contains(line, `"var/store"`) ||
		!strings.Contains(line, "hub restore") || !strings.Contains(line, "docs/backup.md") || strings.Contains(line, "\n") || strings.Contains(line, "goroutine") {
		t.Errorf("%s: %v; want one line with the directory and the way out", name, err)
	}
}

// While a hub runs the lengths of its files are not recorded. A kill leaves a log without an end. One
// that a crash has torn is fine; one with damage before later records is not.
func TestDamagedLogOfAKilledProcess(t *testing.T) {
	disk := vfs.NewCrashableMem()
	db := openOn(t, disk)
	defer closeDB(t, db)
	for range 300 { // some blocks
		if err := appendOne(t.Context(), db, strings.Repeat("body", 100)); err != nil {
			t.Fatal(err)
		}
	}
	killed := func() *vfs.MemFS { return disk.CrashClone(vfs.CrashCloneCfg{}) }
	log := newest(t, killed(), "", ".log")
	var size int
	rewrite(t, killed(), log, func(content []byte) []byte { size = len(bytes.TrimRight(content, "\x00")); return content })
	if size < 3<<15 {
		t.Fatalf("the log has %d bytes; want some blocks", size)
	}
	for at := 100; at < size-2000; at += 1777 {
		damaged := killed()
		rewrite(t, damaged, log, func(content []byte) []byte { content[at] ^= 1; return content })
		broken, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: damaged})
		if err == nil {
			head, _ := headOf(t.Context(), broken, topicURL)
			t.Errorf("byte %d of %d was changed, and the log ends at %d", at, size, head)
			closeDB(t, broken)
			continue
		}
		wantWayOut(t, "the log", err)
	}
	torn := killed()
	rewrite(t, torn, log, func(content []byte) []byte { return content[:size-100] })
	again := openOn(t, torn)
	defer closeDB(t, again)
	if head, err := headOf(t.Context(), again, topicURL); err != nil || head != 299 {
		t.Errorf("torn in its last record, the log ends at %d, error %v; want 299", head, err)
	}
}

// Faults of the disk, or of the permissions, are reported as they are.
func TestOpenOnADiskThatRefuses(t *testing.T) {
	for name, want := range map[string]error{"read-only": syscall.EROFS, "no permission": syscall.EACCES, "no space": syscall.EDQUOT} {
		for _, kind := range []errorfs.OpKind{errorfs.OpCreate, errorfs.OpLock, errorfs.OpOpen, errorfs.OpRename} {
			whole := wholeDirectory(t)
			refusing := errorfs.Wrap(whole, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == kind {
					return &fs.PathError{Op: "open", Path: op.Path, Err: want}
				}
				return nil
			}))
			_, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: refusing, Fatal: func(error) {}})
			if !errors.Is(err, want) || !strings.Contains(err.Error(), `"var/store"`) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s at %v: %v; want one line with %v and the directory", name, kind, err, want)
			}
			db := openOn(t, whole)
			if head, err := headOf(t.Context(), db, topicURL); err != nil || head != 60 {
				t.Errorf("%s at %v: afterwards the log ends at %d, error %v; want all 60", name, kind, head, err)
			}
			closeDB(t, db)
		}
	}
}

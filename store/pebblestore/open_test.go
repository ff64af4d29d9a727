package pebblestore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"carillon/store/pebblestore"
)

// lockedDirEnv passes to a second process of this test which directory to try.
const lockedDirEnv = "PEBBLESTORE_TEST_LOCKED_DIR"

func TestOpenInUse(t *testing.T) {
	if dir := os.Getenv(lockedDirEnv); dir != "" {
		_, err := pebblestore.Open(pebblestore.Config{Dir: dir})
		wantOpenError(t, err, pebblestore.ErrInUse, dir)
		return
	}
	dir := filepath.Join(t.TempDir(), "store")
	db, err := pebblestore.Open(pebblestore.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, err = pebblestore.Open(pebblestore.Config{Dir: dir})
	wantOpenError(t, err, pebblestore.ErrInUse, dir)

	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpenInUse$")
	other.Env = append(os.Environ(), lockedDirEnv+"="+dir)
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("another process: %v\n%s", err, out)
	}

	closeDB(t, db)
	db, err = pebblestore.Open(pebblestore.Config{Dir: dir})
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	closeDB(t, db)
}

// wantOpenError checks the sentinel and that the message names the directory.
func wantOpenError(t *testing.T, err, want error, dir string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got error %v, want %v with the directory %s", err, want, dir)
	}
}

func TestOpenMakesADirectoryForItsUserOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	db, err := pebblestore.Open(pebblestore.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, db)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, error %v; want -rwx------", info.Mode(), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	const dir = "var/store"
	for name, row := range map[string]struct {
		prepare func(t *testing.T, fs *vfs.MemFS)
		want    error
		says    string
	}{
		"other files": {
			prepare: func(t *testing.T, fs *vfs.MemFS) { write(t, fs, dir+"/photo.jpeg") },
			want:    pebblestore.ErrForeign, says: "photo.jpeg",
		},
		"a database of another program": {
			prepare: func(t *testing.T, fs *vfs.MemFS) { plainPebble(t, fs, dir, "key", "value") },
			want:    pebblestore.ErrForeign,
		},
		"a notifier's journal": {
			prepare: func(t *testing.T, fs *vfs.MemFS) {
				j, err := pebblestore.OpenJournal(pebblestore.Config{Dir: dir, FS: fs})
				if err := errors.Join(err, j.Close()); err != nil {
					t.Fatal(err)
				}
			},
			want: pebblestore.ErrForeign, says: "notifier",
		},
		"a newer version": {
			prepare: func(t *testing.T, fs *vfs.MemFS) {
				plainPebble(t, fs, dir, "\x00format", "\x01\x0ccarillon hub\x07")
			},
			want: pebblestore.ErrNewer, says: "layout 7",
		},
		"an older version": {
			prepare: func(t *testing.T, fs *vfs.MemFS) {
				plainPebble(t, fs, dir, "\x00format", "\x01\x0ccarillon hub\x05")
			},
			want: pebblestore.ErrOlder, says: "layout 5; this one knows layout 6",
		},
		"a damaged format record": {
			prepare: func(t *testing.T, fs *vfs.MemFS) { plainPebble(t, fs, dir, "\x00format", "\x01\xffcar") },
			want:    pebblestore.ErrDamaged, says: "format",
		},
		"a format record with something behind it": {
			prepare: func(t *testing.T, fs *vfs.MemFS) {
				plainPebble(t, fs, dir, "\x00format", "\x01\x0ccarillon hub\x01\x00")
			},
			want: pebblestore.ErrDamaged, says: "too many",
		},
		"a file in its place": {
			prepare: func(t *testing.T, fs *vfs.MemFS) { write(t, fs, dir) },
			says:    "not a directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			row.prepare(t, fs)
			_, err := pebblestore.Open(pebblestore.Config{Dir: dir, FS: fs})
			if err == nil || !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("got error %v, want it to say %q and the directory", err, row.says)
			}
			if row.want != nil && !errors.Is(err, row.want) {
				t.Fatalf("got error %v, want %v", err, row.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("the error has several lines: %q", err)
			}
		})
	}
}

// TestOpenWithoutPermission has the file system refuse, since the user who runs
// the tests may be one who may do everything.
func TestOpenWithoutPermission(t *testing.T) {
	for name, kind := range map[string]errorfs.OpKind{
		"to look": errorfs.OpList, "to make it": errorfs.OpMkdirAll, "to write": errorfs.OpLock,
	} {
		t.Run(name, func(t *testing.T) {
			refusing := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == kind {
					return &fs.PathError{Op: "open", Path: op.Path, Err: syscall.EACCES}
				}
				return nil
			}))
			_, err := pebblestore.Open(pebblestore.Config{Dir: "store", FS: refusing})
			wantOpenError(t, err, fs.ErrPermission, "store")
			if errors.Is(err, pebblestore.ErrInUse) {
				t.Errorf("got %v, which blames another process", err)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	for says, cfg := range map[string]pebblestore.Config{
		"directory is not set": {},
		"CacheBytes is -1":     {Dir: "d", CacheBytes: -1},
		"MemTableBytes is 5;":  {Dir: "d", MemTableBytes: 5},
		"MemTableBytes is 214": {Dir: "d", MemTableBytes: 1 << 31},
	} {
		cfg.FS = vfs.NewMem()
		if _, err := pebblestore.Open(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got error %v, want it to say %q", err, says)
		}
	}
}

// TestOpenAfterACrashInOpen crashes the first Open before each of its writes: the
// directory that is left must open again.
func TestOpenAfterACrashInOpen(t *testing.T) {
	disk := vfs.NewCrashableMem()
	var mu sync.Mutex
	var clones []*vfs.MemFS
	recording := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			clones = append(clones, disk.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	}))
	db, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: recording})
	if err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	if len(clones) < 10 {
		t.Fatalf("only %d writes were seen", len(clones))
	}
	for i, clone := range clones {
		db, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: clone})
		if err != nil {
			t.Errorf("crash before write %d: %v", i, err)
			continue
		}
		closeDB(t, db)
	}
}

// TestOpenOnABrokenDisk fails each operation of Open in turn: it must say so, not
// end the process.
func TestOpenOnABrokenDisk(t *testing.T) {
	for at := int64(1); ; at++ {
		var ops atomic.Int64
		broken := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if ops.Add(1) == at && op.Kind != errorfs.OpGetDiskUsage {
				return syscall.EIO
			}
			return nil
		}))
		db, err := pebblestore.Open(pebblestore.Config{
			Dir: "var/store", FS: broken, Fatal: func(err error) { t.Errorf("operation %d was fatal: %v", at, err) },
		})
		if opened := ops.Swap(at); err == nil {
			closeDB(t, db)
			if opened < at {
				return
			}
		}
	}
}

func TestNewMemory(t *testing.T) {
	db, err := pebblestore.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	if head, err := headOf(t.Context(), db, "https://source.example/"); head != 0 || err != nil {
		t.Errorf("head %d, error %v", head, err)
	}
	closeDB(t, db)
	closeDB(t, db)
}

func write(t *testing.T, fs *vfs.MemFS, name string) {
	t.Helper()
	if err := fs.MkdirAll(fs.PathDir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// plainPebble makes a database with one record.
func plainPebble(t *testing.T, fs vfs.FS, dir, key, value string) {
	t.Helper()
	withPebble(t, fs, dir, func(db *pebble.DB) error {
		return db.Set([]byte(key), []byte(value), pebble.Sync)
	})
}

// quiet says nothing of what Pebble does.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// withPebble opens a database behind the store's back.
func withPebble(t testing.TB, fs vfs.FS, dir string, f func(db *pebble.DB) error) {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{
		FS: fs, FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: quiet{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

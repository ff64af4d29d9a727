package pebblestore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/source"
	"carillon/source/sourcetest"
	"carillon/store/pebblestore"
)

func TestSources(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		w := newWorld(t, vfs.NewCrashableMem())
		return sourcetest.Harness{
			Store:  w.db.Sources(),
			Reopen: func(t *testing.T) source.Store { w.reopen(t); return w.db.Sources() },
			Crash:  func(t *testing.T) source.Store { w.crash(t, 0, 0); return w.db.Sources() },
			Stop:   func(t *testing.T) { closeDB(t, w.db) },
		}
	})
}

// corruptSource is the n-th Source of TestBadBlock.
func corruptSource(n int) source.Source {
	return source.Source{
		Name: fmt.Sprintf("source-%03d", n), Prefixes: []string{fmt.Sprintf("https://registered.example/%03d/", n)},
		TokenHash: source.Token("a token").Hash(), Created: time.Unix(5, 6), Issued: time.Unix(7, 8),
	}
}

// badSource: an unreadable Source counts as missing, can be made anew and can be ended.
func badSource(t *testing.T, db *pebblestore.DB) {
	s, bad := db.Sources(), corruptSource(corruptOne)
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantMost(t, len(all), corruptRecords)
	if slices.ContainsFunc(all, func(one source.Source) bool { return one.Name == bad.Name }) {
		t.Error("what cannot be read is listed")
	}
	if _, err := s.Get(t.Context(), bad.Name); !errors.Is(err, source.ErrNotFound) {
		t.Errorf("err = %v, want ErrNotFound", err)
	}
}

// An unreadable record can be overwritten and removed.
func TestADamagedSourceCountsAsNone(t *testing.T) {
	disk := vfs.NewMem()
	db := openOn(t, disk)
	good, bad := corruptSource(1), corruptSource(2)
	if err := errors.Join(db.Sources().Add(t.Context(), good), db.Sources().Add(t.Context(), bad)); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	for name, mend := range map[string]func(s *pebblestore.Sources) error{
		"Add":     func(s *pebblestore.Sources) error { return s.Add(t.Context(), bad) },
		"Replace": func(s *pebblestore.Sources) error { return s.Replace(t.Context(), bad) },
		"Delete":  func(s *pebblestore.Sources) error { return s.Delete(t.Context(), bad.Name) },
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := pebble.Open("var/store", &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: quiet{}})
			if err != nil {
				t.Fatal(err)
			}
			key := append([]byte{0x0d}, bad.Name...)
			if err := errors.Join(raw.Set(key, []byte("\x01rubbish"), pebble.Sync), raw.Close()); err != nil {
				t.Fatal(err)
			}
			s := openOn(t, disk).Sources()
			all, err := s.List(t.Context())
			if err != nil || len(all) != 1 || !all[0].Same(good) {
				t.Errorf("listed are %v, %v; want the good one", all, err)
			}
			if _, err := s.Get(t.Context(), bad.Name); !errors.Is(err, source.ErrNotFound) {
				t.Errorf("err = %v, want ErrNotFound", err)
			}
			if err := mend(s); err != nil {
				t.Fatal(err)
			}
			if one, err := s.Get(t.Context(), bad.Name); name != "Delete" && (err != nil || !one.Same(bad)) {
				t.Errorf("then there is %v, %v", one, err)
			}
		})
	}
}

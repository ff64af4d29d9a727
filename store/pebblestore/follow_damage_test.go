package pebblestore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/destination/follow"
	"carillon/store/pebblestore"
)

// Notifications of the inbox that cannot be read back are named, can be dropped, and hold up no
// others.
func TestFollowingDamaged(t *testing.T) {
	fs := vfs.NewMem()
	open := func() *pebblestore.Destination {
		d, err := pebblestore.OpenDestination(pebblestore.Config{Dir: "d", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, id := range []string{"1-body", "2-size", "3-id", "4-good"} {
		if err := d.Following().Keep(t.Context(), follow.Pushed{ID: id, From: at, Until: at.Add(time.Second), Body: []byte("body")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := pebble.Open("d", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	it, err := raw.NewIter(&pebble.IterOptions{LowerBound: []byte{0x51}, UpperBound: []byte{0x52}})
	if err != nil {
		t.Fatal(err)
	}
	var places [][]byte
	for ok := it.First(); ok; ok = it.Next() {
		places = append(places, append([]byte(nil), it.Key()...))
	}
	if err := errors.Join(it.Close(), raw.Delete([]byte("\x531-body"), pebble.Sync), raw.Set(places[1], []byte("\x01"), pebble.Sync),
		raw.Delete([]byte("\x523-id"), pebble.Sync), raw.Delete([]byte("\x533-id"), pebble.Sync), raw.Close()); err != nil {
		t.Fatal(err)
	}
	d = open()
	defer d.Close()
	s := d.Following()
	for _, id := range []string{"1-body", "2-size", "3-id"} {
		_, err := s.First(t.Context())
		damaged, ok := errors.AsType[*follow.DamagedError](err)
		if !ok || damaged.ID != id || !errors.Is(err, pebblestore.ErrDamaged) {
			t.Fatalf("the first: %v; want the damaged %s", err, id)
		}
		if err := s.Advance(t.Context(), follow.Position{At: at}, id); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := s.First(t.Context()); err != nil || p.ID != "4-good" {
		t.Errorf("then the first is %q, %v", p.ID, err)
	}
	if n, size, err := s.Kept(t.Context()); n != 1 || size != int64(len("body")) || err != nil {
		t.Errorf("%d of %d bytes are kept, %v", n, size, err)
	}
}

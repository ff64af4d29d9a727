package main

import (
	"testing"
	"time"

	"carillon/store/pebblestore"
)

// Runs that find nothing new leave the position as it is: the change that it stands at is in each of them.
func TestIncrementalAgain(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	s := m.shelf
	s.put("/a.txt", "one")
	s.snapshot()
	m.run("baseline", 0)
	s.put("/b.txt", "two")
	last := s.put("/c.txt", "three").Datetime
	s.put("/d.txt", "at the same moment").Datetime = last
	for range 3 {
		m.run("incremental", 0)
	}
	store, err := pebblestore.OpenDestination(pebblestore.Config{Dir: storeDir(m.data)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if at, err := store.Following().Position(t.Context()); err != nil || !at.At.Equal(last) || len(at.Keys) != 2 {
		t.Errorf("the position is %s with %q, %v; want %s with two keys", at.At.Format(time.RFC3339Nano), at.Keys, err, last)
	}
}

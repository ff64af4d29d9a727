package pebblestore_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/payload"
	"carillon/store/pebblestore"
)

func TestJournalResources(t *testing.T) {
	journaltest.RunResources(t, func(t *testing.T) journaltest.Place {
		fs := vfs.NewMem()
		return journalPlace(t, func() *pebblestore.Journal { return journalOn(t, fs) })
	})
}

// TestJournalResourcesCrashed runs the suite with a power failure in place of every close.
func TestJournalResourcesCrashed(t *testing.T) {
	journaltest.RunResources(t, func(t *testing.T) journaltest.Place {
		fs := vfs.NewCrashableMem()
		return journalPlace(t, func() *pebblestore.Journal {
			fs = fs.CrashClone(vfs.CrashCloneCfg{})
			return journalOn(t, fs)
		})
	})
}

// TestJournalResourcesCrashes loses power at random moments, with a random part of the writes without
// a sync, while events come and snapshots are imported. The resources of a set stay the sum of its
// events, and a sealed snapshot is carried out.
func TestJournalResourcesCrashes(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			fs := vfs.NewCrashableMem()
			var sealed map[string]string // what the set must have, if no event came since
			for range 6 {
				j := journalOn(t, fs)
				if _, err := j.Open(t.Context(), "a", journalEpoch); err != nil {
					t.Fatal(err)
				}
				if err := j.KeepResources(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
				carryOn(t, j)
				if got := foldedResources(t, j); sealed != nil && !maps.Equal(got, sealed) {
					t.Errorf("a snapshot that was sealed has become %v, want %v", got, sealed)
				}
				for range 1 + rng.IntN(4) {
					sealed = randomStep(t, j, rng)
					foldedResources(t, j)
				}
				clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				fs = clone
			}
		})
	}
}

// carryOn applies the imports that were left.
func carryOn(t *testing.T, j *pebblestore.Journal) {
	t.Helper()
	left, err := j.ResumeImports(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range left {
		if err := (notifier.Importer{Store: j}).Apply(t.Context(), i, &notifier.Imported{}); err != nil {
			t.Fatal(err)
		}
	}
}

// randomStep appends events, or begins an import and leaves it where it may be left. It
// returns what a sealed one has.
func randomStep(t *testing.T, j *pebblestore.Journal, rng *rand.Rand) (sealed map[string]string) {
	t.Helper()
	loc := func() string { return fmt.Sprint("http://a.example/", rng.IntN(1200)) }
	if rng.IntN(2) == 0 {
		var events []notifier.Event
		for range 1 + rng.IntN(50) {
			kind := []payload.Change{payload.Created, payload.Updated, payload.Deleted}[rng.IntN(3)]
			events = append(
				events,
				notifier.Event{Sets: []string{"a"}, Entry: payload.Entry{Loc: loc(), Change: kind, Type: fmt.Sprint(rng.IntN(3))}},
			)
		}
		if err := j.Append(t.Context(), events, journalEpoch); err != nil {
			t.Fatal(err)
		}
		return nil
	}
	i, err := j.BeginImport(t.Context(), "a")
	if errors.Is(err, notifier.ErrImporting) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	sealed = map[string]string{}
	for range rng.IntN(800) {
		e := payload.Entry{Loc: loc(), Type: fmt.Sprint(rng.IntN(3))}
		if _, twice := sealed[e.Loc]; twice {
			continue
		}
		sealed[e.Loc] = e.Type
		if err := i.Put(t.Context(), []payload.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	if rng.IntN(3) == 0 {
		return nil // left
	}
	if _, _, err := j.Snapshot(t.Context(), "a", journalEpoch); err != nil { // so that differences are events
		t.Fatal(err)
	}
	if _, err := i.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range rng.IntN(3) {
		if _, more, err := i.Apply(t.Context(), journalEpoch); err != nil || !more {
			return nil
		}
	}
	return sealed
}

// foldedResources are the resources of the set, which its events must add up to.
func foldedResources(t *testing.T, j *pebblestore.Journal) map[string]string {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for e, err := range j.Events(t.Context(), "a", time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if want[e.Loc] = e.Type; e.Change == payload.Deleted {
			delete(want, e.Loc)
		}
	}
	_, all, err := j.Resources(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		got[e.Loc] = e.Type
	}
	if !maps.Equal(got, want) {
		t.Fatalf("the set has %d resources, its events add up to %d", len(got), len(want))
	}
	return got
}

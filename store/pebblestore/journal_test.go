package pebblestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/store/pebblestore"
)

func journalOn(t *testing.T, fs vfs.FS) *pebblestore.Journal {
	t.Helper()
	j, err := pebblestore.OpenJournal(pebblestore.Config{
		Dir: "journal", FS: fs, MemTableBytes: 1 << 20,
		Fatal: func(err error) { t.Errorf("the engine gave up: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// journalPlace opens the same data again and again.
func journalPlace(t *testing.T, open func() *pebblestore.Journal) journaltest.Place {
	var last *pebblestore.Journal
	shut := func() {
		if last != nil {
			if err := last.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(shut)
	return func() notifier.Store {
		shut()
		last = open()
		return last
	}
}

func TestJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Place {
		fs := vfs.NewMem()
		return journalPlace(t, func() *pebblestore.Journal { return journalOn(t, fs) })
	})
}

// TestJournalCrashed runs the suite with a power failure in place of every close: writes without a
// sync are gone.
func TestJournalCrashed(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Place {
		fs := vfs.NewCrashableMem()
		return journalPlace(t, func() *pebblestore.Journal {
			fs = fs.CrashClone(vfs.CrashCloneCfg{})
			return journalOn(t, fs)
		})
	})
}

func TestJournalOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "journal")
	j, err := pebblestore.OpenJournal(pebblestore.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pebblestore.OpenJournal(pebblestore.Config{Dir: dir}); !errors.Is(err, pebblestore.ErrInUse) {
		t.Errorf("opening it twice: %v, want ErrInUse", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := pebblestore.Open(pebblestore.Config{Dir: dir}); !errors.Is(err, pebblestore.ErrForeign) {
		t.Errorf("opening it as a hub's store: %v, want ErrForeign", err)
	}
	if _, err := j.Open(t.Context(), "a", time.Now()); !errors.Is(err, notifier.ErrUnavailable) {
		t.Errorf("using it after Close: %v, want ErrUnavailable", err)
	}
}

func TestJournalRefusesBeforeTheDiskIsFull(t *testing.T) {
	fs := vfs.NewMem()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 20, TotalBytes: 1 << 30})
	j, err := pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: fs, MinFree: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	ch, err := j.Open(t.Context(), "a", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	err = j.Append(t.Context(), []notifier.Event{journaltest.Created("http://a.example/", "a")}, time.Now())
	if !errors.Is(err, notifier.ErrUnavailable) {
		t.Errorf("Append with little room: %v, want ErrUnavailable", err)
	}
	n := notifier.Notification{Set: "a", From: ch.Next, Until: ch.Next.Add(time.Second)}
	if err := j.Seal(t.Context(), n, []byte("x")); err != nil {
		t.Errorf("Seal, which leads to more room: %v", err)
	}
}

// journalModel is the required content of the journal after a crash: acknowledged events, and nothing
// that was never appended.
type journalModel struct {
	acked  []string // locs of events whose Append returned
	asked  int      // events that were handed to Append
	next   time.Time
	sealed *notifier.Notification
	body   []byte
}

// TestJournalCrashes makes a random journal, loses power at random moments
// with a random part of what was not synced, and looks at what is left.
func TestJournalCrashes(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			fs := vfs.NewCrashableMem()
			var model journalModel
			for range 4 {
				j := journalOn(t, fs)
				model.check(t, j)
				for range 5 + rng.IntN(20) {
					model.step(t, j, rng)
				}
				clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				fs = clone
			}
			j := journalOn(t, fs)
			defer j.Close()
			model.check(t, j)
		})
	}
}

var journalEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// step does one random thing; everything it does is acknowledged.
func (m *journalModel) step(t *testing.T, j *pebblestore.Journal, rng *rand.Rand) {
	now := journalEpoch.Add(time.Duration(rng.IntN(1e9)))
	ch, err := j.Open(t.Context(), "a", now)
	if err != nil {
		t.Fatal(err)
	}
	m.next = ch.Next
	switch {
	case rng.IntN(3) > 0:
		var events []notifier.Event
		for range 1 + rng.IntN(10) {
			events = append(events, journaltest.Created(fmt.Sprint("http://a.example/", m.asked), "a"))
			m.acked = append(m.acked, events[len(events)-1].Loc)
			m.asked++
		}
		err = j.Append(t.Context(), events, now)
	case ch.Sealed != nil:
		err = j.Accept(t.Context(), *ch.Sealed, time.Time{})
		m.sealed = nil
	default:
		size := rng.IntN(64 << 10)
		if rng.IntN(8) == 0 {
			size = rng.IntN(3 << 20) // of several records
		}
		m.body = bytes.Repeat([]byte{byte(rng.Uint32())}, size)
		m.sealed = &notifier.Notification{
			Set: "a", From: ch.Next, Until: ch.Next.Add(time.Millisecond), Size: int64(len(m.body)),
		}
		err = j.Seal(t.Context(), *m.sealed, m.body)
		m.next = m.sealed.Until
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (m *journalModel) check(t *testing.T, j *pebblestore.Journal) {
	t.Helper()
	ch, err := j.Open(t.Context(), "a", journalEpoch)
	if err != nil {
		t.Fatal(err)
	}
	if !m.next.IsZero() && !ch.Next.Equal(m.next) {
		t.Fatalf("Next is %s, want %s", ch.Next, m.next)
	}
	var last time.Time
	i := 0
	for e, err := range j.Events(t.Context(), "a", time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if i == len(m.acked) || e.Loc != m.acked[i] || !last.Before(e.Datetime) {
			t.Fatalf("event %d is %s at %s, after %s", i, e.Loc, e.Datetime, last)
		}
		last = e.Datetime
		i++
	}
	if i != len(m.acked) {
		t.Fatalf("%d events are left of %d that were acknowledged", i, len(m.acked))
	}
	if (ch.Sealed == nil) != (m.sealed == nil) {
		t.Fatalf("outstanding is %+v, want %+v", ch.Sealed, m.sealed)
	}
	if m.sealed == nil {
		return
	}
	r, err := j.Body(t.Context(), *m.sealed)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if body, err := io.ReadAll(r); err != nil || !bytes.Equal(body, m.body) {
		t.Fatalf("the outstanding bytes are %d, %v; want %d", len(body), err, len(m.body))
	}
}

package pebblestore_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery/deliverytest"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/subscription/subscriptiontest"
)

// world is a store on a disk that can crash.
type world struct {
	fs *vfs.MemFS
	db *pebblestore.DB
}

func newWorld(t *testing.T, fs *vfs.MemFS) *world {
	w := &world{fs: fs}
	w.open(t)
	return w
}

func (w *world) open(t *testing.T) {
	t.Helper()
	w.db = openOn(t, w.fs)
}

// openOn opens a store and closes it with the test.
func openOn(t testing.TB, fs vfs.FS) *pebblestore.DB {
	t.Helper()
	db, err := pebblestore.Open(pebblestore.Config{
		Dir: "var/store", FS: fs, MemTableBytes: 1 << 20,
		Fatal: func(err error) { t.Errorf("the engine gave up: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDB(t, db) })
	return db
}

func closeDB(t testing.TB, db *pebblestore.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func (w *world) reopen(t *testing.T) {
	closeDB(t, w.db)
	w.open(t)
}

// crash goes on with a copy of the disk on which only what was synced is left, and
// percent of what was not.
func (w *world) crash(t *testing.T, percent int, seed uint64) {
	w.fs = w.fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 0)),
	})
	w.open(t)
}

func TestSubscriptions(t *testing.T) {
	subscriptiontest.Run(t, func(t *testing.T) subscriptiontest.Harness {
		w := newWorld(t, vfs.NewCrashableMem())
		return subscriptiontest.Harness{
			Store:  w.db.Subscriptions(),
			Reopen: func(t *testing.T) subscription.Store { w.reopen(t); return w.db.Subscriptions() },
			Crash:  func(t *testing.T) subscription.Store { w.crash(t, 0, 0); return w.db.Subscriptions() },
			Stop:   func(t *testing.T) { closeDB(t, w.db) },
		}
	})
}

func deliveryHarness(t *testing.T) deliverytest.Harness {
	return deliveryHarnessOn(newWorld(t, vfs.NewCrashableMem()))
}

func deliveryHarnessOn(w *world) deliverytest.Harness {
	parts := func() deliverytest.Parts {
		return deliverytest.Parts{
			Log: w.db.Log(), Pings: w.db.Pings(), Cursors: w.db.Cursors(), Shards: w.db.Shards(),
			Subscriptions: w.db.Subscriptions(),
		}
	}
	return deliverytest.Harness{
		Parts:  parts(),
		Reopen: func(t *testing.T) deliverytest.Parts { w.reopen(t); return parts() },
		Crash:  func(t *testing.T) deliverytest.Parts { w.crash(t, 0, 0); return parts() },
		Stop:   func(t *testing.T) { closeDB(t, w.db) },
	}
}

func TestLog(t *testing.T) { deliverytest.RunLog(t, deliveryHarness) }

func TestGreatBody(t *testing.T) {
	deliverytest.RunBody(t, greatBody, func(t *testing.T) deliverytest.Harness {
		return deliveryHarnessOn(newWorld(t, vfs.NewMem()))
	})
}

func TestPings(t *testing.T)    { deliverytest.RunPings(t, deliveryHarness) }
func TestCursors(t *testing.T)  { deliverytest.RunCursors(t, deliveryHarness) }
func TestProperty(t *testing.T) { deliverytest.RunProperty(t, deliveryHarness) }
func TestShards(t *testing.T)   { deliverytest.RunShards(t, deliveryHarness) }

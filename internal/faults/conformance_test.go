package faults_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery/deliverytest"
	"carillon/internal/faults"
	"carillon/internal/redistest"
	"carillon/source"
	"carillon/source/sourcetest"
	"carillon/store/pebblestore"
	"carillon/store/redisstore"
	"carillon/subscription"
	"carillon/subscription/subscriptiontest"
)

var redis = redistest.NewShared()

func TestMain(m *testing.M) {
	flag.Parse()
	// The engines have their own long runs.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
	code := m.Run()
	redis.Stop()
	os.Exit(code)
}

// disk is a store on a disk that can crash, behind wrappers.
type disk struct {
	fs   *vfs.MemFS
	db   *pebblestore.DB
	plan *faults.Plan
}

func newDisk(t *testing.T, plan *faults.Plan) *disk {
	d := &disk{fs: vfs.NewCrashableMem(), plan: plan}
	d.open(t)
	return d
}

func (d *disk) open(t *testing.T) {
	t.Helper()
	db, err := pebblestore.Open(pebblestore.Config{
		Dir: "var/store", FS: d.fs, MemTableBytes: 1 << 20,
		Fatal: func(err error) { t.Errorf("the engine gave up: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.db = db
	t.Cleanup(func() { closeDB(t, db) })
}

func closeDB(t *testing.T, db interface{ Close() error }) {
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func (d *disk) reopen(t *testing.T) {
	closeDB(t, d.db)
	d.open(t)
}

func (d *disk) crash(t *testing.T) {
	d.fs = d.fs.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))})
	d.open(t)
}

func (d *disk) store() subscription.Store { return faults.NewStore(d.db.Subscriptions(), d.plan) }

func (d *disk) sources() source.Store { return faults.NewSources(d.db.Sources(), d.plan) }

func (d *disk) parts() deliverytest.Parts {
	return deliverytest.Parts{
		Log: faults.NewLog(d.db.Log(), d.plan), Pings: faults.NewPings(d.db.Pings(), d.plan),
		Cursors: faults.NewCursors(d.db.Cursors(), d.plan), Marks: faults.NewMarks(nil, d.plan),
		Shards: d.db.Shards(), Subscriptions: d.store(),
	}
}

// nothing is a plan that plans nothing.
func nothing() *faults.Plan { return faults.NewPlan(faults.Config{Seed: 1}) }

// With nothing planned a wrapped engine is the engine: the suites pass.
func TestNothingPlanned(t *testing.T) {
	open := func(t *testing.T) deliverytest.Harness {
		d := newDisk(t, nothing())
		return deliverytest.Harness{
			Parts:  d.parts(),
			Reopen: func(t *testing.T) deliverytest.Parts { d.reopen(t); return d.parts() },
			Crash:  func(t *testing.T) deliverytest.Parts { d.crash(t); return d.parts() },
			Stop:   func(t *testing.T) { closeDB(t, d.db) },
		}
	}
	t.Run("Store", func(t *testing.T) {
		subscriptiontest.Run(t, func(t *testing.T) subscriptiontest.Harness {
			d := newDisk(t, nothing())
			return subscriptiontest.Harness{
				Store:  d.store(),
				Reopen: func(t *testing.T) subscription.Store { d.reopen(t); return d.store() },
				Crash:  func(t *testing.T) subscription.Store { d.crash(t); return d.store() },
				Stop:   func(t *testing.T) { closeDB(t, d.db) },
			}
		})
	})
	t.Run("Sources", func(t *testing.T) {
		sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
			d := newDisk(t, nothing())
			return sourcetest.Harness{
				Store:  d.sources(),
				Reopen: func(t *testing.T) source.Store { d.reopen(t); return d.sources() },
				Crash:  func(t *testing.T) source.Store { d.crash(t); return d.sources() },
				Stop:   func(t *testing.T) { closeDB(t, d.db) },
			}
		})
	})
	t.Run("Log", func(t *testing.T) { deliverytest.RunLog(t, open) })
	t.Run("Pings", func(t *testing.T) { deliverytest.RunPings(t, open) })
	t.Run("Cursors", func(t *testing.T) { deliverytest.RunCursors(t, open) })
}

// So it is with the marks, which only an engine has that processes share.
func TestNothingPlannedForMarks(t *testing.T) {
	deliverytest.RunMarks(t, func(t *testing.T) deliverytest.Harness {
		server := redis.Server(t)
		db, err := redisstore.Open(redisstore.Config{URL: server.Fresh()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeDB(t, db) })
		redistest.Eventually(t, func() error { return db.Ready(t.Context()) })
		return deliverytest.Harness{
			Parts: deliverytest.Parts{
				Log: db.Log(), Cursors: db.Cursors(), Shards: db.Shards(), Subscriptions: db.Subscriptions(),
				Marks: faults.NewMarks(db.Marks(), nothing()),
			},
			Stop: func(t *testing.T) {
				server.Kill(t)
				t.Cleanup(func() { server.Restart(t) })
			},
		}
	})
}

// An engine without marks has none behind a plan either.
func TestNoMarks(t *testing.T) {
	if m := faults.NewMarks(nil, nothing()); m != nil {
		t.Errorf("got %v", m)
	}
}

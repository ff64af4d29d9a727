package redisstore_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/delivery/deliverytest"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// takeover of processes that are alone, for which a test waits after a crash.
const takeover = 400 * time.Millisecond

// parts are those of a process.
func parts(db *redisstore.DB) deliverytest.Parts {
	db.SetTakeover(takeover)
	return deliverytest.Parts{
		Log: db.Log(), Pings: db.Pings(), Cursors: db.Cursors(), Shards: db.Shards(), Marks: db.Marks(),
		Subscriptions: db.Subscriptions(),
	}
}

// sharedHarness is an empty store on the shared server.
func sharedHarness(t *testing.T) deliverytest.Harness {
	w := newWorld(t)
	return deliverytest.Harness{
		Parts:   parts(w.db),
		Reopen:  func(t *testing.T) deliverytest.Parts { w.reopen(t); return parts(w.db) },
		Crash:   func(t *testing.T) deliverytest.Parts { w.crash(t); return parts(w.db) },
		Stop:    func(t *testing.T) { w.stop(t) },
		Another: func(t *testing.T) deliverytest.Parts { return parts(w.open(t)) },
	}
}

func TestCursors(t *testing.T) { deliverytest.RunCursors(t, sharedHarness) }

func TestCursorsProperty(t *testing.T) { deliverytest.RunProperty(t, sharedHarness) }

func TestShards(t *testing.T) { deliverytest.RunShards(t, sharedHarness) }

func TestMarks(t *testing.T) { deliverytest.RunMarks(t, sharedHarness) }

func TestSharing(t *testing.T) {
	t.Parallel()
	deliverytest.RunSharing(t, func(t *testing.T) deliverytest.SharingHarness {
		w := newWorld(t)
		return deliverytest.SharingHarness{
			Takeover: time.Second,
			Process: func(t *testing.T) deliverytest.Process {
				db, g := gated(t, w, time.Second)
				return deliverytest.Process{Parts: deliverytest.Parts{
					Log: db.Log(), Pings: db.Pings(), Cursors: db.Cursors(), Shards: db.Shards(), Marks: db.Marks(),
					Subscriptions: db.Subscriptions(),
				}, Silence: g.close, Return: g.open}
			},
		}
	})
}

// gated opens the store of the world as one more process, behind a gate of its own,
// which also listens for what others do.
func gated(t *testing.T, w *world, takeover time.Duration) (*redisstore.DB, *gate) {
	t.Helper()
	g := newGate(t, w.server.Addr())
	u, err := url.Parse(w.cfg.URL)
	must(t, err)
	u.Host = g.addr()
	cfg := w.cfg
	cfg.URL = u.String()
	db := openOnly(t, cfg)
	db.SetTakeover(takeover)
	ready(t, db)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Listen(ctx, deaf{}) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return db, g
}

// deaf is an Ear that does nothing.
type deaf struct{}

func (deaf) Published(string, delivery.Seq) {}
func (deaf) Requested(subscription.ID)      {}
func (deaf) Pinged(delivery.Ping)           {}
func (deaf) Refresh()                       {}

package subscription_test

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/store/pebblestore"
	"carillon/subscription"
)

// bell is a roster that rings for every change.
type bell struct {
	*roster
	rings chan string
}

func (b bell) Activated(sub subscription.Subscription) {
	b.roster.Activated(sub)
	b.rings <- "activated"
}

func (b bell) Ended(id subscription.ID) {
	b.roster.Ended(id)
	b.rings <- "ended"
}

// On the real engine and in real time: a request outlives the process that took
// it, is renewed, expires, and another is unsubscribed.
func TestOnPebble(t *testing.T) {
	fs := vfs.NewMem()
	open := func() *pebblestore.DB {
		db, err := pebblestore.Open(pebblestore.Config{Dir: "hub", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	b := bell{newRoster(), make(chan string, 10)}
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-b.rings:
			if got != want {
				t.Fatalf("delivery was told %q, want %q", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("delivery was never told %q", want)
		}
	}
	service := func(db *pebblestore.DB) *subscription.Service {
		cfg := subscription.Config{
			Lease:         subscription.LeaseRules{Min: time.Second},
			SweepInterval: 50 * time.Millisecond,
		}
		s, err := subscription.NewService(cfg, db.Subscriptions(), &world{}, &world{}, b, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	submit := func(s *subscription.Service, w subscription.Wish) {
		t.Helper()
		if err := s.Submit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}

	db := open()
	submit(service(db), subscribe(callback, "one"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	db = open()
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := service(db)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	for shard := range subscription.Shard(subscription.Shards) {
		if err := s.Gained(ctx, shard); err != nil {
			t.Fatal(err)
		}
	}
	expect("activated")

	short := subscribe(callback, "two")
	short.Lease, short.LeaseGiven = 2*time.Second, true
	submit(s, short)
	expect("activated")
	sub, err := db.Subscriptions().Get(t.Context(), subscription.NewID(topic, callback))
	if told := b.members()[sub.ID]; err != nil || sub.Secret != "two" || sub != told {
		t.Errorf("stored %+v (%v), told %+v", sub, err, told)
	}
	expect("ended")
	if now := time.Now(); now.Before(sub.Expires) {
		t.Errorf("ended %v before its time", sub.Expires.Sub(now))
	}

	submit(s, subscribe("http://other.example/", ""))
	expect("activated")
	submit(s, unsubscribe("http://other.example/"))
	expect("ended")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	for shard := range subscription.Shard(subscription.Shards) {
		for r, err := range db.Subscriptions().Requests(t.Context(), shard) {
			t.Errorf("left: %+v, %v", r, err)
		}
	}
}

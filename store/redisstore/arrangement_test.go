package redisstore_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/internal/redistest"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// request is the n-th subscriber's.
func request(n int) subscription.Request {
	topic, callback := "https://source.example/change/", fmt.Sprintf("https://destination.example/%d", n)
	return subscription.Request{
		ID: subscription.NewID(topic, callback), Token: uuid.New(), Mode: subscription.ModeSubscribe,
		Topic: topic, Callback: callback, Secret: "secret", Lease: time.Hour,
		Received: time.Date(2026, 3, 1, 10, 20, 30, 123456789, time.UTC),
	}
}

func granted(r subscription.Request) subscription.Subscription {
	return subscription.Subscription{
		ID: r.ID, Topic: r.Topic, Callback: r.Callback, Secret: r.Secret, Start: 7, Lease: r.Lease,
		Expires: r.Received.Add(r.Lease), Created: r.Received,
	}
}

// workers is how many subscriptions work makes: enough for every shard to have some.
const workers = 300

// work makes subscriptions, ends some, and reads the others back.
func work(t *testing.T, db *redisstore.DB) {
	t.Helper()
	s := db.Subscriptions()
	for n := range workers {
		r := request(n)
		must(t, s.Submit(t.Context(), r))
		must(t, s.Activate(t.Context(), r, granted(r)))
		if n%2 == 1 {
			removed, err := s.Remove(t.Context(), granted(r))
			if must(t, err); !removed {
				t.Fatalf("subscription %d is not removed", n)
			}
		}
	}
	worked(t, db)
}

// worked looks for what work has left.
func worked(t *testing.T, db *redisstore.DB) {
	t.Helper()
	for n := range workers {
		sub, err := db.Subscriptions().Get(t.Context(), request(n).ID)
		if n%2 == 1 {
			wantError(t, err, subscription.ErrNotFound)
			continue
		}
		if must(t, err); sub != granted(request(n)) {
			t.Fatalf("subscription %d came back as %+v", n, sub)
		}
	}
	found := 0
	for shard := range subscription.Shard(subscription.Shards) {
		expired, err := db.Subscriptions().Expired(t.Context(), shard, granted(request(0)).Expires, workers)
		must(t, err)
		found += len(expired)
		for _, err := range db.Subscriptions().Requests(t.Context(), shard) {
			must(t, err)
			t.Fatal("a request is left")
		}
	}
	if found != workers/2 {
		t.Fatalf("%d subscriptions have expired, want %d", found, workers/2)
	}
}

func TestByACL(t *testing.T) {
	t.Parallel()
	server := redistest.Start(
		t, "user default off",
		"user hub on >hub ~carillon:* &carillon:bell +@all -@dangerous -function -fcall -fcall_ro -script +info",
	)
	server.As("hub", "hub")
	w := worldOn(t, server, "redis://hub:hub@"+server.Addr())
	wantWarnings(t, w.db)
	work(t, w.db)
	empty, err := w.db.Restore().Empty(t.Context())
	if must(t, err); empty {
		t.Error("the store is said to be empty")
	}
	wantPeers(t, w)
}

func TestOnACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	w := worldOn(t, nodes[0], nodes.URL())
	wantWarnings(t, w.db)
	work(t, w.db)
	wantPeers(t, w)
	for _, node := range nodes {
		if n := node.Do(t, "DBSIZE"); n == int64(0) {
			t.Error("a node of the Cluster has nothing to do")
		}
	}
	nodes[1].Set(t, "appendfsync", "no")
	ready(t, w.db)
	wantWarnings(t, w.db, nodes[1].Addr()+": appendfsync is no")

	nodes[2].Kill(t)
	unavailable := 0
	for n := range workers {
		_, err := w.db.Subscriptions().Request(t.Context(), request(n).ID)
		switch {
		case errors.Is(err, subscription.ErrUnavailable):
			unavailable++
		case !errors.Is(err, subscription.ErrNotFound):
			t.Fatal(err)
		}
		if unavailable > 0 {
			break
		}
	}
	if unavailable == 0 {
		t.Error("a third of the Cluster is away, and nothing is unavailable")
	}
	nodes[2].Restart(t)
	ready(t, w.db)
	eventually(t, func() error { return submitted(t, w.db) })
	worked(t, openOnly(t, w.cfg))
}

// submitted reports whether requests in every shard are taken, and takes them back.
func submitted(t *testing.T, db *redisstore.DB) error {
	for n := range workers {
		r := request(n)
		if err := db.Subscriptions().Submit(t.Context(), r); err != nil {
			return err
		}
		if err := db.Subscriptions().Drop(t.Context(), r); err != nil {
			return err
		}
	}
	return nil
}

// TestASlotMoves moves slots from one node of a Cluster to another while calls are made.
func TestASlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	w := worldOn(t, nodes[0], nodes.URL())
	r := request(1)
	must(t, w.db.Subscriptions().Submit(t.Context(), r))
	key := fmt.Sprintf("carillon:{shard-%02d}:requests", subscription.ShardOf(r.ID))
	slot := fmt.Sprint(nodes[0].Do(t, "CLUSTER", "KEYSLOT", key))
	var from, to *redistest.Server
	for _, node := range nodes {
		if node.Do(t, "CLUSTER", "COUNTKEYSINSLOT", slot) == int64(1) {
			from = node
		} else {
			to = node
		}
	}
	id := func(s *redistest.Server) string { return s.Do(t, "CLUSTER", "MYID").(string) }
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	_, port, err := net.SplitHostPort(to.Addr())
	must(t, err)
	from.Do(t, "MIGRATE", "127.0.0.1", port, key, "0", "5000")
	// The key has gone, and the slot not yet: the node says ASK.
	must(t, w.db.Subscriptions().Submit(t.Context(), r))
	for _, node := range nodes {
		node.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	}
	// The slot has gone: the node says MOVED.
	must(t, w.db.Subscriptions().Submit(t.Context(), request(1)))
	if n := to.Do(t, "HLEN", key); n != int64(1) {
		t.Errorf("the new node has %v requests, want 1", n)
	}
}

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	f := redistest.Sentinel(t, 2)
	w := worldOn(t, f.Nodes[0], f.URL()+"?replicas=1")
	work(t, w.db)
	wantPeers(t, w)
	f.Nodes[0].Kill(t)
	if err := w.db.Subscriptions().Submit(t.Context(), request(workers)); !errors.Is(err, subscription.ErrUnavailable) {
		t.Errorf("the primary is dead: got error %v, want %v", err, subscription.ErrUnavailable)
	}
	eventually(t, func() error { return w.db.Subscriptions().Submit(t.Context(), request(workers)) })
	if f.Primary(t) == f.Nodes[0] {
		t.Error("the dead node is still the primary")
	}
	must(t, w.db.Subscriptions().Drop(t.Context(), request(workers)))
	if _, err := w.db.Subscriptions().Request(t.Context(), request(workers).ID); err != nil {
		t.Errorf("the request of another token is gone: %v", err)
	}
	wantWarnings(t, w.db)
}

func TestReplicasMustHaveWhatChanged(t *testing.T) {
	t.Parallel()
	f := redistest.Sentinel(t, 1)
	w := worldOn(t, f.Nodes[0], f.Nodes[0].URL()+"?replicas=1")
	r := request(1)
	must(t, w.db.Subscriptions().Submit(t.Context(), r))
	f.Nodes[1].Pause(t)
	late := request(2)
	wantError(t, w.db.Subscriptions().Submit(t.Context(), late), subscription.ErrUnavailable)
	// Reading needs no replica, and what was refused may have been made.
	if _, err := w.db.Subscriptions().Request(t.Context(), late.ID); err != nil {
		t.Error(err)
	}
	f.Nodes[1].Resume(t)
	eventually(t, func() error { return w.db.Subscriptions().Submit(t.Context(), late) })
}

// TestAReplicaIsAway: the leases say why they are not renewed, though a round has little time.
func TestAReplicaIsAway(t *testing.T) {
	t.Parallel()
	f := redistest.Sentinel(t, 1)
	w := worldOn(t, f.Nodes[0], f.Nodes[0].URL())
	log := new(lossLog)
	w.cfg.Replicas, w.cfg.Logger = 1, log.logger()
	db := w.open(t)
	db.SetTakeover(2 * time.Second)
	k := (&keeper{t: t, db: db, done: make(chan struct{}), held: make(map[subscription.Shard]uint64)}).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	f.Nodes[1].Pause(t)
	eventually(t, func() error {
		if !strings.Contains(log.String(), "could not be renewed") {
			return errors.New("the log does not say that the leases are not renewed")
		}
		return nil
	})
	if !strings.Contains(log.String(), "0 of 1 replicas") {
		t.Errorf("the log does not say why:\n%s", log)
	}
	f.Nodes[1].Resume(t)
	waitParts(t, map[*keeper]int{k: subscription.Shards})
}

// TestAPrimaryIsDemotedWhileReplicasAreWaitedFor: that is a state of the server, no defect.
func TestAPrimaryIsDemotedWhileReplicasAreWaitedFor(t *testing.T) {
	t.Parallel()
	f := redistest.Sentinel(t, 1)
	w := worldOn(t, f.Nodes[0], f.Nodes[0].URL())
	log := new(lossLog)
	w.cfg.Replicas, w.cfg.Logger = 1, log.logger()
	db := w.open(t)
	must(t, submit(t, db)) // the server has the script
	f.Nodes[1].Pause(t)
	defer f.Nodes[1].Resume(t)
	done := make(chan error, 1)
	go func() { done <- submit(t, db) }()
	eventually(t, func() error {
		if !strings.Contains(fmt.Sprint(w.server.Do(t, "INFO", "clients")), "blocked_clients:1") {
			return errors.New("nobody waits")
		}
		return nil
	})
	host, port, _ := strings.Cut(shared.Server(t).Addr(), ":")
	w.server.Do(t, "REPLICAOF", host, port)
	wantError(t, <-done, subscription.ErrUnavailable)
	if strings.Contains(log.String(), "defect") {
		t.Errorf("the log speaks of a defect:\n%s", log)
	}
}

// TestSentinelsThatAskWho: the Sentinels have users of their own.
func TestSentinelsThatAskWho(t *testing.T) {
	t.Parallel()
	f := redistest.Sentinel(t, 0)
	for _, s := range f.Sentinels {
		s.Do(t, "ACL", "SETUSER", "guard", "on", ">halt", "~*", "&*", "+@all")
		s.Do(t, "ACL", "SETUSER", "default", "off")
	}
	work(t, worldOn(t, f.Nodes[0], f.URL()+"?sentinel-user=guard&sentinel-password=halt").db)
	for _, parameters := range []string{"", "?sentinel-user=guard&sentinel-password=wrong"} {
		wantRefused(t, redisstore.Config{URL: f.URL() + parameters}, "does not accept the user and the password")
	}
	unknown := strings.Replace(f.URL(), redistest.MasterName, "elsewhere", 1) + "?sentinel-user=guard&sentinel-password=halt"
	wantRefused(t, redisstore.Config{URL: unknown}, `no Sentinel that answers knows a master of the name "elsewhere"`)
}

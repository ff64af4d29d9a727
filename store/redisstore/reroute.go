package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"carillon/subscription"
)

const (
	// rerouteEvery is the least pause between two readings of a Cluster's topology.
	rerouteEvery = 250 * time.Millisecond
	// rerouteTime bounds one reading, so that a node that hangs does not hold up the next,
	// which asks another node first.
	rerouteTime = time.Second
)

// reroute reads the topology of a Cluster anew while calls fail. The client does so by
// itself once a minute, and where a node names another (MOVED), which a dead node
// does not.
type reroute struct {
	mu      sync.Mutex
	running bool // guarded by mu: a reading is under way, or was just now
	again   bool // guarded by mu: a call has failed since it began
}

// reroute has the topology read, soon. It does not block.
func (e *engine) reroute() {
	client, ok := e.client.(*redis.ClusterClient)
	if !ok {
		return
	}
	r := &e.routes
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again = true; r.running {
		return
	}
	r.running = true
	go func() {
		for r.next() {
			readTopology(client)
			time.Sleep(rerouteEvery)
		}
	}()
}

// next reports whether there is a reason for one more reading.
func (r *reroute) next() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.again = r.again, false
	return r.running
}

// readTopology asks the nodes, one after the other in any order, until one answers. Its answer counts
// from then on; without one, the known topology stays.
func readTopology(client *redis.ClusterClient) {
	ctx, cancel := context.WithTimeout(context.Background(), rerouteTime)
	defer cancel()
	// ForEachMaster begins with the reading, and is the only call for it that takes a context.
	_ = client.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil })
}

// absence is that of a part of a Cluster, as the latest round of the keeper found it.
type absence struct {
	mu     sync.Mutex
	since  time.Time // guarded by mu; zero: all is there
	shards int       // guarded by mu: those of this process that are there
	reason error     // guarded by mu
}

// note takes what a round found: err is nil where all was answered.
func (a *absence) note(at time.Time, shards int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.since = time.Time{}
	case a.since.IsZero():
		a.since = at
	}
	a.shards, a.reason = shards, err
}

// warnings say what waits.
func (a *absence) warnings() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		return nil
	}
	return []string{fmt.Sprintf("since %s a part of the Redis Cluster does not answer (%v): what it keeps waits, and publications to its "+
		"topics are answered with 503; %d of the %d parts of the hub's work go on here. See CLUSTER NODES for the master that failed and has no replica",
		a.since.UTC().Format(time.RFC3339), a.reason, a.shards, subscription.Shards)}
}

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"carillon/internal/redistest"
	"carillon/subscription"
	"carillon/topic"
)

// TestClusterLosesAMaster kills one master of a Redis Cluster under three hubs. It never comes back:
// its replica takes its place. The data of the other masters stays in use throughout, and its own data
// soon after the election.
func TestClusterLosesAMaster(t *testing.T) {
	t.Parallel() // it waits, mostly
	masters, replicas := redistest.ReplicatedCluster(t, "cluster-node-timeout 2000", "cluster-require-full-coverage no")
	d := newMasterDrill(t, masters)
	d.kill()
	redistest.Eventually(t, func() error {
		answer, err := replicas[d.dead].Try("ROLE")
		if list, _ := answer.([]any); err == nil && len(list) > 0 && list[0] == "master" {
			return nil
		}
		return fmt.Errorf("no election: %v %v", answer, err)
	})
	elected := time.Now()
	t.Logf("elected %s after the kill", elected.Sub(d.killed).Round(time.Millisecond))
	d.await("a publication to the topic of the dead master", func() bool {
		return d.accepted[d.dead].After(elected)
	})
	d.c.sink.await(t, "deliveries of all shards", func() bool {
		for at := range masters {
			for i := range drillCallbacks {
				if got := d.c.sink.got[drillCallback(at, i)]; !got[len(got)-1].at.After(elected) {
					return false
				}
			}
		}
		return true
	})
	d.check()
}

// TestClusterWithoutAMaster kills the master with the keys of the store, which has no replica. Work on
// the data of the others goes on for as long as it is away.
func TestClusterWithoutAMaster(t *testing.T) {
	t.Parallel() // it waits, mostly
	masters := redistest.Cluster(t, "cluster-node-timeout 2000", "cluster-require-full-coverage no")
	d := newMasterDrill(t, masters)
	d.kill()
	d.await("publications for three takeovers", func() bool {
		for at := range masters {
			if at != d.dead && !d.accepted[at].After(d.killed.Add(3*takeover)) {
				return false
			}
		}
		return true
	})
	later := time.Now()
	d.c.sink.await(t, "deliveries of the living shards", func() bool {
		for at := range masters {
			for i := range drillCallbacks {
				if at == d.dead || !d.lives(at, i) {
					continue
				}
				if got := d.c.sink.got[drillCallback(at, i)]; !got[len(got)-1].at.After(later) {
					return false
				}
			}
		}
		return true
	})
	for i, p := range d.c.hubs {
		if status, body := look(p.ready["admin"], "/readyz"); status != http.StatusOK {
			t.Errorf("hub %d is not ready though most of the store is there: %d %s", i, status, body)
		}
	}
	d.check()
}

// drillCallbacks is how many subscribe to each topic.
const drillCallbacks = 30

func drillCallback(at, i int) string { return fmt.Sprintf("%d-%d", at, i) }

// masterDrill has a topic on each master of a Cluster, and publishes to all of them while the one
// with the keys of the store dies.
type masterDrill struct {
	t       *testing.T
	c       *cluster
	masters redistest.Nodes
	dead    int
	killed  time.Time
	topics  []string
	stop    chan struct{}
	group   sync.WaitGroup

	mu       sync.Mutex
	cond     *sync.Cond
	accepted []time.Time     // of each topic, the beginning of the latest publication that was
	pause    []time.Duration // the longest between two
	refused  []string        // of each topic, the latest refusal after the kill
}

func newMasterDrill(t *testing.T, masters redistest.Nodes) *masterDrill {
	t.Helper()
	n := len(masters)
	d := &masterDrill{
		t: t, c: newClusterOn(t, masters.URL()), masters: masters, dead: masters.Owner(t, "{store}"),
		topics: make([]string, n), stop: make(chan struct{}),
		accepted: make([]time.Time, n), pause: make([]time.Duration, n), refused: make([]string, n),
	}
	d.cond = sync.NewCond(&d.mu)
	d.c.sink.setHub(clusterURL, 0)
	for i, found := 0, 0; found < n; i++ {
		name := fmt.Sprint("t", i)
		if at := masters.Owner(t, topicKey(d.c.sink.topicURL(name))); d.topics[at] == "" {
			d.topics[at] = name
			found++
		}
	}
	for at, name := range d.topics {
		for i := range drillCallbacks {
			status, body, err := subscribe(d.c.address(0), d.c.sink.topicURL(name), d.c.sink.callbackURL(drillCallback(at, i)), nil)
			if err != nil || status != http.StatusAccepted {
				t.Fatalf("subscribing: %d %s %v", status, body, err)
			}
		}
	}
	d.c.sink.await(t, "the verifications", func() bool { return len(d.c.sink.verified) == n*drillCallbacks })
	for at := range d.topics {
		d.group.Go(func() { d.publish(at) })
	}
	t.Cleanup(d.end)
	for _, p := range d.c.hubs {
		eventually(t, "readiness", p.isReady)
	}
	d.c.sink.await(t, "deliveries to all", func() bool {
		for at := range d.topics {
			for i := range drillCallbacks {
				if len(d.c.sink.got[drillCallback(at, i)]) < 5 {
					return false
				}
			}
		}
		return true
	})
	return d
}

// publish publishes to a topic until the drill ends.
func (d *masterDrill) publish(at int) {
	for n := 0; ; n++ {
		select {
		case <-d.stop:
			return
		case <-time.After(30 * time.Millisecond):
		}
		begun := time.Now()
		status, text, err := publishAt(d.c.target(n), clusterURL, d.c.sink.topicURL(d.topics[at]), "text/plain", fmt.Sprint(n))
		d.mu.Lock()
		switch {
		case err != nil || status != http.StatusOK:
			d.refused[at] = fmt.Sprintf("%d %s %v", status, text, err)
		case !d.accepted[at].IsZero():
			d.pause[at] = max(d.pause[at], begun.Sub(d.accepted[at]))
			fallthrough
		default:
			d.accepted[at] = begun
		}
		d.cond.Broadcast()
		d.mu.Unlock()
	}
}

func (d *masterDrill) end() {
	select {
	case <-d.stop:
	default:
		close(d.stop)
	}
	d.group.Wait()
}

// kill kills the master.
func (d *masterDrill) kill() {
	d.t.Helper()
	d.mu.Lock()
	clear(d.refused)
	clear(d.pause)
	d.mu.Unlock()
	d.killed = time.Now()
	d.masters[d.dead].Kill(d.t)
}

// await returns when done says so, which it is asked after each publication.
func (d *masterDrill) await(what string, done func() bool) {
	d.t.Helper()
	expired := false
	timer := time.AfterFunc(time.Minute, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		expired = true
		d.cond.Broadcast()
	})
	defer timer.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for !done() {
		if expired {
			d.t.Fatalf("waited a minute in vain for %s; refused: %q", what, d.refused)
		}
		d.cond.Wait()
	}
}

// lives reports whether the shard of a subscription is on another master than the dead one.
func (d *masterDrill) lives(at, i int) bool {
	id := subscription.NewID(d.c.sink.topicURL(d.topics[at]), d.c.sink.callbackURL(drillCallback(at, i)))
	return d.masters.Owner(d.t, fmt.Sprintf("{shard-%02d}", subscription.ShardOf(id))) != d.dead
}

// check ends the drill: no publication to a topic of another master may have been refused.
func (d *masterDrill) check() {
	d.t.Helper()
	d.end()
	ended := time.Now()
	d.c.sink.mu.Lock() // deliveries go on
	defer d.c.sink.mu.Unlock()
	for at := range d.topics {
		if at != d.dead && d.refused[at] != "" {
			d.t.Errorf("a publication to the topic of master %d was refused, and master %d died: %s", at, d.dead, d.refused[at])
		}
		living, all := time.Duration(0), time.Duration(0)
		for i := range drillCallbacks {
			pause, last := time.Duration(0), d.killed
			for _, a := range slices.Concat(d.c.sink.got[drillCallback(at, i)], []arrival{{at: ended}}) {
				if a.at.After(last) {
					pause, last = max(pause, a.at.Sub(last)), a.at
				}
			}
			if all = max(all, pause); d.lives(at, i) {
				living = max(living, pause)
			}
		}
		d.t.Logf("topic of master %d (%d died): longest pause of publications %s; of deliveries by shards of the other masters %s, by all %s",
			at, d.dead, d.pause[at].Round(time.Millisecond), living.Round(time.Millisecond), all.Round(time.Millisecond))
	}
}

// topicKey is a key of a topic's log, as docs/redis-keys.md has it.
func topicKey(topicURL string) string {
	sum := sha256.Sum256([]byte(topic.Key(topicURL)))
	return "carillon:{topic-" + hex.EncodeToString(sum[:16]) + "}:log"
}

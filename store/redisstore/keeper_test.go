package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/internal/redistest"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// keeper is a process that shares the shards, and its Holder.
type keeper struct {
	t    *testing.T
	db   *redisstore.DB
	gate *gate
	stop context.CancelFunc
	done chan struct{}

	// lose is what Lost does meanwhile; nil for nothing.
	lose func(s subscription.Shard)

	mu      sync.Mutex
	held    map[subscription.Shard]uint64 // guarded by mu: epochs
	gained  int                           // guarded by mu
	lost    int                           // guarded by mu
	sure    time.Time                     // guarded by mu
	doubted []subscription.Shard          // guarded by mu: as of the latest Sure
	err     error                         // guarded by mu: what Run returned
}

// newKeeper is a process that does not run yet.
func newKeeper(t *testing.T, w *world, takeover time.Duration) *keeper {
	t.Helper()
	db, g := gated(t, w, takeover)
	return &keeper{t: t, db: db, gate: g, done: make(chan struct{}), held: make(map[subscription.Shard]uint64)}
}

// run shares the shards until the test ends, or end is called.
func (k *keeper) run() *keeper {
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	go func() {
		defer close(k.done)
		err := k.db.Shards().Run(ctx, k)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.err = err
	}()
	k.t.Cleanup(func() {
		stop()
		<-k.done
	})
	return k
}

func (k *keeper) end() {
	k.t.Helper()
	k.stop()
	<-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil || len(k.held) > 0 || k.gained != k.lost {
		k.t.Errorf("Run ended with %v and %d shards, having gained %d and lost %d", k.err, len(k.held), k.gained, k.lost)
	}
}

// Gained implements delivery.Holder.
func (k *keeper) Gained(_ context.Context, tenure delivery.Tenure) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[tenure.Shard] = tenure.Epoch
	k.gained++
	return nil
}

// Lost implements delivery.Holder.
func (k *keeper) Lost(s subscription.Shard) {
	if k.lose != nil {
		k.lose(s)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, s)
	k.lost++
}

// Sure implements delivery.Holder.
func (k *keeper) Sure(until time.Time, doubted ...subscription.Shard) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sure, k.doubted = until, doubted
}

// epochs are those of the shards that it has.
func (k *keeper) epochs() map[subscription.Shard]uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.held)
}

// until is when it is no longer sure.
func (k *keeper) until() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sure
}

// tenure is the one that it has of the shard.
func (k *keeper) tenure(s subscription.Shard) delivery.Tenure {
	return delivery.Tenure{Shard: s, Epoch: k.epochs()[s]}
}

// waitParts waits until the processes have so many shards each, and say so.
func waitParts(t *testing.T, parts map[*keeper]int) {
	t.Helper()
	eventually(t, func() error {
		for k, n := range parts {
			if got := len(k.epochs()); got != n {
				return fmt.Errorf("a process has %d shards, not %d", got, n)
			}
			state := k.db.Shards().State()
			want := redisstore.ShardState{Processes: len(parts), Fair: n, Owned: n, Joined: true, LastRenewal: state.LastRenewal}
			if state != want {
				return fmt.Errorf("the state is %+v, not %+v", state, want)
			}
		}
		return nil
	})
}

// waitNew waits until the process has every shard under an epoch above those before.
func waitNew(t *testing.T, k *keeper, before map[subscription.Shard]uint64) {
	t.Helper()
	eventually(t, func() error {
		now := k.epochs()
		for s, epoch := range before {
			if now[s] <= epoch {
				return fmt.Errorf("shard %d has epoch %d after %d", s, now[s], epoch)
			}
		}
		return nil
	})
}

func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var keepers []*keeper
	for range 3 {
		keepers = append(keepers, newKeeper(t, w, unhurried).run())
	}
	eventually(t, func() error {
		var parts []int
		all := make(map[subscription.Shard]bool)
		for _, k := range keepers {
			epochs := k.epochs()
			parts = append(parts, len(epochs))
			for s := range epochs {
				all[s] = true
			}
		}
		slices.Sort(parts)
		if !slices.Equal(parts, []int{21, 21, 22}) || len(all) != subscription.Shards {
			return fmt.Errorf("they have %d shards, %d in all", parts, len(all))
		}
		return nil
	})
	for _, k := range keepers {
		if state := k.db.Shards().State(); state.Processes != 3 || state.Fair != len(k.epochs()) {
			t.Errorf("the state is %+v", state)
		}
	}
	for _, k := range keepers {
		k.end()
		if state := k.db.Shards().State(); state != (redisstore.ShardState{}) {
			t.Errorf("after the end the state is %+v", state)
		}
	}
}

// A server that is away for longer than the takeover takes no shard from any process: when it is back,
// each goes on with its own.
func TestServerPaused(t *testing.T) {
	t.Parallel()
	const takeover = 2 * time.Second // so that both renew in time on a slow machine
	w := newWorld(t)
	a, b := newKeeper(t, w, takeover).run(), newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{a: 32, b: 32})
	before := []map[subscription.Shard]uint64{a.epochs(), b.epochs()}
	w.server.Pause(t)
	resume := sync.OnceFunc(func() { w.server.Resume(t) })
	defer resume()
	eventually(t, func() error {
		for _, k := range []*keeper{a, b} {
			if left := time.Until(k.until()) + takeover/2; left > 0 {
				return fmt.Errorf("it is sure of its shards, %s ago", left)
			}
			if k.db.Shards().State().Joined {
				return errors.New("the process believes to be a member")
			}
		}
		return nil
	})
	if !maps.Equal(a.epochs(), before[0]) || !maps.Equal(b.epochs(), before[1]) {
		t.Error("shards were lost while the server was away")
	}
	resume()
	eventually(t, func() error {
		for _, k := range []*keeper{a, b} {
			if left := time.Until(k.until()); left <= 0 {
				return errors.New("it is not sure")
			}
		}
		return nil
	})
	waitParts(t, map[*keeper]int{a: 32, b: 32})
	if !maps.Equal(a.epochs(), before[0]) || !maps.Equal(b.epochs(), before[1]) {
		t.Error("shards were lost when the server came back")
	}
}

// The first to find back does not take what the others have not renewed yet.
func TestServerBackForOneFirst(t *testing.T) {
	t.Parallel()
	const takeover = 2 * time.Second // so that the second comes in time on a slow machine
	w := newWorld(t)
	a, b := newKeeper(t, w, takeover).run(), newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{a: 32, b: 32})
	before := []map[subscription.Shard]uint64{a.epochs(), b.epochs()}
	a.gate.close()
	b.gate.close()
	eventually(t, func() error {
		for _, k := range []*keeper{a, b} {
			if age := time.Since(k.db.Shards().State().LastRenewal); age < takeover/2 {
				return fmt.Errorf("the last renewal was %s ago", age)
			}
		}
		return nil
	})
	w.server.Do(t, "DEL", w.key("{store}:members"))
	for s := range subscription.Shards {
		w.server.Do(t, "HSET", w.key(fmt.Sprintf("{shard-%02d}:cursors", s)), "!until", "1")
	}
	a.gate.open()
	eventually(t, func() error {
		if state := a.db.Shards().State(); state.Processes != 1 {
			return fmt.Errorf("the state is %+v", state)
		}
		return nil
	})
	b.gate.open()
	waitParts(t, map[*keeper]int{a: 32, b: 32})
	if !maps.Equal(a.epochs(), before[0]) || !maps.Equal(b.epochs(), before[1]) {
		t.Error("shards have changed hands")
	}
}

// A server that is restarted may have lost something: everything is read anew.
func TestServerRestarted(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]func(t *testing.T, w *world){
		"on its files": func(t *testing.T, w *world) {
			w.server.Kill(t)
			w.server.Restart(t)
		},
		"empty": func(t *testing.T, w *world) {
			w.server.Kill(t)
			w.server.Empty(t)
			w.server.Restart(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ownWorld(t)
			a, b := newKeeper(t, w, takeover).run(), newKeeper(t, w, takeover).run()
			waitParts(t, map[*keeper]int{a: 32, b: 32})
			before := a.epochs()
			maps.Copy(before, b.epochs())
			restart(t, w)
			eventually(t, func() error {
				now := a.epochs()
				maps.Copy(now, b.epochs())
				for s, epoch := range before {
					if now[s] <= epoch {
						return fmt.Errorf("shard %d has epoch %d after %d", s, now[s], epoch)
					}
				}
				return nil
			})
			waitParts(t, map[*keeper]int{a: 32, b: 32})
			a.end()
			b.end()
		})
	}
}

// An older file has epochs that were given since: they are not given again.
func TestServerRestoredFromOlderFile(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	older := filepath.Join(t.TempDir(), "older")
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	w.server.Kill(t)
	files := filepath.Join(w.server.Dir(), "appendonlydir")
	must(t, os.CopyFS(older, os.DirFS(files)))
	w.server.Restart(t)
	first := k.epochs()
	waitNew(t, k, first)
	k.end()
	last := first
	for range 3 { // epochs that the older file knows nothing of
		k = newKeeper(t, w, takeover).run()
		waitParts(t, map[*keeper]int{k: subscription.Shards})
		last = k.epochs()
		k.end()
	}
	w.server.Kill(t)
	must(t, os.RemoveAll(files))
	must(t, os.CopyFS(files, os.DirFS(older)))
	w.server.Restart(t)
	k = newKeeper(t, w, takeover).run()
	waitNew(t, k, last)
	k.end()
}

func TestScriptsFlushed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	before, sure := k.epochs(), k.until()
	w.server.Do(t, "SCRIPT", "FLUSH")
	eventually(t, func() error {
		if !k.until().After(sure.Add(takeover)) {
			return errors.New("the leases were not renewed")
		}
		return nil
	})
	if !maps.Equal(k.epochs(), before) {
		t.Error("shards were lost")
	}
	k.end()
}

func TestLeasesWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	before, sure := k.epochs(), k.until()
	w.server.Set(t, "maxmemory", "1")
	eventually(t, func() error {
		if !k.until().After(sure.Add(takeover)) {
			return errors.New("the leases were not renewed")
		}
		return nil
	})
	if !maps.Equal(k.epochs(), before) {
		t.Error("shards were lost")
	}
	s := subscription.Shard(3)
	must(t, k.db.Marks().Mark(t.Context(), k.tenure(s), map[string]delivery.Seq{topicURL: 5}))
	must(t, k.db.Cursors().Save(t.Context(), []delivery.Batch{{Tenure: k.tenure(s)}}))
	another := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: 32, another: 32})
}

// A process that ends keeps its shards until it has finished with them, however long that takes, and
// gives each up as soon as it has.
func TestSlowEnd(t *testing.T) {
	t.Parallel()
	const takeover = 2 * time.Second // so that a renews in time on a slow machine
	w := newWorld(t)
	a, b := newKeeper(t, w, takeover), newKeeper(t, w, takeover)
	losing, finish := make(chan subscription.Shard), make(chan struct{})
	a.lose = func(s subscription.Shard) {
		losing <- s
		<-finish
	}
	a.run()
	waitParts(t, map[*keeper]int{a: subscription.Shards})
	a.stop()
	first := <-losing
	b.run()
	sure := a.until()
	eventually(t, func() error { // a's lease as it was at the end would have run out
		if !a.until().After(sure.Add(2 * takeover)) {
			return errors.New("the leases are not renewed at the end")
		}
		return nil
	})
	if n := len(b.epochs()); n > 0 {
		t.Fatalf("%d shards were taken from a process that has not finished with them", n)
	}
	finish <- struct{}{}
	second := <-losing
	eventually(t, func() error {
		if b.epochs()[first] == 0 {
			return errors.New("the other has not got the shard")
		}
		return nil
	})
	if n := len(b.epochs()); n != 1 || b.epochs()[second] != 0 {
		t.Errorf("the other has %d shards", n)
	}
	go func() {
		for range losing {
		}
	}()
	close(finish)
	<-a.done
	close(losing)
	waitParts(t, map[*keeper]int{b: subscription.Shards})
}

func TestEndWhileServerIsAway(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(t *testing.T, k *keeper, w *world){
		"gone":   func(_ *testing.T, k *keeper, _ *world) { k.gate.close() },
		"silent": func(t *testing.T, _ *keeper, w *world) { w.server.Pause(t); t.Cleanup(func() { w.server.Resume(t) }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k := newKeeper(t, w, takeover).run()
			waitParts(t, map[*keeper]int{k: subscription.Shards})
			away(t, k, w)
			k.end() // or the test's own limit ends it
		})
	}
}

func TestShardMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reg := prometheus.NewRegistry()
	w.cfg.Registerer = reg
	k := newKeeper(t, w, takeover)
	want := func(processes, fair, owned float64, renewed bool) {
		t.Helper()
		got := make(map[string]float64)
		families, err := reg.Gather()
		must(t, err)
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		if got["carillon_redis_processes"] != processes || got["carillon_redis_shards_fair"] != fair ||
			got["carillon_redis_shards_owned"] != owned || got["carillon_redis_lease_renewal_timestamp_seconds"] > 0 != renewed {
			t.Errorf("the metrics are %v", got)
		}
	}
	want(0, 0, 0, false)
	k.run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	want(1, subscription.Shards, subscription.Shards, true)
}

func TestRunTwice(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, newWorld(t), takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	if err := k.db.Shards().Run(t.Context(), k); err == nil {
		t.Fatal("a second Run beside the first was taken")
	}
	k.end()
	must(t, k.db.Shards().Run(canceled(t), k)) // and the first is over
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Where one node of a Cluster is away its shards are lost, and the others are worked on.
func TestSharesOnACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	w := worldOn(t, nodes[0], nodes.URL())
	w.db.SetTakeover(takeover)
	k := &keeper{t: t, db: w.db, done: make(chan struct{}), held: make(map[subscription.Shard]uint64)}
	k.run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	var batches []delivery.Batch
	for s := range subscription.Shard(subscription.Shards) {
		batches = append(batches, delivery.Batch{Tenure: k.tenure(s)})
		must(t, w.db.Marks().Mark(t.Context(), k.tenure(s), map[string]delivery.Seq{topicURL: delivery.Seq(s) + 5}))
	}
	must(t, w.db.Cursors().Save(t.Context(), batches))
	lowest, ok, err := w.db.Marks().Lowest(t.Context(), begin)
	if must(t, err); !ok || lowest[topicURL] != 5 {
		t.Fatalf("the lowest marks are %v, ok is %v", lowest, ok)
	}

	for _, node := range nodes {
		if _, err := node.Try("EXISTS", "carillon:{store}:members"); err != nil { // it is on another node
			node.Kill(t)
			break
		}
	}
	eventually(t, func() error {
		if n := len(k.epochs()); n == subscription.Shards || n == 0 {
			return fmt.Errorf("the process has %d shards", n)
		}
		return nil
	})
	sure := k.until()
	eventually(t, func() error {
		if !k.until().After(sure.Add(takeover)) {
			return errors.New("it is not sure of the other shards")
		}
		return nil
	})
}

// Where a single server refuses one question of many, its processes go on with the rest, and nothing is said
// of a Cluster.
func TestOneServerIsNoCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := worldOn(t, server, server.URL())
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	before := k.db.Warnings()
	// At once: in between, the process would make the key again.
	server.Do(t, "EVAL", "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'damaged')",
		"1", "carillon:{store}")
	sure := k.until()
	eventually(t, func() error {
		if !k.until().After(sure.Add(takeover)) {
			return errors.New("it is not sure of its shards")
		}
		return nil
	})
	if got := k.db.Warnings(); !slices.Equal(got, before) {
		t.Errorf("warnings: %q", got)
	}
}

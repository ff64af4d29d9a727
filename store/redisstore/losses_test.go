package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon/internal/redistest"
	"carillon/subscription"
)

// lossLog is a log that several may write to and read.
type lossLog struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *lossLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lossLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lossLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// wantEmptied waits until a loss was reported so often, once each.
func wantEmptied(t *testing.T, k *keeper, log *lossLog, reg *prometheus.Registry, times int) {
	t.Helper()
	eventually(t, func() error {
		if n := len(k.db.Warnings()); n < times {
			return fmt.Errorf("there are %d warnings, not %d", n, times)
		}
		return nil
	})
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	if got := k.db.Warnings(); len(got) != times || !strings.Contains(got[times-1], "emptied") {
		t.Errorf("got the warnings %q, want %d", got, times)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != times {
		t.Errorf("the log has %d errors, want %d:\n%s", n, times, log)
	}
	must(t, testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
# HELP carillon_redis_emptied_total How often the store was found emptied, or replaced by another.
# TYPE carillon_redis_emptied_total counter
carillon_redis_emptied_total %d
`, times)), "carillon_redis_emptied_total"))
}

// A node of a Cluster that loses its data need not be the one by which the store is known.
func TestANodeIsEmptied(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	w := worldOn(t, nodes[0], nodes.URL())
	log, reg := new(lossLog), prometheus.NewRegistry()
	w.cfg.Logger, w.cfg.Registerer = log.logger(), reg
	db := w.open(t)
	db.SetTakeover(takeover)
	k := (&keeper{t: t, db: db, done: make(chan struct{}), held: make(map[subscription.Shard]uint64)}).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	for _, node := range nodes {
		if _, err := node.Try("EXISTS", "carillon:{store}"); err != nil { // it is on another node
			node.Do(t, "FLUSHALL")
			break
		}
	}
	wantEmptied(t, k, log, reg, 1)
}

// A loss is reported once, also where the process did not have the shard at that moment.
func TestAShardIsEmptied(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	log, reg := new(lossLog), prometheus.NewRegistry()
	w.cfg.Logger, w.cfg.Registerer = log.logger(), reg
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	key := w.key("{shard-05}:cursors")
	w.server.Do(t, "DEL", key)
	wantEmptied(t, k, log, reg, 1)

	w.server.Do(t, "HSET", key, "!owner", "another", "!until", "9000000000000")
	eventually(t, func() error {
		if k.epochs()[5] != 0 {
			return errors.New("the shard is still there")
		}
		return nil
	})
	w.server.Do(t, "DEL", key)
	wantEmptied(t, k, log, reg, 2)

	w.server.Do(t, "FLUSHALL") // which the store's identity shows, too
	wantEmptied(t, k, log, reg, 3)
}

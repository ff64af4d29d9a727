package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon/internal/redistest"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// submit makes one change.
func submit(t *testing.T, db *redisstore.DB) error {
	return db.Subscriptions().Submit(t.Context(), request(1))
}

func TestScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		must(t, submit(t, w.db))
		w.server.Do(t, "SCRIPT", "FLUSH")
	}
	work(t, w.db)
}

// TestTroubleIsUnavailable brings a server into every state in which it refuses, and
// out of it again.
func TestTroubleIsUnavailable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "min-replicas-max-lag 1")
	replica := redistest.Start(t)
	w := worldOn(t, server, server.URL())
	for name, trouble := range map[string]struct{ begin, end func(t *testing.T) }{
		"READONLY": {
			func(t *testing.T) {
				host, port, _ := strings.Cut(replica.Addr(), ":")
				server.Do(t, "REPLICAOF", host, port)
			},
			func(t *testing.T) { server.Do(t, "REPLICAOF", "NO", "ONE") },
		},
		"NOREPLICAS": {
			func(t *testing.T) { server.Set(t, "min-replicas-to-write", "1") },
			func(t *testing.T) { server.Set(t, "min-replicas-to-write", "0") },
		},
		"OOM": {
			func(t *testing.T) { server.Set(t, "maxmemory", "1") },
			func(t *testing.T) { server.Set(t, "maxmemory", "0") },
		},
		"NOPERM": {
			func(t *testing.T) { server.Do(t, "ACL", "SETUSER", "default", "-evalsha") },
			func(t *testing.T) { server.Do(t, "ACL", "SETUSER", "default", "+evalsha") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, submit(t, w.db))
			trouble.begin(t)
			wantError(t, submit(t, w.db), subscription.ErrUnavailable)
			trouble.end(t)
			eventually(t, func() error { return submit(t, w.db) })
		})
	}
}

func TestAServerWithTooManyClients(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.server.Set(t, "maxclients", "1") // w.db is the one
	db := openOnly(t, w.cfg)
	wantError(t, submit(t, db), subscription.ErrUnavailable)
	closeDB(t, w.db)
	eventually(t, func() error { return submit(t, db) })
}

func restart(t *testing.T, server *redistest.Server) {
	t.Helper()
	server.Kill(t)
	server.Restart(t)
}

func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	must(t, submit(t, w.db))
	w.server.Do(t, "CONFIG", "RESETSTAT")
	w.server.Pause(t)
	began := time.Now()
	wantError(t, submit(t, w.db), subscription.ErrUnavailable)
	own := time.Since(began) // the limit of the client
	w.server.Resume(t)
	if n := scripts(t, w.server); n != 1 { // the server has it, as the connection was open
		t.Errorf("the server ran %d scripts, want the one", n)
	}

	w.server.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began = time.Now()
	wantError(t, w.db.Subscriptions().Submit(ctx, request(1)), subscription.ErrUnavailable)
	if took := time.Since(began); took > own {
		t.Errorf("the caller's limit was 50 ms, and the call was held for %s, longer than without (%s)", took, own)
	}
	w.server.Resume(t)
	eventually(t, func() error { return submit(t, w.db) })
}

// scripts reports how many the server has run.
func scripts(t *testing.T, server *redistest.Server) (count int) {
	t.Helper()
	stats := server.Do(t, "INFO", "commandstats").(string)
	for line := range strings.Lines(stats) {
		var n int
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &n); err == nil {
			count += n
		}
	}
	return count
}

// TestAnAnswerIsLost: a call whose answer is lost was made once, as the client does not
// repeat it, neither that of one server nor that of a Cluster.
func TestAnAnswerIsLost(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(t *testing.T) (*redistest.Server, string){
		"one server": func(t *testing.T) (*redistest.Server, string) { return redistest.Start(t), "redis://" },
		"a Cluster": func(t *testing.T) (*redistest.Server, string) {
			bus := loopback(t)
			port := bus.Addr().(*net.TCPAddr).Port
			must(t, bus.Close())
			server := redistest.Start(t, "cluster-enabled yes", fmt.Sprint("cluster-port ", port))
			server.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
			return server, "redis+cluster://"
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, scheme := arrange(t)
			r := request(2)
			seen, lose := make(chan struct{}), make(chan struct{})
			close(lose)
			addr := between(t, server.Addr(), []byte(r.Callback), seen, lose)
			if scheme == "redis+cluster://" {
				server.Set(t, "cluster-announce-port", strings.TrimPrefix(addr, "127.0.0.1:"))
			}
			w := worldOn(t, server, scheme+addr)
			must(t, submit(t, w.db))
			server.Do(t, "CONFIG", "RESETSTAT")
			wantError(t, w.db.Subscriptions().Submit(t.Context(), r), subscription.ErrUnavailable)
			if n := scripts(t, server); n != 1 {
				t.Errorf("the call was made %d times, want once", n)
			}
			select {
			case <-seen:
			default:
				t.Error("no answer was lost, which tests nothing")
			}
		})
	}
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return l
}

func TestAServerThatIsBusy(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, "busy-reply-threshold 50")
	go func() { _, _ = w.server.Try("EVAL", "while true do end", "0") }() // until it is killed
	eventually(t, func() error {
		if err := submit(t, w.db); err == nil || !strings.Contains(err.Error(), "BUSY") {
			return fmt.Errorf("the server is not busy: %w", err)
		} else if !errors.Is(err, subscription.ErrUnavailable) {
			t.Fatal(err)
		}
		return nil
	})
	w.server.Do(t, "SCRIPT", "KILL")
	eventually(t, func() error { return submit(t, w.db) })
}

func TestAStoreThatIsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	closeDB(t, w.db)
	wantError(t, submit(t, w.db), subscription.ErrUnavailable)
	wantError(t, w.db.Ready(t.Context()), subscription.ErrUnavailable)
	_, err := w.db.Restore().Empty(t.Context())
	wantError(t, err, subscription.ErrUnavailable)
	closeDB(t, w.db)
}

func TestRestartsAreNotSeenByTheNextCall(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	must(t, submit(t, w.db))
	restart(t, w.server)
	must(t, submit(t, w.db)) // the connection that the server has closed is not used
}

// TestADefectIsTold: an error that no state of a server explains is in the log, once, and counted.
func TestADefectIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	w.cfg.Logger, w.cfg.Registerer = slog.New(slog.NewTextHandler(&log, nil)), registry
	db := w.open(t)
	r := request(1)
	key := fmt.Sprintf("%s:{shard-%02d}:requests", prefixOf(w), subscription.ShardOf(r.ID))
	w.server.Do(t, "SET", key, "of the wrong type")
	for range 3 {
		wantError(t, db.Subscriptions().Submit(t.Context(), r), subscription.ErrUnavailable)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "WRONGTYPE") {
		t.Errorf("the log tells of the defect %d times, want once:\n%s", n, log.String())
	}
	must(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP carillon_redis_errors_total Calls that failed, by class: network, refused (the server's state), memory (OOM), replicas, and script, a defect.
# TYPE carillon_redis_errors_total counter
carillon_redis_errors_total{class="memory"} 0
carillon_redis_errors_total{class="network"} 0
carillon_redis_errors_total{class="refused"} 0
carillon_redis_errors_total{class="replicas"} 0
carillon_redis_errors_total{class="script"} 3
`), "carillon_redis_errors_total"))
}

// TestMemoryIsFull: changes that would grow are refused before anything is written, and those that
// settle or end go on.
func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	s := w.db.Subscriptions()
	waiting, ending := request(1), request(2)
	must(t, s.Submit(t.Context(), waiting))
	must(t, s.Submit(t.Context(), ending))
	must(t, s.Activate(t.Context(), ending, granted(ending)))
	before := w.server.Do(t, "DBSIZE")
	w.server.Set(t, "maxmemory", "1")
	for n := range 50 {
		if err := s.Submit(t.Context(), request(100+n)); !errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
			t.Fatalf("got error %v, want %v", err, subscription.ErrUnavailable)
		}
	}
	if after := w.server.Do(t, "DBSIZE"); after != before {
		t.Errorf("there were %v keys, and are %v", before, after)
	}
	ready(t, w.db)
	must(t, s.Activate(t.Context(), waiting, granted(waiting)))
	removed, err := s.Remove(t.Context(), granted(ending))
	if must(t, err); !removed {
		t.Error("the subscription was not removed")
	}
	expired, err := s.Expired(t.Context(), subscription.ShardOf(waiting.ID), granted(waiting).Expires, 9)
	if must(t, err); len(expired) != 1 {
		t.Errorf("%d subscriptions have expired, want 1", len(expired))
	}
	w.server.Set(t, "maxmemory", "0")
	must(t, s.Submit(t.Context(), ending))
}

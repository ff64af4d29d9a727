package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/store/redisstore"
)

// TestNoNumberIsGivenTwiceThoughTheClockWentBack: the clock of the server is an hour behind
// what it gave, and it loses the end of what it acknowledged.
func TestNoNumberIsGivenTwiceThoughTheClockWentBack(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	ahead := delivery.Seq(time.Now().Add(time.Hour).Unix()-time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) * 65536
	must(t, w.db.Restore().PutTopics(t.Context(), []delivery.TopicState{{Topic: topicURL, Head: ahead}}))
	w.server.Do(t, "HSET", prefixOf(w)+":{pings}:count", "last", fmt.Sprint(ahead))
	publish(t, w.db, topicURL, 1)
	ping(t, w.db, topicURL)
	files, old := filepath.Join(w.server.Dir(), "appendonlydir"), filepath.Join(t.TempDir(), "old")
	copyFiles(t, files, old) // all that was answered is in them: appendfsync always
	lost, lostPing := publish(t, w.db, topicURL, 2), ping(t, w.db, topicURL)[0]
	w.server.Kill(t)
	copyFiles(t, old, files)
	w.server.Restart(t)
	next, nextPing := publish(t, w.db, topicURL, 3), ping(t, w.db, topicURL)[0]
	if next.Seq <= lost.Seq || nextPing.Count <= lostPing.Count {
		t.Errorf("number %d after %d, count %d after %d", next.Seq, lost.Seq, nextPing.Count, lostPing.Count)
	}
}

// TestATopicThatWasTrimmedToNothingKeepsItsHeadAlone, and goes on above it.
func TestATopicThatWasTrimmedToNothingKeepsItsHeadAlone(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	head := publish(t, w.db, topicURL, 1).Seq
	trim(t, w.db.Log(), topicURL, delivery.MaxSeq, begin.Add(time.Hour))
	keys := w.server.Do(t, "KEYS", prefixOf(w)+":{topic-*").([]any)
	if len(keys) != 1 || !strings.HasSuffix(keys[0].(string), ":head") {
		t.Errorf("left are %v, want the head alone", keys)
	}
	if got := states(t, w.db)[topicURL]; got.Head != head || got.First != head+1 || got.Last.Until != "2" {
		t.Errorf("listed as %+v, want nothing behind %d", got, head)
	}
	_, err := w.db.Log().Read(t.Context(), topicURL, 0)
	wantError(t, err, delivery.ErrEndOfLog)
	if next := publish(t, w.db, topicURL, 2); next.Seq != head+1 || next.Previous != "2" {
		t.Errorf("afterwards: got %+v, want %d after 2", next, head+1)
	}
	if got := readAll(t, w.db, topicURL); len(got) != 1 || got[0].After != head {
		t.Errorf("the log has %v, want one after %d", got, head)
	}
}

// TestADamagedHead expects an error from every way of asking, and no effect on other topics.
func TestADamagedHead(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, w *world, key string){
		"no number":      func(t *testing.T, w *world, key string) { w.server.Do(t, "HSET", key, "head", "x") },
		"the wrong type": func(t *testing.T, w *world, key string) { w.server.Do(t, "DEL", key); w.server.Do(t, "SET", key, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var log bytes.Buffer
			metrics := prometheus.NewRegistry()
			w.cfg.Logger, w.cfg.Registerer = slog.New(slog.NewTextHandler(&log, nil)), metrics
			db := w.open(t)
			publish(t, db, topicURL, 1)
			key := w.server.Do(t, "KEYS", prefixOf(w)+":*:head").([]any)[0].(string)
			other := publish(t, db, topicURL+"other", 1).Seq
			damage(t, w, key)
			for range 2 {
				_, err := db.Log().Heads(t.Context(), []string{topicURL + "other", topicURL})
				wantDamaged(t, err)
				_, err = db.Log().Append(t.Context(), second(topicURL, 2), uuid.New(), begin)
				wantDamaged(t, err)
				if got := states(t, db); len(got) != 1 || got[topicURL+"other"].Head != other {
					t.Errorf("listed are %v, want the other alone", got)
				}
			}
			if n := strings.Count(log.String(), "damaged and passed over"); n != 1 || !strings.Contains(log.String(), key) {
				t.Errorf("the log tells of it %d times, want once:\n%s", n, log.String())
			}
			wantMetric(t, metrics, "carillon_redis_damaged_records_total", 1)
		})
	}
}

// wantDamaged wants a permanent error: a caller that asks for many looks for the one.
func wantDamaged(t *testing.T, err error) {
	t.Helper()
	wantError(t, err, redisstore.ErrDamaged)
	if errors.Is(err, delivery.ErrUnavailable) {
		t.Fatalf("it passes for a server that is away: %v", err)
	}
}

// TestADamagedHeadIsMendedByAnImport that knows it.
func TestADamagedHeadIsMendedByAnImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := publish(t, w.db, topicURL, 1).Seq
	key := w.server.Do(t, "KEYS", prefixOf(w)+":*:head").([]any)[0].(string)
	w.server.Do(t, "HSET", key, "head", "x")
	must(t, w.db.Restore().PutTopics(t.Context(), []delivery.TopicState{{Topic: topicURL, Head: head}}))
	if next := publish(t, w.db, topicURL, 2).Seq; next <= head {
		t.Errorf("number %d after %d", next, head)
	}
}

// TestABodyIsSentOnce, also to a server that is new, or has forgotten the scripts, and not at
// all where it was handed in before.
func TestABodyIsSentOnce(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	p := second(topicURL, 1)
	p.Body = make([]byte, 1<<20)
	send := func() delivery.Receipt {
		receipt, err := w.db.Log().Append(t.Context(), p, uuid.New(), begin)
		must(t, err)
		return receipt
	}
	heard := func(f func()) int {
		before := traffic(t, w, "total_net_input_bytes")
		f()
		return traffic(t, w, "total_net_input_bytes") - before
	}
	most := len(p.Body) + 100_000
	w.server.Do(t, "SCRIPT", "FLUSH")
	var first, again delivery.Receipt
	if got := heard(func() { first = send() }); got > most {
		t.Errorf("%d bytes were sent for a new topic, want %d at most", got, most)
	}
	if got := heard(func() { again = send() }); got > 100_000 || !again.Repeated || again.ID != first.ID {
		t.Errorf("%d bytes were sent for what was there: %+v", got, again)
	}
	w.crash(t)
	p.Until = "3"
	if got := heard(func() { again = send() }); got > most || again.Previous != "2" {
		t.Errorf("%d bytes were sent after a restart, want %d at most: %+v", got, most, again)
	}
}

// traffic is how much the server has heard or sent, by its own count.
func traffic(t *testing.T, w *world, name string) int {
	t.Helper()
	for line := range strings.Lines(w.server.Do(t, "INFO", "stats").(string)) {
		if text, found := strings.CutPrefix(line, name+":"); found {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			must(t, err)
			return n
		}
	}
	t.Fatalf("the server does not say %s", name)
	return 0
}

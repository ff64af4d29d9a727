package redisstore_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"carillon/store/redisstore"
	"carillon/subscription"
	"carillon/transfer/transfertest"
)

// A store of format 1 that has keys of an earlier form is refused and left as it is; an export
// of it goes into a store of this format with nothing lost.
func TestFormerKeys(t *testing.T) {
	w := newWorld(t)
	open := func(former bool) *redisstore.DB {
		cfg := w.cfg
		cfg.FormerKeys, cfg.Process = former, ""
		db, err := redisstore.Open(cfg)
		must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	store := prefixOf(w) + ":{store}"
	w.server.Do(t, "HSET", store, "format", "1")
	db := open(true)
	must(t, db.Ready(t.Context()))
	transfertest.PutFormer(t, transfertest.Engine(db))

	err := open(false).Ready(t.Context())
	if err == nil || errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), "7 of its records") ||
		!strings.Contains(err.Error(), "hub export") {
		t.Fatalf("got error %v, want a refusal for %d records", err, transfertest.FormerRecords)
	}
	if got := w.server.Do(t, "HGET", store, "format"); got != "1" {
		t.Errorf("the refused store has format %v", got)
	}
	db = open(true)
	must(t, db.Ready(t.Context()))
	var stream bytes.Buffer
	transfertest.Export(t, transfertest.Engine(db), &stream)

	empty := newWorld(t)
	must(t, empty.db.Ready(t.Context()))
	transfertest.WantFormer(t, transfertest.Engine(empty.db), &stream)
}

// A store of format 1 whose keys are all as they are now is of format 2 once no process of an
// earlier version works on it.
func TestNoFormerKeys(t *testing.T) {
	w := newWorld(t)
	store, members := prefixOf(w)+":{store}", prefixOf(w)+":{store}:members"
	w.server.Do(t, "HSET", store, "format", "1")
	w.server.Do(t, "ZADD", members, "9999999999999", "old")
	err := w.db.Ready(t.Context())
	if !errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), "1 hubs of an older version") {
		t.Errorf("beside an older hub: error %v, want ErrUnavailable", err)
	}
	if got := w.server.Do(t, "HGET", store, "format"); got != "1" {
		t.Errorf("beside an older hub the store has format %v", got)
	}
	w.server.Do(t, "ZREM", members, "old")
	must(t, w.db.Ready(t.Context()))
	if got := w.server.Do(t, "HGET", store, "format"); got != "2" {
		t.Errorf("the store has format %v, want 2", got)
	}
}

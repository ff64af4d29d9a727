package redisstore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/subscription"
)

// inShard gives requests of one shard.
func inShard(shard subscription.Shard, count int) (list []subscription.Request) {
	for n := 0; len(list) < count; n++ {
		if r := request(n); subscription.ShardOf(r.ID) == shard {
			list = append(list, r)
		}
	}
	return list
}

func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.MaxRequests = 3
	s := w.open(t).Subscriptions()
	list := inShard(5, 4)
	for _, r := range list[:3] {
		must(t, s.Submit(t.Context(), r))
	}
	wantError(t, s.Submit(t.Context(), list[3]), subscription.ErrBusy)
	must(t, s.Submit(t.Context(), list[0]))          // it takes its own place
	must(t, s.Submit(t.Context(), inShard(6, 1)[0])) // each shard has its own bound
	must(t, s.Drop(t.Context(), list[1]))
	must(t, s.Submit(t.Context(), list[3]))
}

// TestScansSeeEachRequestOnce reads a hash that has outgrown the compact form, in several parts.
func TestScansSeeEachRequestOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const count = 1500
	s := w.db.Subscriptions()
	for _, r := range inShard(9, count) {
		must(t, s.Submit(t.Context(), r))
	}
	seen := make(map[subscription.ID]bool)
	for r, err := range s.Requests(t.Context(), 9) {
		if must(t, err); seen[r.ID] {
			t.Fatalf("%s came twice", r.ID)
		}
		seen[r.ID] = true
	}
	if len(seen) != count {
		t.Errorf("%d requests came, want %d", len(seen), count)
	}
	for range s.Requests(t.Context(), 9) {
		break // a reader that stops is not called again
	}
}

func TestLongListsOfTheExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const count = 1200
	s := w.db.Subscriptions()
	var members []delivery.Member
	for i, r := range inShard(3, count) {
		sub := granted(r)
		sub.Expires = sub.Expires.Add(time.Duration(count-i) * time.Nanosecond)
		members = append(members, delivery.Member{Subscription: sub})
	}
	must(t, w.db.Restore().PutMembers(t.Context(), members))
	end := members[0].Expires
	for _, limit := range []int{1, 499, 500, 501, count, count + 1} {
		expired, err := s.Expired(t.Context(), 3, end, limit)
		if must(t, err); len(expired) != min(limit, count) {
			t.Fatalf("%d of at most %d came", len(expired), limit)
		}
		for i, sub := range expired {
			if sub != members[count-1-i].Subscription {
				t.Fatalf("number %d is %+v, want %+v", i, sub, members[count-1-i].Subscription)
			}
		}
	}
	almost, err := s.Expired(t.Context(), 3, end.Add(-time.Nanosecond), count)
	if must(t, err); len(almost) != count-1 {
		t.Errorf("a nanosecond before, %d have expired, want %d", len(almost), count-1)
	}
}

// TestDamagedRecords expects damaged records to be logged once and passed over; a new subscription
// finds the way free.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bytes.Buffer
	w.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := w.open(t).Subscriptions()
	list := inShard(7, 3)
	broken, whole := list[0], list[1]
	for _, r := range list[:2] {
		must(t, s.Submit(t.Context(), r))
		must(t, s.Activate(t.Context(), r, granted(r)))
		must(t, s.Submit(t.Context(), r))
	}
	hash := func(name string) string { return fmt.Sprintf("%s:{shard-07}:%s", prefixOf(w), name) }
	w.server.Do(t, "HSET", hash("subs"), broken.ID.String(), "1 nonsense")
	w.server.Do(t, "HSET", hash("requests"), broken.ID.String(), "9 nonsense", "no id", "x")

	for range 2 {
		_, err := s.Get(t.Context(), broken.ID)
		wantError(t, err, subscription.ErrNotFound)
		_, err = s.Request(t.Context(), broken.ID)
		wantError(t, err, subscription.ErrNotFound)
		for r, err := range s.Requests(t.Context(), 7) {
			if must(t, err); r != whole {
				t.Errorf("got the request %+v", r)
			}
		}
		expired, err := s.Expired(t.Context(), 7, granted(whole).Expires, 1)
		if must(t, err); len(expired) != 1 || expired[0].ID != whole.ID {
			t.Errorf("got the expired %+v", expired)
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 3 {
		t.Errorf("the log tells of %d damaged records, want 3:\n%s", n, log.String())
	}
	// The request that cannot be read is the one that is settled.
	later := granted(broken)
	later.Expires = later.Expires.Add(time.Hour)
	must(t, s.Activate(t.Context(), broken, later))
	expired, err := s.Expired(t.Context(), 7, later.Expires, 9)
	if must(t, err); len(expired) != 2 {
		t.Errorf("got the expired %+v", expired)
	}
	if n := w.server.Do(t, "ZCARD", hash("leases")); n != int64(2) {
		t.Errorf("the index has %v entries, want 2", n)
	}
}

// TestManyDamagedRecords expects a bound on the log lines and none on the counter; another defect is
// logged all the same.
func TestManyDamagedRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log, registry := new(lossLog), prometheus.NewRegistry()
	w.cfg.Logger, w.cfg.Registerer = log.logger(), registry
	db := w.open(t)
	key := w.key("{shard-07}:requests")
	set := []string{"HSET", key}
	for n := range 1100 {
		set = append(set, fmt.Sprint("no id ", n), "x")
	}
	w.server.Do(t, set...)
	for _, err := range db.Subscriptions().Requests(t.Context(), 7) {
		must(t, err)
	}
	metric := func() float64 {
		families, err := registry.Gather()
		must(t, err)
		for _, f := range families {
			if f.GetName() == "carillon_redis_damaged_records_total" {
				return f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		return 0
	}
	if n := metric(); n != 1100 {
		t.Errorf("%v damaged records are counted, want 1100", n)
	}
	w.server.Do(t, "DEL", key)
	w.server.Do(t, "SET", key, "of the wrong type")
	wantError(t, db.Subscriptions().Submit(t.Context(), inShard(7, 1)[0]), subscription.ErrUnavailable)
	if n := strings.Count(log.String(), "level=ERROR"); n != 1001 || !strings.Contains(log.String(), "WRONGTYPE") {
		t.Errorf("the log has %d errors, want 1001, with that of the defect", n)
	}
}

// TestADamagedRecordThatExpires: one whose beginning can be read stands first among the
// expired, and does not hide those behind it.
func TestADamagedRecordThatExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.db.Subscriptions()
	list := inShard(7, 4)
	for i, r := range list {
		sub := granted(r)
		sub.Expires = sub.Expires.Add(time.Duration(i) * time.Second)
		must(t, s.Submit(t.Context(), r))
		must(t, s.Activate(t.Context(), r, sub))
	}
	key := fmt.Sprintf("%s:{shard-07}:subs", prefixOf(w))
	for _, r := range list[:2] {
		record := w.server.Do(t, "HGET", key, r.ID.String()).(string)
		w.server.Do(t, "HSET", key, r.ID.String(), record[:30])
	}
	expired, err := s.Expired(t.Context(), 7, granted(list[0]).Expires.Add(time.Hour), 1)
	if must(t, err); len(expired) != 1 || expired[0].ID != list[2].ID {
		t.Errorf("got the expired %+v", expired)
	}
}

func TestEndingTakesEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.db.Subscriptions()
	for i, end := range []func(r subscription.Request) error{
		func(r subscription.Request) error {
			_, err := s.Remove(t.Context(), granted(r))
			return err
		},
		func(r subscription.Request) error {
			r.Token = uuid.New()
			if err := s.Submit(t.Context(), r); err != nil {
				return err
			}
			return s.Unsubscribe(t.Context(), r)
		},
	} {
		r := request(i)
		member := delivery.Member{Subscription: granted(r), Position: delivery.Position{Settled: 9}}
		must(t, w.db.Restore().PutMembers(t.Context(), []delivery.Member{member}))
		must(t, w.db.Restore().PutGaps(t.Context(), []delivery.Gap{{Subscription: r.ID, First: 8, Last: 8, Reason: delivery.GapGivenUp}}))
		must(t, end(r))
		keys := w.server.Do(t, "KEYS", prefixOf(w)+":{shard-*").([]any)
		if len(keys) != 0 {
			t.Errorf("way %d of ending leaves %v", i, keys)
		}
	}
}

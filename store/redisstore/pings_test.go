package redisstore_test

import (
	"fmt"
	"testing"

	"carillon/delivery"
	"carillon/delivery/deliverytest"
	"carillon/store/redisstore"
	"carillon/subscription"
	"carillon/topic"
)

func TestPings(t *testing.T) { deliverytest.RunPings(t, deliveryHarness) }

func ping(t *testing.T, db *redisstore.DB, topics ...string) []delivery.Ping {
	t.Helper()
	pings, err := db.Pings().Ping(t.Context(), addresses(topics))
	must(t, err)
	return pings
}

func addresses(topics []string) []topic.Address {
	all := make([]topic.Address, len(topics))
	for i, one := range topics {
		all[i] = topic.Parse(one)
	}
	return all
}

// waiting lists the pings, by topic.
func waiting(t *testing.T, db *redisstore.DB) map[string]uint64 {
	t.Helper()
	all := make(map[string]uint64)
	for one, err := range db.Pings().Waiting(t.Context()) {
		must(t, err)
		all[one.Topic.String()] = one.Count
	}
	return all
}

func TestPingsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.MaxPings = 3
	db := w.open(t)
	first := ping(t, db, "http://a.example/", "http://b.example/")
	for _, topics := range [][]string{
		{"http://c.example/", "http://d.example/"},
		{"http://a.example/", "http://c.example/", "http://d.example/"},
	} {
		_, err := db.Pings().Ping(t.Context(), addresses(topics))
		wantError(t, err, subscription.ErrBusy)
		if got := waiting(t, db); len(got) != 2 || got["http://a.example/"] != first[0].Count {
			t.Fatalf("a refused call has left %v", got)
		}
	}
	ping(t, db, "http://c.example/", "http://a.example/")
	ping(t, db, "http://a.example/", "http://b.example/", "http://c.example/", "http://%61.example/")
	left, err := db.Pings().Fetched(t.Context(), delivery.Ping{Topic: topic.Parse("http://b.example/"), Count: waiting(t, db)["http://b.example/"]})
	if err != nil || left != nil {
		t.Fatalf("left is %v, error %v", left, err)
	}
	ping(t, db, "http://d.example/")
	w.cfg.MaxPings = 1
	ping(t, w.open(t), "http://d.example/") // it waits already, though there are too many
}

func TestACountRisesThoughTheLastOneWasLost(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	first := ping(t, w.db, topicURL, topicURL+"2")
	w.server.Do(t, "DEL", keyOf(t, w, "count"))
	second := ping(t, w.db, topicURL)
	if second[0].Count <= first[1].Count {
		t.Errorf("count %d after %d", second[0].Count, first[1].Count)
	}
	left, err := w.db.Pings().Fetched(t.Context(), first[0])
	must(t, err)
	if left == nil || *left != second[0] {
		t.Errorf("left is %v, want %v", left, second[0])
	}
}

func TestADamagedPingIsLeftOut(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	damaged := ping(t, w.db, topicURL, topicURL+"2")[0]
	w.server.Do(t, "HSET", keyOf(t, w, "waiting"), topicURL, "rubbish")
	w.server.Do(t, "HSET", keyOf(t, w, "waiting"), "other", "7 "+topicURL)
	if got := waiting(t, w.db); len(got) != 1 || got[topicURL+"2"] == 0 {
		t.Errorf("waiting are %v, want the other alone", got)
	}
	left, err := w.db.Pings().Fetched(t.Context(), damaged)
	if err != nil || left != nil {
		t.Errorf("left is %v, error %v", left, err)
	}
	if there := w.server.Do(t, "HEXISTS", keyOf(t, w, "waiting"), topicURL); there != int64(0) {
		t.Error("the damaged ping is still there after its topic was fetched")
	}
}

func TestManyPingsInOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	topics := make([]string, 10_000)
	for i := range topics {
		topics[i] = fmt.Sprintf("http://source.example/%d", i)
	}
	ping(t, w.db, topics...)
	if got := waiting(t, w.db); len(got) != len(topics) {
		t.Errorf("%d wait, want %d", len(got), len(topics))
	}
}

package transfer_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/internal/redistest"
	"carillon/store/redisstore"
	"carillon/transfer"
)

// onRedis is a store on a server of the test's own.
func onRedis(t *testing.T, url string) transfer.Engine {
	t.Helper()
	db, err := redisstore.Open(redisstore.Config{URL: url})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, db.Ready(t.Context()))
	return transfer.Engine{
		Source: transfer.Source{Subscriptions: db.Subscriptions(), Cursors: db.Cursors(), Log: db.Log(), Pings: db.Pings(), Sources: db.Sources()},
		Target: db.Restore(),
	}
}

// 10,000 subscriptions with every kind of record go from Pebble to Redis and back,
// and the stream is the same on every way.
func TestPebbleToRedisAndBack(t *testing.T) {
	server := redistest.Start(t, "appendfsync everysec")
	first, second, third := memory(t), onRedis(t, server.Fresh()), memory(t)
	fill(t, first, 10_000)
	stream := export(t, first)
	s := load(t, second, stream)
	if s.Subscriptions != 10_001 {
		t.Errorf("%d subscriptions were imported", s.Subscriptions)
	}
	equalStreams(t, export(t, second), stream)
	load(t, third, export(t, second))
	equalStreams(t, export(t, third), stream)
}

// On Redis, too, an import that was cut short is completed, and the log goes on
// above all numbers that it has had.
func TestRedisGoesOn(t *testing.T) {
	server := redistest.Start(t, "appendfsync everysec")
	from := memory(t)
	fill(t, from, 20)
	stream := export(t, from)
	for _, part := range []int{2, 3} {
		to := onRedis(t, server.Fresh())
		if _, err := transfer.Import(t.Context(), bytes.NewReader(stream[:len(stream)*part/4]), to, transfer.ImportConfig{}); err == nil {
			t.Fatal("the half of a stream was taken")
		}
		if _, err := transfer.Import(t.Context(), bytes.NewReader(stream), to, transfer.ImportConfig{}); err == nil {
			t.Fatal("a target that is not empty was taken")
		}
		must(t, mergeInto(t, to, stream))
		equalStreams(t, export(t, to), stream)
		must(t, mergeInto(t, to, stream))
		equalStreams(t, export(t, to), stream)

		again, err := to.Log.Append(t.Context(), content(silent, 2), uuid.New(), noon)
		if err != nil || !again.Repeated || again.Seq != 12 {
			t.Errorf("the publication that was last, again: %+v, %v; want it known", again, err)
		}
		got, err := to.Log.Append(t.Context(), content(silent, 4), uuid.New(), noon)
		must(t, err)
		n, err := to.Log.Read(t.Context(), silent, 12)
		if err != nil || got.Seq <= 12 || n.Seq != got.Seq || n.After != 12 {
			t.Errorf("the next is %d after %d, %v; want it after 12", n.Seq, n.After, err)
		}
	}
}

// Numbers with holes, as Redis gives them, stay unchanged on Pebble: a subscription that is settled up
// to one misses nothing before the next.
func TestHolesStayWhatTheyAre(t *testing.T) {
	server := redistest.Start(t, "appendfsync everysec")
	from := onRedis(t, server.Fresh())
	var last delivery.Seq
	for i := range 6 {
		if i == 3 {
			server.Stop(t)
			server.Restart(t) // another server gives fresh numbers
		}
		r, err := from.Log.Append(t.Context(), content(towers, i), uuid.New(), time.Now())
		must(t, err)
		last = r.Seq
	}
	m := member(towers, "https://callback.example/", 0, last)
	must(t, from.Target.PutMembers(t.Context(), []delivery.Member{m}))
	to := memory(t)
	load(t, to, export(t, from))
	before, after := read(t, from.Log, towers, 1), read(t, to.Log, towers, 1)
	if len(before) != 6 || len(after) != 6 {
		t.Fatalf("%d notifications became %d", len(before), len(after))
	}
	for i := range before {
		if before[i].Seq != after[i].Seq || before[i].After != after[i].After {
			t.Errorf("number %d after %d became %d after %d", before[i].Seq, before[i].After, after[i].Seq, after[i].After)
		}
	}
	next, err := to.Log.Append(t.Context(), content(towers, 7), uuid.New(), time.Now())
	must(t, err)
	n, err := to.Log.Read(t.Context(), towers, last+1)
	if err != nil || n.Seq != next.Seq || n.After != last || only(t, to.Cursors, m.ID).Settled != last {
		t.Errorf("the next is %d after %d, %v; want it after %d", n.Seq, n.After, err, last)
	}
}

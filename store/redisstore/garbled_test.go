package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/internal/redistest"
	"carillon/store/redisstore"
	"carillon/subscription"
	"carillon/topic"
)

// side is a subscription to a topic of its own, with one record of each kind.
type side struct {
	topic string
	shard subscription.Shard
	sub   subscription.Subscription
}

func newSide(t *testing.T, w *world, shard subscription.Shard) side {
	t.Helper()
	s := side{topic: fmt.Sprintf("https://source.example/%d/", shard), shard: shard, sub: granted(inShard(shard, 1)[0])}
	ctx, r := t.Context(), inShard(shard, 1)[0]
	must(t, w.db.Restore().PutMembers(ctx, []delivery.Member{{Subscription: s.sub, Position: delivery.Position{Settled: 9}}}))
	must(t, w.db.Restore().PutGaps(ctx, []delivery.Gap{{Subscription: s.sub.ID, First: 8, Last: 8, Reason: delivery.GapGivenUp}}))
	must(t, w.db.Subscriptions().Submit(ctx, r))
	publish(t, w.db, s.topic, 1)
	_, err := w.db.Pings().Ping(ctx, []topic.Address{topic.Parse(s.topic)})
	must(t, err)
	return s
}

// keys are those of the store that are this side's alone.
func (s side) keys(t *testing.T, w *world) (own []string) {
	t.Helper()
	for _, key := range w.server.Do(t, "KEYS", prefixOf(w)+":*").([]any) {
		name := key.(string)
		switch {
		case strings.Contains(name, fmt.Sprintf("{shard-%02d}", s.shard)):
			own = append(own, name)
		case strings.HasSuffix(name, ":head") && w.server.Do(t, "HGET", name, "topic") == s.topic:
			own = append(own, name, strings.TrimSuffix(name, "head")+"log", strings.TrimSuffix(name, "head")+"times")
		}
	}
	return own
}

// wantServed holds that everything of the side is.
func (s side) wantServed(t *testing.T, db *redisstore.DB) {
	t.Helper()
	ctx := t.Context()
	got, err := db.Subscriptions().Get(ctx, s.sub.ID)
	if must(t, err); got != s.sub {
		t.Errorf("the subscription is %+v", got)
	}
	_, err = db.Subscriptions().Request(ctx, s.sub.ID)
	must(t, err)
	gaps, err := db.Cursors().Gaps(ctx, s.sub.ID, 9)
	if must(t, err); len(gaps) != 1 {
		t.Errorf("the gaps are %v", gaps)
	}
	members := 0
	for m, err := range db.Cursors().Members(ctx, s.shard) {
		if must(t, err); m.ID == s.sub.ID && m.Settled == 9 {
			members++
		}
	}
	listed := 0
	for state, err := range db.Log().Topics(ctx) {
		if err == nil && state.Topic == s.topic && state.Head > 0 {
			listed++
		}
	}
	waiting := 0
	for ping, err := range db.Pings().Waiting(ctx) {
		if must(t, err); ping.Topic.String() == s.topic {
			waiting++
		}
	}
	gapped := 0
	for id, err := range db.Cursors().Gapped(ctx, s.shard) {
		if must(t, err); id == s.sub.ID {
			gapped++
		}
	}
	if list, err := db.Log().Summaries(ctx, s.topic, 0, 9); err != nil || len(list) != 1 || gapped != 1 {
		t.Errorf("listed is %+v, error %v; %d have gaps", list, err, gapped)
	}
	if log := readAll(t, db, s.topic); members != 1 || listed != 1 || waiting != 1 || len(log) != 1 {
		t.Errorf("%d members, %d topics, %d pings and %d notifications, want one of each", members, listed, waiting, len(log))
	}
}

// ask asks everything of the side, and changes it. Each call ends, with an error that the
// rooms know.
func (s side) ask(t *testing.T, db *redisstore.DB) {
	t.Helper()
	ctx := t.Context()
	check := func(what string, err error) {
		t.Helper()
		for _, known := range []error{
			nil, redisstore.ErrDamaged, subscription.ErrNotFound, subscription.ErrSuperseded, subscription.ErrUnavailable,
			delivery.ErrEndOfLog, delivery.ErrFenced,
		} {
			if errors.Is(err, known) {
				return
			}
		}
		// A head with the highest number looks like a full log.
		if !strings.Contains(err.Error(), "no sequence numbers above") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	for _, err := range db.Cursors().Members(ctx, s.shard) {
		check("members", err)
	}
	for _, err := range db.Subscriptions().Requests(ctx, s.shard) {
		check("requests", err)
	}
	_, err := db.Subscriptions().Expired(ctx, s.shard, s.sub.Expires.Add(time.Hour), 9)
	check("expired", err)
	_, err = db.Cursors().Gaps(ctx, s.sub.ID, 9)
	check("gaps", err)
	for _, err := range db.Cursors().Gapped(ctx, s.shard) {
		check("gapped", err)
	}
	_, err = db.Log().Read(ctx, s.topic, 0)
	check("read", err)
	_, err = db.Log().Summary(ctx, s.topic, 0)
	check("summary", err)
	_, err = db.Log().Summaries(ctx, s.topic, 0, 9)
	check("summaries", err)
	_, err = db.Log().State(ctx, s.topic)
	check("state", err)
	_, err = db.Log().Heads(ctx, []string{s.topic})
	check("heads", err)
	_, err = db.Log().Append(ctx, second(s.topic, 2), uuid.New(), begin)
	check("append", err)
	_, err = db.Log().Shrink(ctx, s.topic, 1, delivery.MaxSeq, begin.Add(time.Hour))
	check("shrink", err)
	_, err = db.Log().Trim(ctx, s.topic, 1, begin.Add(time.Hour))
	check("trim", err)
	_, _, err = db.Marks().Lowest(ctx, begin)
	check("lowest", err)
	_, err = db.Pings().Fetched(ctx, delivery.Ping{Topic: topic.Parse(s.topic), Count: 1})
	check("fetched", err)
	check("save", db.Cursors().Save(ctx, []delivery.Batch{{
		Tenure:   delivery.Tenure{Shard: s.shard, Epoch: 1},
		Advances: []delivery.Advance{{Subscription: s.sub.ID, Position: delivery.Position{Settled: 10}}},
	}}))
	r := inShard(s.shard, 1)[0]
	check("submit", db.Subscriptions().Submit(ctx, r))
	check("activate", db.Subscriptions().Activate(ctx, r, s.sub))
	_, err = db.Subscriptions().Remove(ctx, s.sub)
	check("remove", err)
}

// garble puts rubbish into a key: into each of its fields and beside them, or in place
// of the whole.
func garble(t *testing.T, server *redistest.Server, key, rubbish string) {
	t.Helper()
	switch kind := server.Do(t, "TYPE", key); {
	case rubbish == "":
		server.Do(t, "DEL", key)
		server.Do(t, "SET", key, "of another type")
	case kind == "hash":
		for i, field := range server.Do(t, "HGETALL", key).([]any) {
			if i%2 == 0 {
				server.Do(t, "HSET", key, field.(string), rubbish)
			}
		}
		server.Do(t, "HSET", key, rubbish, rubbish)
	case kind == "zset":
		server.Do(t, "ZADD", key, "0", rubbish, "8", "1 2 3", "1e300", "x"+rubbish)
	case kind == "stream":
		server.Do(t, "XADD", key, "9000000000000000-1", rubbish, rubbish)
	default:
		t.Fatalf("%s is a %v", key, kind)
	}
}

// TestGarbledKeys: whatever stands in the keys of a shard and of a topic, those of others are
// served as before, and what is asked of these comes to an end, and to the log.
func TestGarbledKeys(t *testing.T) {
	t.Parallel()
	for _, rubbish := range []string{"", "rubbish", "1", "-1 -1", "18446744073709551616", "1\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "9:12", "\x00"} {
		t.Run(fmt.Sprintf("%q", rubbish), func(t *testing.T) {
			w := newWorld(t)
			whole, broken := newSide(t, w, 3), newSide(t, w, 11)
			var log bytes.Buffer
			w.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			db := w.open(t)
			keys := broken.keys(t, w)
			if len(keys) < 7 {
				t.Fatalf("only %d keys: %v", len(keys), keys)
			}
			for _, key := range keys {
				garble(t, w.server, key, rubbish)
			}
			broken.ask(t, db)
			whole.wantServed(t, db)
			if !strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("the log tells nothing of it: %s", log.String())
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("a secret is in the log: %s", log.String())
			}
		})
	}
}

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/internal/redistest"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// idIn is the n-th id of a shard.
func idIn(s subscription.Shard, n int) subscription.ID {
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(strconv.Itoa(n)))
	id[len(id)-1] = byte(s)
	return id
}

// settleIn stores that n subscriptions of the shard stand at 1, and returns a batch that
// moves them on.
func settleIn(t *testing.T, w *world, k *keeper, s subscription.Shard, n int) delivery.Batch {
	t.Helper()
	b := delivery.Batch{Tenure: k.tenure(s)}
	command := []string{"HSET", w.key(fmt.Sprintf("{shard-%02d}:cursors", s))}
	for i := range n {
		id := idIn(s, i)
		command = append(command, id.String(), "1")
		b.Advances = append(b.Advances, delivery.Advance{Subscription: id, Position: delivery.Position{Settled: 2}})
	}
	w.server.Do(t, command...)
	return b
}

// key is the name of a key of the world's store.
func (w *world) key(name string) string {
	_, prefix, _ := strings.Cut(w.cfg.URL, "prefix=")
	return prefix + ":" + name
}

// stored is the position of a subscription as it stands in Redis.
func (w *world) stored(t *testing.T, id subscription.ID) any {
	t.Helper()
	return w.server.Do(t, "HGET", w.key(fmt.Sprintf("{shard-%02d}:cursors", subscription.ShardOf(id))), id.String())
}

// commandsOf counts the commands that the server carries out for a call, those
// inside scripts too.
func commandsOf(t *testing.T, s *redistest.Server, call func()) map[string]int {
	t.Helper()
	s.Do(t, "CONFIG", "RESETSTAT")
	call()
	counts := make(map[string]int)
	stats := s.Do(t, "INFO", "commandstats").(string)
	for _, m := range regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		counts[m[1]], _ = strconv.Atoi(m[2]) // it is a number
	}
	delete(counts, "config|resetstat")
	delete(counts, "info")
	return counts
}

// A Save is three commands for each shard, whatever the number of subscriptions.
func TestSaveCommands(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	k := newKeeper(t, w, time.Hour).run() // so that no lease is renewed meanwhile
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	save := func(batches ...delivery.Batch) func() {
		return func() { must(t, k.db.Cursors().Save(t.Context(), batches)) }
	}
	many := []delivery.Batch{settleIn(t, w, k, 1, 1900), settleIn(t, w, k, 2, 1), settleIn(t, w, k, 3, 50)}
	save(delivery.Batch{Tenure: k.tenure(4)})() // the script is there
	for name, c := range map[string]struct {
		call func()
		want string
	}{
		"of three shards": {save(many...), "map[evalsha:3 hmget:3 hset:3]"},
		"of 5,000 in one": {save(settleIn(t, w, k, 5, 5000)), "map[evalsha:1 hmget:3 hset:3]"},
		"of gaps": {save(delivery.Batch{Tenure: k.tenure(1), Gaps: []delivery.Gap{
			{Subscription: idIn(1, 0), First: 1, Last: 2}, {Subscription: idIn(1, 0), First: 5, Last: 6},
		}}), "map[evalsha:1 hmget:1 zadd:1 zremrangebyrank:1 zremrangebyscore:2]"},
	} {
		if got := fmt.Sprint(commandsOf(t, w.server, c.call)); got != c.want {
			t.Errorf("a Save %s is %s, want %s", name, got, c.want)
		}
	}
	for _, id := range []subscription.ID{idIn(1, 0), idIn(1, 1899), idIn(5, 0), idIn(5, 1999), idIn(5, 4999)} {
		if got := w.stored(t, id); got != "2" {
			t.Errorf("%s stands at %v", id, got)
		}
	}
}

// Where one shard's call fails, Save is ErrUnavailable, and may be repeated.
func TestSaveOfSomeShardsFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	good, bad, stale := settleIn(t, w, k, 1, 3), settleIn(t, w, k, 2, 3), settleIn(t, w, k, 3, 3)
	k.end()
	stale.Tenure.Epoch--
	cursors := w.key("{shard-02}:cursors")
	w.server.Do(t, "RENAME", cursors, cursors+"-away")
	w.server.Do(t, "SET", cursors, "no hash")
	batches := []delivery.Batch{good, bad, stale}
	err := k.db.Cursors().Save(t.Context(), batches)
	wantError(t, err, delivery.ErrUnavailable)
	if errors.Is(err, delivery.ErrFenced) {
		t.Error("the error is that of a Save whose other batches are written")
	}
	if got := w.stored(t, idIn(1, 2)); got != "2" {
		t.Errorf("the batch of another shard was not written: %v", got)
	}
	w.server.Do(t, "RENAME", cursors+"-away", cursors)
	wantError(t, k.db.Cursors().Save(t.Context(), batches), delivery.ErrFenced)
	if got := w.stored(t, idIn(2, 2)); got != "2" {
		t.Errorf("the repeated batch was not written: %v", got)
	}
	if got := w.stored(t, idIn(3, 2)); got != "1" {
		t.Errorf("the batch under an old epoch was written: %v", got)
	}
}

// An answer that does not come leaves open what happened.
func TestSaveWithoutAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	b := settleIn(t, w, k, 1, 3)
	k.end()
	w.server.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := k.db.Cursors().Save(ctx, []delivery.Batch{b})
	w.server.Resume(t)
	wantError(t, err, delivery.ErrUnavailable)
	must(t, k.db.Cursors().Save(t.Context(), []delivery.Batch{b}))
	if got := w.stored(t, idIn(1, 2)); got != "2" {
		t.Errorf("it stands at %v", got)
	}
}

// An owner whose lease ran out saves as long as no other process took the shard.
func TestSaveAfterLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	b := settleIn(t, w, k, 1, 1)
	w.server.Do(t, "HSET", w.key("{shard-01}:cursors"), "!until", "1")
	must(t, k.db.Cursors().Save(t.Context(), []delivery.Batch{b}))
	k.end()
}

// Unreadable records are passed over, or count for nothing.
func TestDamagedCursors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	sub := subscribed(t, k.db, "https://destination.example/1", 7)
	s := subscription.ShardOf(sub.ID)
	at := delivery.Position{Settled: 9, Failures: 2, LastFailure: delivery.ClassTimeout}
	good := delivery.Batch{
		Tenure:   k.tenure(s),
		Advances: []delivery.Advance{{Subscription: sub.ID, Position: at}},
		Gaps:     []delivery.Gap{{Subscription: sub.ID, First: 8, Last: 9, Reason: delivery.GapGivenUp, At: begin}},
	}
	must(t, k.db.Cursors().Save(t.Context(), []delivery.Batch{good}))
	shard := fmt.Sprintf("{shard-%02d}:", s)
	w.server.Do(t, "HSET", w.key(shard+"subs"), idIn(s, 1).String(), "rubbish", "no id", "rubbish")
	w.server.Do(t, "ZADD", w.key(shard+"gaps:"+sub.ID.String()), "3", "rubbish")
	wantMember := func(want delivery.Position) {
		t.Helper()
		var got []delivery.Member
		for m, err := range k.db.Cursors().Members(t.Context(), s) {
			must(t, err)
			got = append(got, m)
		}
		if len(got) != 1 || got[0].ID != sub.ID || got[0].Position != want {
			t.Fatalf("the members are %+v, want one at %+v", got, want)
		}
	}
	wantMember(at)
	gaps, err := k.db.Cursors().Gaps(t.Context(), sub.ID, 10)
	must(t, err)
	if len(gaps) != 1 || gaps[0] != good.Gaps[0] {
		t.Fatalf("the gaps are %+v", gaps)
	}
	wantGapped := func(want ...subscription.ID) {
		t.Helper()
		var got []subscription.ID
		for id, err := range k.db.Cursors().Gapped(t.Context(), s) {
			must(t, err)
			got = append(got, id)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("gapped are %v, want %v", got, want)
		}
	}
	wantGapped(sub.ID)
	replayed := good.Gaps[0]
	replayed.Replayed = begin
	must(t, k.db.Cursors().Save(t.Context(), []delivery.Batch{{Tenure: good.Tenure, Gaps: []delivery.Gap{replayed}}}))
	wantGapped() // rubbish is no gap
	w.server.Do(t, "HSET", w.key(shard+"cursors"), sub.ID.String(), "rubbish")
	wantMember(delivery.Position{Settled: 7})
	must(t, k.db.Cursors().Save(t.Context(), []delivery.Batch{good}))
	wantMember(at)
}

// subscribed activates a subscription that starts at a sequence number.
func subscribed(t *testing.T, db *redisstore.DB, callback string, start uint64) subscription.Subscription {
	t.Helper()
	sub := subscription.Subscription{
		ID: subscription.NewID(topicURL, callback), Topic: topicURL, Callback: callback, Start: start,
		Lease: time.Hour, Expires: begin.Add(time.Hour), Created: begin,
	}
	r := subscription.Request{
		ID: sub.ID, Token: uuid.New(), Mode: subscription.ModeSubscribe, Topic: topicURL, Callback: callback,
		Lease: time.Hour, Received: begin,
	}
	must(t, db.Subscriptions().Submit(t.Context(), r))
	must(t, db.Subscriptions().Activate(t.Context(), r, sub))
	return sub
}

func TestDamagedMarks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	for s := range subscription.Shard(subscription.Shards) {
		must(t, k.db.Marks().Mark(t.Context(), k.tenure(s), nil))
	}
	for _, damage := range [][]string{{topicURL, "rubbish"}, {"!at", "99999999999999999"}, {"!at", "rubbish"}} {
		w.server.Do(t, append([]string{"HSET", w.key("{shard-09}:marks")}, damage...)...)
		if _, ok, err := k.db.Marks().Lowest(t.Context(), begin); ok || err != nil {
			t.Errorf("with %v it is ok: %v, error %v", damage, ok, err)
		}
		must(t, k.db.Marks().Mark(t.Context(), k.tenure(9), nil))
		if _, ok, err := k.db.Marks().Lowest(t.Context(), begin); !ok || err != nil {
			t.Errorf("marked again it is ok: %v, error %v", ok, err)
		}
	}
}

func TestCursorRecords(t *testing.T) {
	t.Parallel()
	instant := func(rt *rapid.T) time.Time {
		if rapid.Bool().Draw(rt, "zero") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(rt, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(rt, "ns")).UTC()
	}
	seq := func(rt *rapid.T) delivery.Seq { return delivery.Seq(rapid.Uint64().Draw(rt, "seq")) }
	rapid.Check(t, func(rt *rapid.T) {
		p := delivery.Position{
			Settled: seq(rt), Failures: rapid.Uint32().Draw(rt, "failures"), NextAttempt: instant(rt),
			LastFailure: delivery.Class(rapid.Byte().Draw(rt, "class")), LastStatus: rapid.Uint16().Draw(rt, "status"),
		}
		if rapid.Bool().Draw(rt, "replays") {
			p.ReplayNext, p.ReplayLast = seq(rt), seq(rt)
		}
		if got, err := redisstore.DecodePosition(redisstore.EncodePosition(p)); err != nil || got != p {
			rt.Fatalf("%+v came back as %+v, error %v", p, got, err)
		}
		g := delivery.Gap{
			Subscription: idIn(1, 1), First: seq(rt), Last: seq(rt), Reason: delivery.GapReason(rapid.Byte().Draw(rt, "reason")),
			Failure: delivery.Class(rapid.Byte().Draw(rt, "class")), At: instant(rt), Replayed: instant(rt),
		}
		if got, err := redisstore.DecodeGap(g.Subscription, redisstore.EncodeGap(g)); err != nil || got != g {
			rt.Fatalf("%+v came back as %+v, error %v", g, got, err)
		}
	})
}

// TestRecordsOfReplays: a record without a replay is written as before, and a position that settles
// everything is one byte long.
func TestRecordsOfReplays(t *testing.T) {
	t.Parallel()
	p := delivery.Position{Settled: 9}
	most := delivery.Position{
		Settled: math.MaxUint64, Failures: math.MaxUint32, NextAttempt: time.Unix(-1<<40, 999_999_999), LastFailure: 255, LastStatus: 65535,
		ReplayNext: math.MaxUint64, ReplayLast: math.MaxUint64,
	}
	for want, p := range map[string]delivery.Position{
		"9":                 p,
		"9 2 - 5 503":       {Settled: 9, Failures: 2, LastFailure: 5, LastStatus: 503},
		"9 0 - 0 0 4 8":     {Settled: 9, ReplayNext: 4, ReplayLast: 8},
		"9 2 - 5 503 4 800": {Settled: 9, Failures: 2, LastFailure: 5, LastStatus: 503, ReplayNext: 4, ReplayLast: 800},
	} {
		if got := redisstore.EncodePosition(p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := redisstore.EncodePosition(most); len(got) > 255 {
		t.Errorf("%q has %d bytes", got, len(got))
	}
	for _, record := range []string{"9 2", "9 2 - 5", "9 2 - 5 503 4", "9 2 - 5 503 4 8 1", "9 2 - 5 503 4 -8", "9 2 - 5 503 4 ", "9 2 - 5 503 "} {
		if got, err := redisstore.DecodePosition(record); !errors.Is(err, redisstore.ErrDamaged) {
			t.Errorf("%q is %+v, error %v", record, got, err)
		}
	}
	if got := redisstore.EncodeGap(delivery.Gap{First: 1, Last: 2, Reason: 1, Failure: 3}); got != "1 2 1 3 -" {
		t.Errorf("a gap is %q", got)
	}
}

func FuzzCursorRecords(f *testing.F) {
	f.Add(redisstore.EncodePosition(delivery.Position{Settled: math.MaxUint64}))
	f.Add(redisstore.EncodePosition(delivery.Position{Settled: 5, Failures: 3, NextAttempt: begin, LastStatus: 503}))
	f.Add(redisstore.EncodeGap(delivery.Gap{First: 1, Last: 2, Reason: delivery.GapTrimmed, At: begin}))
	f.Add(redisstore.EncodePosition(delivery.Position{Settled: 5, ReplayNext: 2, ReplayLast: math.MaxUint64}))
	f.Add(redisstore.EncodeGap(delivery.Gap{First: 1, Last: 2, Reason: delivery.GapTrimmed, At: begin, Replayed: begin}))
	f.Add("7 1 - 3 70000")
	f.Add("7 1 1.5 3 4")
	f.Fuzz(func(t *testing.T, record string) {
		p, err := redisstore.DecodePosition(record)
		if again, errAgain := redisstore.DecodePosition(redisstore.EncodePosition(p)); err == nil && (errAgain != nil || again != p) {
			t.Errorf("%q is %+v, which comes back as %+v, error %v", record, p, again, errAgain)
		} else if err != nil && !errors.Is(err, redisstore.ErrDamaged) {
			t.Errorf("%q: error %v", record, err)
		}
		if _, err := redisstore.DecodeGap(idIn(1, 1), record); err != nil && !errors.Is(err, redisstore.ErrDamaged) {
			t.Errorf("%q: error %v", record, err)
		}
	})
}

// A shard that takes several parts to read gives every member once, at its position, and
// reading it can end anywhere.
func TestMembersInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const count = 8000 // more than is read ahead
	members := make(map[subscription.ID]delivery.Member, count)
	var list []delivery.Member
	for i := range count {
		m := delivery.Member{Subscription: granted(request(1))}
		m.ID = idIn(9, i)
		m.Settled = delivery.Seq(m.Start) + delivery.Seq(i)
		members[m.ID], list = m, append(list, m)
	}
	must(t, w.db.Restore().PutMembers(t.Context(), list))
	for m, err := range w.db.Cursors().Members(t.Context(), 9) {
		if must(t, err); m != members[m.ID] {
			t.Fatalf("got %+v, want %+v", m, members[m.ID])
		}
		delete(members, m.ID)
	}
	if len(members) > 0 {
		t.Errorf("%d members did not come", len(members))
	}
	for range w.db.Cursors().Members(t.Context(), 9) {
		break // a reader that stops is not called again
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	came := 0
	var last error
	for _, err := range w.db.Cursors().Members(ctx, 9) {
		if came, last = came+1, err; came == 1 {
			cancel()
		}
	}
	if came == count {
		t.Error("all came, though the context had ended")
	}
	wantError(t, last, context.Canceled)
}

// The batch of a Save stays the caller's, who may have to save it again.
func TestSaveLeavesTheBatchAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := newKeeper(t, w, takeover).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	b := settleIn(t, w, k, 1, 4)
	b.Advances[1] = delivery.Advance{Subscription: b.Advances[0].Subscription, Position: delivery.Position{Settled: 3}}
	b.Advances[3] = delivery.Advance{Subscription: b.Advances[2].Subscription, Position: delivery.Position{Settled: 4}}
	before := slices.Clone(b.Advances)
	must(t, k.db.Cursors().Save(t.Context(), []delivery.Batch{b}))
	if !slices.Equal(b.Advances, before) {
		t.Errorf("the advances are %+v, and were %+v", b.Advances, before)
	}
	for n, want := range []string{"3", "1", "4", "1"} {
		if got := w.stored(t, idIn(1, n)); got != want {
			t.Errorf("number %d stands at %v, want %s", n, got, want)
		}
	}
	k.end()
}

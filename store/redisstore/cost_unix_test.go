//go:build unix

package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/redisstore"
	"carillon/subscription"
	"carillon/topic"
)

// costs is what something takes of the processors of this process, and of the
// server's.
type costs struct {
	w                  *world
	hub, server, spent time.Duration
	hubAt, serverAt    time.Duration
	began              time.Time
}

func (c *costs) start(b *testing.B) {
	b.Helper()
	c.hubAt, c.serverAt, c.began = used(b), usedBy(b, c.w), time.Now()
}

func (c *costs) stop(b *testing.B) {
	b.Helper()
	c.spent += time.Since(c.began)
	c.hub += used(b) - c.hubAt
	c.server += usedBy(b, c.w) - c.serverAt
}

// report prints the costs of one of n things.
func (c *costs) report(b *testing.B, n int, of string) {
	b.ReportMetric(float64(c.spent.Nanoseconds())/1000/float64(n), "µs/"+of)
	b.ReportMetric(float64(c.hub.Nanoseconds())/1000/float64(n), "hub-µs/"+of)
	b.ReportMetric(float64(c.server.Nanoseconds())/1000/float64(n), "server-µs/"+of)
}

// usedBy is the time of a processor that the server has had.
func usedBy(b *testing.B, w *world) (sum time.Duration) {
	b.Helper()
	info := w.server.Do(b, "INFO", "cpu").(string)
	for _, m := range regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([\d.]+)`).FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(m[1], 64)
		must(b, err)
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum
}

// benchMember is the n-th of many members.
func benchMember(n int) delivery.Member {
	callback := fmt.Sprintf("https://destination.example:8443/%d", n)
	return delivery.Member{
		Subscription: subscription.Subscription{
			ID: subscription.NewID(topicURL, callback), Topic: topicURL, Callback: callback, Secret: "a secret of 24 characters", Start: 7,
			Lease: time.Hour, Expires: begin.Add(time.Hour), Created: begin,
		},
		Position: delivery.Position{Settled: 12_345_678},
	}
}

// peopled is a store with n members, on a server of its own.
func peopled(b *testing.B, n int) *world {
	w := ownWorld(b)
	w.server.Set(b, "appendfsync", "no")
	var members []delivery.Member
	for i := range n {
		if members = append(members, benchMember(i)); len(members) == 1000 || i == n-1 {
			must(b, w.db.Restore().PutMembers(b.Context(), members))
			members = members[:0]
		}
	}
	w.server.Set(b, "appendfsync", "always")
	return w
}

// reader is a Holder that reads the members of what it gains.
type reader struct {
	b       *testing.B
	db      *redisstore.DB
	tenures [subscription.Shards]delivery.Tenure
	gained  atomic.Int64
	members int
	all     chan struct{}
}

// own takes all shards and reads their members; end hands them back.
func own(b *testing.B, db *redisstore.DB) (r *reader, end func()) {
	r = &reader{b: b, db: db, all: make(chan struct{})}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- db.Shards().Run(ctx, r) }()
	<-r.all
	return r, func() {
		stop()
		must(b, <-done)
	}
}

// Gained implements delivery.Holder.
func (r *reader) Gained(ctx context.Context, t delivery.Tenure) error {
	r.tenures[t.Shard] = t
	for _, err := range r.db.Cursors().Members(ctx, t.Shard) {
		if err != nil {
			return err
		}
		r.members++
	}
	if r.gained.Add(1) == subscription.Shards {
		close(r.all)
	}
	return nil
}

// Lost implements delivery.Holder.
func (*reader) Lost(subscription.Shard) {}

// Sure implements delivery.Holder.
func (*reader) Sure(time.Time, ...subscription.Shard) {}

// BenchmarkStart takes all shards and reads their members. CARILLON_MEMBERS says
// how many there are.
func BenchmarkStart(b *testing.B) {
	n := 100_000
	if text := os.Getenv("CARILLON_MEMBERS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must(b, err)
	}
	w := peopled(b, n)
	c := &costs{w: w}
	b.ReportAllocs()
	for b.Loop() {
		c.start(b)
		r, end := own(b, w.db)
		c.stop(b)
		if end(); r.members != n {
			b.Fatalf("%d members came, not %d", r.members, n)
		}
	}
	c.report(b, b.N*n, "member")
}

// BenchmarkSave writes 10,000 positions over all shards, as at most a flush does, and
// one in each, as at least.
func BenchmarkSave(b *testing.B) {
	const members = 10_000
	w := peopled(b, members)
	r, end := own(b, w.db)
	defer end()
	for _, n := range []int{subscription.Shards, members} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchSave(b, w, r, n) })
	}
}

func benchSave(b *testing.B, w *world, r *reader, n int) {
	byShard := make([]delivery.Batch, subscription.Shards)
	for s := range byShard {
		byShard[s].Tenure = r.tenures[s]
	}
	for i := range n {
		id := benchMember(i).ID
		s := subscription.ShardOf(id)
		byShard[s].Advances = append(byShard[s].Advances, delivery.Advance{Subscription: id})
	}
	c := &costs{w: w}
	b.ReportAllocs()
	for seq := delivery.Seq(20_000_000 + time.Now().Unix()); b.Loop(); seq++ {
		for s := range byShard {
			for i := range byShard[s].Advances {
				byShard[s].Advances[i].Position.Settled = seq
			}
		}
		c.start(b)
		must(b, w.db.Cursors().Save(b.Context(), byShard))
		c.stop(b)
	}
	c.report(b, b.N*n, "position")
}

// BenchmarkAppend publishes to 64 topics side by side.
func BenchmarkAppend(b *testing.B) {
	w := ownWorld(b)
	body := make([]byte, 1000)
	var topics atomic.Int64
	c := &costs{w: w}
	c.start(b)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		p := delivery.Publication{Topic: topic.Parse(fmt.Sprintf("%s/%d", topicURL, topics.Add(1))), ContentType: "text/plain", Body: body}
		for pb.Next() {
			if _, err := w.db.Log().Append(b.Context(), p, uuid.New(), begin); err != nil {
				b.Error(err)
				return
			}
		}
	})
	c.stop(b)
	c.report(b, b.N, "append")
}

package dispatch_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/subscription"
)

// BenchmarkGained takes in the shards of a hundred thousand subscriptions.
func BenchmarkGained(b *testing.B) {
	const n = 100_000
	e := memberLists{engine: newEngine()}
	for i := range n {
		sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/hooks/%08d", i%1000, i))
		s := subscription.ShardOf(sub.ID)
		e.members[s] = append(e.members[s], delivery.Member{Subscription: sub, Position: delivery.Position{Settled: 1}})
	}
	b.ReportAllocs()
	for b.Loop() {
		d, err := dispatch.New(dispatch.Config{}, dispatch.Stores{Log: e, Cursors: &e}, nil, &attempts{}, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i := range subscription.Shards {
			if err := d.Gained(b.Context(), delivery.Tenure{Shard: subscription.Shard(i)}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/subscription")
}

// memberLists is an engine whose members are at hand.
type memberLists struct {
	*engine
	members [subscription.Shards][]delivery.Member
}

func (e *memberLists) Members(_ context.Context, s subscription.Shard) iter.Seq2[delivery.Member, error] {
	return func(yield func(delivery.Member, error) bool) {
		for _, m := range e.members[s] {
			if !yield(m, nil) {
				return
			}
		}
	}
}

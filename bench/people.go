package main

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"carillon/delivery"
	"carillon/subscription"
	"carillon/transfer"
)

// people are the subscriptions that a scenario begins with. They come into the
// store by an import, which is quick: what a hub does with subscriptions that it
// has does not depend on how they came.
type people struct {
	n  int
	of func(i int) (topic, callback string)
}

// group makes n people for one topic.
func group(n int, topic string, callback func(i int) string) people {
	return people{n, func(i int) (string, string) { return topic, callback(i) }}
}

// and adds others.
func (p people) and(other people) people {
	return people{p.n + other.n, func(i int) (string, string) {
		if i < p.n {
			return p.of(i)
		}
		return other.of(i - p.n)
	}}
}

// lease is long enough for every scenario.
const lease = 240 * time.Hour

// moveIn puts the people into an empty store.
func (e *env) moveIn(ctx context.Context, s *store, p people) error {
	file := filepath.Join(s.dir, "export")
	if err := p.export(ctx, file); err != nil {
		return fmt.Errorf("making an export: %w", err)
	}
	defer os.Remove(file)
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	return finish(ctx, in, e.binary, "import", "--store", s.flag(), "--log-level", "error")
}

// export writes what a hub with nothing but these people would export.
func (p people) export(ctx context.Context, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 256<<10)
	from := transfer.Source{Subscriptions: noRequests{}, Cursors: p.register(), Log: noTopics{}, Pings: noPings{}}
	if _, err := transfer.Export(ctx, from, w, transfer.ExportConfig{Engine: "bench"}); err != nil {
		return err
	}
	return w.Flush()
}

// register is the engine that an export of people is read from: only the methods
// that an export calls are there.
type register struct {
	delivery.Cursors
	people
	shards [subscription.Shards][]int // the members of each
	now    time.Time
}

func (p people) register() *register {
	r := &register{people: p, now: time.Now()}
	for i := range p.n {
		shard := subscription.ShardOf(subscription.NewID(p.of(i)))
		r.shards[shard] = append(r.shards[shard], i)
	}
	return r
}

// Members gives everybody at the beginning of an empty log, and with a secret.
func (r *register) Members(_ context.Context, shard subscription.Shard) iter.Seq2[delivery.Member, error] {
	return func(yield func(delivery.Member, error) bool) {
		for _, i := range r.shards[shard] {
			topic, callback := r.of(i)
			sub := subscription.Subscription{
				ID: subscription.NewID(topic, callback), Topic: topic, Callback: callback,
				Secret: subscription.Secret(secretOf(i)),
				Lease:  lease, Expires: r.now.Add(lease), Created: r.now,
			}
			if !yield(delivery.Member{Subscription: sub}, nil) {
				return
			}
		}
	}
}

func (*register) Gaps(context.Context, subscription.ID, int) ([]delivery.Gap, error) { return nil, nil }

type (
	noRequests struct{ subscription.Store }
	noTopics   struct{ delivery.Log }
	noPings    struct{ delivery.Pings }
)

func (noRequests) Requests(context.Context, subscription.Shard) iter.Seq2[subscription.Request, error] {
	return func(func(subscription.Request, error) bool) {}
}

func (noTopics) Topics(context.Context) iter.Seq2[delivery.TopicState, error] {
	return func(func(delivery.TopicState, error) bool) {}
}

func (noPings) Waiting(context.Context) iter.Seq2[delivery.Ping, error] {
	return func(func(delivery.Ping, error) bool) {}
}

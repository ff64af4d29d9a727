package dispatch_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/subscription"
)

func TestSpelling(t *testing.T) {
	d, err := dispatch.New(dispatch.Config{}, newEngine().stores(), newEngine(), &attempts{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const spelled, key = "https://example.com/%63hange/", "https://example.com/change/"
	sub := subscriptionOf(spelled, callback)
	if err := d.Gained(t.Context(), delivery.Tenure{Shard: subscription.ShardOf(sub.ID)}); err != nil {
		t.Fatal(err)
	}
	if got, ok := d.Spelling(key); ok {
		t.Errorf("nobody subscribes to %q", got)
	}
	d.Activated(sub)
	if got, ok := d.Spelling(key); got != spelled || !ok {
		t.Errorf("of %s: %q, %v", key, got, ok)
	}
	d.Ended(sub.ID)
	if got, ok := d.Spelling(key); ok {
		t.Errorf("somebody still subscribes to %q", got)
	}
}

// Subscriptions come out of the table as they went in, byte for byte and to the
// nanosecond, also after renewals that change everything which can change.
func TestSubscriptionsComeOutAsTheyWentIn(t *testing.T) {
	topics := []string{"https://example.com/change/", "https://example.com/%63hange/", "https://example.com/chang%65/"}
	callbacks := []string{
		"https://a.example/hook", "https://A.example/hook", "https://a.example:443/hook", "http://a.example:80/h?x#y",
		"https://a.example", "https://%61.example/hook", "https://a.example/hoo%6b", "odd", "", "https://a.example/" + strings.Repeat("x", 70_000),
	}
	secrets := []string{
		"", "s", "another", strings.Repeat("s", 199), strings.Repeat("s", 255),
		strings.Repeat("s", 256), strings.Repeat("long", 20_000),
	}
	leases := []time.Duration{
		0, time.Second, 240 * time.Hour, time.Nanosecond, -time.Second,
		math.MaxUint32 * time.Second, math.MaxUint32*time.Second + time.Second,
	}
	rapid.Check(t, func(t *rapid.T) {
		d, err := dispatch.New(dispatch.Config{}, newEngine().stores(), newEngine(), &attempts{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range subscription.Shards {
			if err := d.Gained(context.Background(), delivery.Tenure{Shard: subscription.Shard(i)}); err != nil {
				t.Fatal(err)
			}
		}
		want := map[subscription.ID]subscription.Subscription{}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			sub := subscription.Subscription{
				Topic:    rapid.SampledFrom(topics).Draw(t, "topic"),
				Callback: rapid.SampledFrom(callbacks).Draw(t, "callback"),
				Secret:   subscription.Secret(rapid.SampledFrom(secrets).Draw(t, "secret")),
				Start:    rapid.Uint64Range(0, 3).Draw(t, "start"),
				Lease:    rapid.SampledFrom(leases).Draw(t, "lease"),
				Expires:  time.Unix(0, rapid.Int64Range(1, math.MaxInt64).Draw(t, "expires")),
				Created:  time.Unix(0, rapid.Int64Range(1, math.MaxInt64).Draw(t, "created")),
			}
			sub.ID = subscription.NewID(sub.Topic, sub.Callback)
			if rapid.IntRange(0, 3).Draw(t, "what") > 0 {
				d.Activated(sub)
				want[sub.ID] = sub
			} else {
				d.Ended(sub.ID)
				delete(want, sub.ID)
			}
			got := d.Subscribers(topics[0])
			if len(got) != len(want) {
				t.Fatalf("%d subscriptions, want %d", len(got), len(want))
			}
			for _, sub := range got {
				if sub != want[sub.ID] {
					t.Fatalf("got %+v\nwant %+v", sub, want[sub.ID])
				}
			}
		}
		for id := range want {
			d.Ended(id)
		}
		if n := d.SharedSecrets(); n != 0 {
			t.Fatalf("%d secrets are held for nobody", n)
		}
	})
}

// A secret that many have is held once.
func TestSharedSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		for i := range 10 {
			sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i))
			sub.Secret = subscription.Secret(fmt.Sprint("secret ", i/5))
			d.Activated(sub)
		}
		alone := subscriptionOf(topicURL, "https://h20.example/")
		alone.Secret = "secret 4"
		d.Activated(alone)
		d.Activated(alone) // a renewal
		equal(t, "shared", d.SharedSecrets(), 2)
		d.publish("x")
		synctest.Wait()
		for _, a := range s.take() {
			var host int
			if _, err := fmt.Sscanf(a.callback, "https://h%d.example/", &host); err != nil {
				t.Fatal(err)
			}
			equal(t, a.callback, string(a.secret), fmt.Sprint("secret ", host/5))
		}
	})
}

// A survey while subscriptions come and go misses none that is there throughout, and gets none twice.
func TestSurveysDuringChanges(t *testing.T) {
	d, err := dispatch.New(dispatch.Config{}, newEngine().stores(), newEngine(), &attempts{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range subscription.Shards {
		if err := d.Gained(t.Context(), delivery.Tenure{Shard: subscription.Shard(i)}); err != nil {
			t.Fatal(err)
		}
	}
	const staying, passing = 5000, 5000
	there := map[subscription.ID]bool{}
	var come []subscription.Subscription
	for i := range staying + passing {
		sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/%d", i%10, i))
		sub.Start, sub.ID[len(sub.ID)-1] = 7, 0 // all in one shard: more than one stretch of it
		if i%2 == 0 {
			sub.Start = 3
			there[sub.ID] = true
		} else {
			come = append(come, sub)
		}
		d.Activated(sub)
	}
	stop, changing := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(changing)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			sub := come[i%len(come)]
			d.Ended(sub.ID)
			if i%3 > 0 {
				d.Activated(sub)
			}
		}
	}()
	for range 20 {
		seen, found := map[subscription.ID]bool{}, 0
		for _, sub := range d.Subscribers(topicURL) {
			if seen[sub.ID] {
				t.Fatalf("%s came twice", sub.Callback)
			}
			if seen[sub.ID] = true; there[sub.ID] {
				found++
			}
		}
		equal(t, "found of those that stay", found, staying)
		equal(t, "the slowest", d.Slowest()[topicURL], 3)
	}
	close(stop)
	<-changing
}

// A walk through a shard that grows meanwhile, so that its entries change their
// places, begins again.
func TestSurveyOfAShardThatGrows(t *testing.T) {
	d, err := dispatch.New(dispatch.Config{}, newEngine().stores(), newEngine(), &attempts{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Gained(t.Context(), delivery.Tenure{Shard: 0}); err != nil {
		t.Fatal(err)
	}
	next := 0
	one := func() subscription.Subscription {
		sub := subscriptionOf(topicURL, fmt.Sprintf("https://h.example/%d", next))
		sub.ID[len(sub.ID)-1] = 0
		next++
		return sub
	}
	missing := map[subscription.ID]bool{}
	for range 5000 {
		sub := one()
		missing[sub.ID] = true
		d.Activated(sub)
	}
	looks := 0
	held := d.EachOfShard(0, func(id subscription.ID, add func(subscription.Subscription)) {
		delete(missing, id)
		if looks++; looks == 3000 {
			for range 5000 {
				add(one())
			}
		}
	})
	equal(t, "held", held, true)
	equal(t, "missed", len(missing), 0)
}

package delivery_test

import (
	"testing"

	"carillon/delivery"
	"carillon/subscription"
)

func TestSpelling(t *testing.T) {
	d, err := delivery.New(delivery.Config{}, newEngine().stores(), newEngine(), &attempts{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const spelled, key, other = "https://example.com/%63hange/", "https://example.com/change/", "https://example.com/%63hang%65/"
	sub := subscriptionOf(spelled, callback)
	if err := d.Gained(t.Context(), delivery.Tenure{Shard: subscription.ShardOf(sub.ID)}); err != nil {
		t.Fatal(err)
	}
	if got, ok := d.Spelling(key); ok {
		t.Errorf("nobody subscribes to %q", got)
	}
	d.Activated(sub)
	for _, topic := range []string{spelled, key, other} {
		if got, ok := d.Spelling(topic); got != spelled || !ok {
			t.Errorf("of %s: %q, %v", topic, got, ok)
		}
	}
	d.Ended(sub.ID)
	if got, ok := d.Spelling(key); ok {
		t.Errorf("somebody still subscribes to %q", got)
	}
}

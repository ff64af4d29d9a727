package subscription_test

import (
	"context"
	"fmt"
	"time"

	"carillon/store/pebblestore"
	"carillon/subscription"
)

// everyone is a Validator and a Confirmer for which every topic names the hub
// and every callback confirms.
type everyone struct{}

func (everyone) Validate(context.Context, string) error { return nil }

func (everyone) Confirm(_ context.Context, r subscription.Request, _ string) error {
	fmt.Println("asked:", r.Callback, "wants to", r.Mode, "to", r.Topic, "for", r.Lease)
	return nil
}

func (everyone) Deny(context.Context, string, string, string) error { return nil }

// printer is a Roster that prints its calls.
type printer struct{ done context.CancelFunc }

func (printer) Head(context.Context, string) (uint64, error) { return 0, nil }

func (p printer) Activated(sub subscription.Subscription) {
	fmt.Println("active:", sub.Callback)
	p.done()
}

func (printer) Ended(subscription.ID) {}

func ExampleService() {
	db, err := pebblestore.NewMemory()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	service, err := subscription.NewService(subscription.Config{}, db.Subscriptions(),
		everyone{}, everyone{}, printer{done: cancel}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for shard := range subscription.Shard(subscription.Shards) { // delivery.Shards does this
		if err := service.Gained(ctx, shard); err != nil {
			fmt.Println(err)
			return
		}
	}
	err = service.Submit(ctx, subscription.Wish{
		Mode: subscription.ModeSubscribe, Topic: "http://source.example/change/",
		Callback: "http://destination.example/callback", Lease: time.Minute, LeaseGiven: true,
	})
	fmt.Println("submitted:", err)
	fmt.Println("stopped:", service.Run(ctx)) // until the subscription is active
	// Output:
	// submitted: <nil>
	// asked: http://destination.example/callback wants to subscribe to http://source.example/change/ for 5m0s
	// active: http://destination.example/callback
	// stopped: <nil>
}

func ExampleLeaseRules_Grant() {
	var rules subscription.LeaseRules // the defaults
	fmt.Println(rules.Grant(0, false))
	fmt.Println(rules.Grant(time.Second, true))
	fmt.Println(rules.Grant(365*24*time.Hour, true))
	// Output:
	// 240h0m0s
	// 5m0s
	// 744h0m0s
}

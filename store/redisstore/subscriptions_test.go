package redisstore_test

import (
	"testing"

	"carillon/subscription"
	"carillon/subscription/subscriptiontest"
)

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	subscriptiontest.Run(t, func(t *testing.T) subscriptiontest.Harness {
		w := newWorld(t)
		return subscriptiontest.Harness{
			Store:  w.db.Subscriptions(),
			Reopen: func(t *testing.T) subscription.Store { w.reopen(t); return w.db.Subscriptions() },
			Crash:  func(t *testing.T) subscription.Store { w.crash(t); return w.db.Subscriptions() },
			Stop:   func(t *testing.T) { w.stop(t) },
		}
	})
}

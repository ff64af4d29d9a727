package delivery

import (
	"context"
	"fmt"
	"iter"

	"carillon/subscription"
)

// FormerKeysError reports that a store keeps records under keys that subscription.Key no longer
// returns. A hub would not find them: it would begin a new log beside the old one, and pass
// over what it owes.
type FormerKeysError struct {
	Count   int    // of logs, subscriptions, requests and pings
	Example string // the topic of one of them
}

func (e *FormerKeysError) Error() string {
	return fmt.Sprintf("%d of its records have topics or callbacks that an older version compared otherwise, such as %q: "+
		"run hub export on it, and hub import into an empty store", e.Count, e.Example)
}

// KeyCheck looks for keys of an earlier form in a store that a version wrote whose keys were
// those of subscription.FormerKey. Nothing else works on the store meanwhile.
type KeyCheck struct {
	Log      Log
	Pings    Pings
	Cursors  Cursors
	Requests interface {
		Requests(ctx context.Context, shard subscription.Shard) iter.Seq2[subscription.Request, error]
	}

	parts int // that are done
	found FormerKeysError
}

// Run reads the whole store and returns a *FormerKeysError if any key differs from what
// subscription.Key returns. After another error, Run continues with the part that failed:
// calls that are each cut short come to the end together.
func (c *KeyCheck) Run(ctx context.Context) error {
	for ; c.parts < 2+subscription.Shards; c.parts++ {
		before := c.found
		var err error
		switch c.parts {
		case 0:
			err = each(c.Log.Keys(ctx), func(key string) { c.see(key, "") })
		case 1:
			err = each(c.Pings.Waiting(ctx), func(p Ping) { c.see(p.Topic, "") })
		default:
			err = c.shard(ctx, subscription.Shard(c.parts-2))
		}
		if err != nil {
			c.found = before
			return err
		}
	}
	if c.found.Count > 0 {
		found := c.found
		return &found
	}
	return nil
}

func (c *KeyCheck) shard(ctx context.Context, s subscription.Shard) error {
	err := each(c.Requests.Requests(ctx, s), func(r subscription.Request) { c.see(r.Topic, r.Callback) })
	if err != nil {
		return err
	}
	return each(c.Cursors.Members(ctx, s), func(m Member) { c.see(m.Topic, m.Callback) })
}

// see counts a record of the topic and the callback, if it has one, whose key has changed.
func (c *KeyCheck) see(topic, callback string) {
	if subscription.Key(topic) == subscription.FormerKey(topic) &&
		subscription.Key(callback) == subscription.FormerKey(callback) {
		return
	}
	if c.found.Count++; c.found.Count == 1 {
		c.found.Example = topic
	}
}

func each[T any](list iter.Seq2[T, error], see func(T)) error {
	for one, err := range list {
		if err != nil {
			return err
		}
		see(one)
	}
	return nil
}

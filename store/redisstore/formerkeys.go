package redisstore

import (
	"context"
	"errors"
	"fmt"

	"carillon/delivery"
	"carillon/subscription"
)

// moveFormatScript raises the format of the store, unless another process has.
//
//	KEYS  1 store
//	ARGV  1 the format it has  2 the format it gets
var moveFormatScript = shrinks("move the store to another format", `
if redis.call('HGET', KEYS[1], 'format') == ARGV[1] then redis.call('HSET', KEYS[1], 'format', ARGV[2]) end
return 1
`)

// moveKeys brings a store of formerFormat to format, which differs in the keys of topics and
// callbacks alone. A store in which any of them is of the earlier form stays as it is, and is
// refused, unless Config.FormerKeys. Processes of earlier versions could add such keys: while
// any works on the store, it is not ready.
func (db *DB) moveKeys(ctx context.Context) error {
	e := db.engine
	if e.cfg.FormerKeys {
		db.former.Store(true)
		return nil
	}
	n, err := db.Processes(ctx)
	if err != nil {
		return err
	}
	db.keys.Lock()
	defer db.keys.Unlock()
	if n > 0 {
		db.keys.check = nil
		return fmt.Errorf("%w: %d hubs of an older version work on it, which compare topics otherwise: stop them",
			subscription.ErrUnavailable, n)
	}
	if db.keys.check == nil {
		db.keys.check = &delivery.KeyCheck{
			Log: db.Log(), Pings: db.Pings(), Cursors: db.Cursors(), Requests: db.Subscriptions(),
		}
	}
	err = db.keys.check.Run(ctx)
	if former, ok := errors.AsType[*delivery.FormerKeysError](err); ok {
		return refusal(former.Error())
	}
	if err != nil {
		return err
	}
	_, err = e.run(ctx, moveFormatScript, []string{e.keys.store()}, formerFormat, format)
	return err
}

// FormerKeys reports whether the keys are used as the store has them, which may be of an
// earlier form: see Config.FormerKeys. It is known once the store is Ready.
func (db *DB) FormerKeys() bool { return db.former.Load() }

// key returns the key under which the log of a topic is stored.
func (db *DB) key(topic string) string {
	if db.former.Load() {
		return topic
	}
	return subscription.Key(topic)
}

// keyed reports whether a topic's records may be under the key, of this form or an earlier one.
func keyed(topic, key string) bool {
	return subscription.Key(topic) == subscription.Key(key)
}

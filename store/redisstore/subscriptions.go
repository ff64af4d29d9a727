package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"carillon/delivery"
	"carillon/subscription"
)

var _ subscription.Store = (*Subscriptions)(nil)

// scanRequests is about how many requests one round trip reads.
const scanRequests = 500

// submitScript stores a request, in the place of the record that the caller has read under
// the same id.
//
//	KEYS  1 requests
//	ARGV  1 id  2 the request  3 how many may wait  4 the bell's channel  5 the record that it
//	      replaces, empty for none
//
// It returns 1, or 0 where too many wait, or the record that is stored, where that is another
// than ARGV[5].
var submitScript = grows("submit request", `
local stored = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if stored ~= ARGV[5] then return stored end
if stored == '' and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
-- First, as it may be forbidden (ACL). Nobody reads before all of this is done.
redis.call('PUBLISH', ARGV[4], 'r ' .. ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// keepStartScript stores a request with its start, in the place of the record that the caller
// has read.
//
//	KEYS  1 requests
//	ARGV  1 id  2 the request  3 the record that it replaces
//
// It returns 1, or the record that is stored, where that is another than ARGV[3]; empty for
// none.
var keepStartScript = shrinks("keep the start of a request", `
local stored = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if stored ~= ARGV[3] then return stored end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// settle stands before every script that settles a request. settle() takes the request away;
// it is false where that has another token than ARGV[2], or is gone. One that
// cannot be read is taken for the one that is settled, which was accepted.
const settle = `
local function settle()
  local stored = redis.call('HGET', KEYS[1], ARGV[1])
  if not stored then return false end
  if #stored >= 17 and string.sub(stored, 1, 1) == '1' and string.sub(stored, 2, 17) ~= ARGV[2] then
    return false
  end
  redis.call('HDEL', KEYS[1], ARGV[1])
  return true
end
`

// remove stands before every script that takes a subscription away. unlease() takes it out of
// the index of leases, with the record that is stored; remove() takes away the rest, too.
const remove = `
local function unlease(stored)
  if stored and #stored >= 25 then redis.call('ZREM', KEYS[3], string.sub(stored, 2, 25) .. ARGV[1]) end
end
local function remove(stored)
  unlease(stored)
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('HDEL', KEYS[4], ARGV[1])
  redis.call('DEL', KEYS[5])
end
`

// activateScript settles a request by the subscription that it leads to. The position,
// which may be there of what it renews, proves to delivery that there is a subscription.
//
//	KEYS  1 requests  2 subs  3 leases  4 cursors
//	ARGV  1 id  2 token  3 the subscription  4 its position at the start
//
// It returns 1, or 0 where the request was not the one.
var activateScript = shrinks("activate subscription", settle+remove+`
if not settle() then return 0 end
unlease(redis.call('HGET', KEYS[2], ARGV[1]))
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[3], 0, string.sub(ARGV[3], 2, 25) .. ARGV[1])
redis.call('HSETNX', KEYS[4], ARGV[1], ARGV[4])
return 1
`)

// dropScript settles a request and leaves the subscription alone.
//
//	KEYS  1 requests
//	ARGV  1 id  2 token
var dropScript = shrinks("drop request", settle+`
settle()
return 1
`)

// unsubscribeScript settles a request by the end of the subscription, if there is one.
//
//	KEYS  1 requests  2 subs  3 leases  4 cursors  5 gaps
//	ARGV  1 id  2 token
//
// It returns 1, or 0 where the request was not the one.
var unsubscribeScript = shrinks("unsubscribe", settle+remove+`
if not settle() then return 0 end
remove(redis.call('HGET', KEYS[2], ARGV[1]))
return 1
`)

// removeScript ends a subscription that still expires at a certain time.
//
//	KEYS  1 requests  2 subs  3 leases  4 cursors  5 gaps
//	ARGV  1 id  2 when it expires
//
// It returns 1, or 0 where it was renewed or is gone.
var removeScript = shrinks("remove subscription", remove+`
local stored = redis.call('HGET', KEYS[2], ARGV[1])
if not stored or string.sub(stored, 2, 25) ~= ARGV[2] then return 0 end
remove(stored)
return 1
`)

// expiredScript lists what has expired, in order, and takes entries out of the index that
// their subscription has outlived: those of a record that could not be read when it was
// replaced.
//
//	KEYS  1 leases  2 subs
//	ARGV  1 the entry after which to begin, or none  2 the end of the range  3 how many at most
//
// It returns entry, record, entry, record …
var expiredScript = shrinks("list expired subscriptions", `
local found = {}
local from = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local entries = redis.call('ZRANGEBYLEX', KEYS[1], from, '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
for _, entry in ipairs(entries) do
  local record = redis.call('HGET', KEYS[2], string.sub(entry, 25))
  if record and string.sub(record, 2, 25) == string.sub(entry, 1, 24) then
    found[#found + 1] = entry
    found[#found + 1] = record
  else
    redis.call('ZREM', KEYS[1], entry)
  end
end
return {#entries, found}
`)

// own are the keys of what belongs to one subscription.
func (k keys) own(id subscription.ID) []string {
	s := subscription.ShardOf(id)
	return []string{k.requests(s), k.subs(s), k.leases(s), k.cursors(s), k.gaps(id)}
}

// Submit implements subscription.Store. A request that cannot be read leaves nothing to
// the one that replaces it.
func (s *Subscriptions) Submit(ctx context.Context, r subscription.Request) error {
	return about("submit request", r.ID, s.submit(ctx, r))
}

// submit takes a second round trip where a request is replaced, and one more for each time
// that another process replaces it meanwhile.
func (s *Subscriptions) submit(ctx context.Context, r subscription.Request) error {
	e := s.db.engine
	key := e.keys.requests(subscription.ShardOf(r.ID))
	for heir, replaced := r, ""; ; {
		value, err := e.run(ctx, submitScript, []string{key},
			r.ID.String(), encodeRequest(heir), e.cfg.MaxRequests, e.keys.bell(), replaced)
		stored, moved := value.(string)
		switch {
		case err != nil:
			return err
		case value == int64(1):
			return nil
		case !moved:
			return subscription.ErrBusy
		}
		if heir, replaced = r, stored; stored == "" {
			continue // it was settled meanwhile
		}
		earlier, err := decodeRequest(r.ID, stored)
		if err != nil {
			e.damaged(key, r.ID.String(), err)
			continue
		}
		heir = r.Replacing(earlier)
	}
}

// KeepStart implements subscription.Store. It adds a few bytes, and is taken though the
// server's memory is full, as Activate is.
func (s *Subscriptions) KeepStart(
	ctx context.Context, r subscription.Request, start uint64,
) (subscription.Request, error) {
	kept, err := s.keepStart(ctx, r, start)
	if err != nil {
		return subscription.Request{}, about("keep the start of request", r.ID, err)
	}
	return kept, nil
}

// keepStart takes one round trip where the request is stored as the caller knows it.
func (s *Subscriptions) keepStart(
	ctx context.Context, r subscription.Request, start uint64,
) (subscription.Request, error) {
	e := s.db.engine
	key := e.keys.requests(subscription.ShardOf(r.ID))
	kept, replaced := r.StartingAt(start), string(encodeRequest(r))
	for {
		value, err := e.run(ctx, keepStartScript, []string{key}, r.ID.String(), encodeRequest(kept), replaced)
		stored, moved := value.(string)
		switch {
		case err != nil || !moved:
			return kept, err
		case stored == "":
			return r, subscription.ErrSuperseded
		}
		now, err := decodeRequest(r.ID, stored)
		switch {
		case err == nil && now.Token != r.Token, err != nil && otherToken(stored, r):
			return r, subscription.ErrSuperseded
		case err != nil: // it was accepted, and counts as r, as when it is settled
			e.damaged(key, r.ID.String(), err)
			now = r
		}
		kept, replaced = now.StartingAt(start), stored
	}
}

// otherToken reports whether a record that cannot be read is of another request than r, by
// the rule of the scripts that settle one.
func otherToken(record string, r subscription.Request) bool {
	return len(record) > tokenLen && record[0] == recordVersion && record[1:1+tokenLen] != string(r.Token[:])
}

// Requests implements subscription.Store.
func (s *Subscriptions) Requests(
	ctx context.Context, shard subscription.Shard,
) iter.Seq2[subscription.Request, error] {
	return func(yield func(subscription.Request, error) bool) {
		e := s.db.engine
		key := e.keys.requests(shard)
		for fields, err := range e.scan(ctx, scanHash, key, scanRequests) {
			if err != nil {
				yield(subscription.Request{}, fmt.Errorf("list the requests of shard %d: %w", shard, err))
				return
			}
			for i := 0; i < len(fields); i += 2 {
				r, err := requestOf(fields[i], fields[i+1])
				if err != nil {
					e.damaged(key, fields[i], err)
					continue
				}
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func requestOf(field, record string) (subscription.Request, error) {
	id, err := parseID(field)
	if err != nil {
		return subscription.Request{}, err
	}
	return decodeRequest(id, record)
}

// Request implements subscription.Store. An unreadable one counts as missing.
func (s *Subscriptions) Request(ctx context.Context, id subscription.ID) (subscription.Request, error) {
	key := s.db.engine.keys.requests(subscription.ShardOf(id))
	r, err := read(ctx, s.db.engine, key, id, decodeRequest)
	return r, about("get request", id, err)
}

// Activate implements subscription.Store. It takes the place of a request of about
// the same size, and is taken though the server's memory is full.
func (s *Subscriptions) Activate(ctx context.Context, r subscription.Request, sub subscription.Subscription) error {
	if sub.ID != r.ID {
		return about("activate subscription", r.ID, fmt.Errorf("the subscription has another id: %s", sub.ID))
	}
	position := encodePosition(delivery.Position{Settled: delivery.Seq(sub.Start)})
	err := s.settle(ctx, activateScript, r, encodeSubscription(sub), position)
	return about("activate subscription", r.ID, err)
}

// Drop implements subscription.Store.
func (s *Subscriptions) Drop(ctx context.Context, r subscription.Request) error {
	return about("drop request", r.ID, s.settle(ctx, dropScript, r))
}

// Unsubscribe implements subscription.Store.
func (s *Subscriptions) Unsubscribe(ctx context.Context, r subscription.Request) error {
	return about("unsubscribe", r.ID, s.settle(ctx, unsubscribeScript, r))
}

// settle runs a script that settles the request, and is ErrSuperseded where it is
// not the one.
func (s *Subscriptions) settle(ctx context.Context, script *script, r subscription.Request, more ...any) error {
	args := append([]any{r.ID.String(), r.Token[:]}, more...)
	value, err := s.db.engine.run(ctx, script, s.db.engine.keys.own(r.ID), args...)
	if err == nil && value != int64(1) {
		err = subscription.ErrSuperseded
	}
	return err
}

// Remove implements subscription.Store.
func (s *Subscriptions) Remove(ctx context.Context, sub subscription.Subscription) (removed bool, err error) {
	value, err := s.db.engine.run(ctx, removeScript, s.db.engine.keys.own(sub.ID),
		sub.ID.String(), sortable(sub.Expires))
	return value == int64(1), about("remove subscription", sub.ID, err)
}

// Get implements subscription.Store. An unreadable subscription counts as missing: a new one must find
// the way free.
func (s *Subscriptions) Get(ctx context.Context, id subscription.ID) (subscription.Subscription, error) {
	key := s.db.engine.keys.subs(subscription.ShardOf(id))
	sub, err := read(ctx, s.db.engine, key, id, decodeSubscription)
	return sub, about("get subscription", id, err)
}

// read reads one field of a hash, or ErrNotFound; also, logged, where it cannot be
// decoded.
func read[T any](
	ctx context.Context, e *engine, key string, id subscription.ID,
	decode func(id subscription.ID, record string) (T, error),
) (found T, err error) {
	if err := ctx.Err(); err != nil {
		return found, err
	}
	record, err := e.client.HGet(ctx, key, id.String()).Result()
	if errors.Is(err, redis.Nil) {
		return found, subscription.ErrNotFound
	}
	if err != nil {
		return found, e.failed(ctx, err)
	}
	if found, err = decode(id, record); err != nil {
		e.damaged(key, id.String(), err)
		return found, fmt.Errorf("%w: %w", subscription.ErrNotFound, err)
	}
	return found, nil
}

// expiredStep is how many entries one script goes over, for which all others wait.
const expiredStep = 500

// Expired implements subscription.Store.
func (s *Subscriptions) Expired(
	ctx context.Context, shard subscription.Shard, now time.Time, limit int,
) ([]subscription.Subscription, error) {
	var expired []subscription.Subscription
	for from := ""; len(expired) < limit; {
		some, last, more, err := s.expired(ctx, shard, from, now, min(limit-len(expired), expiredStep))
		if err != nil {
			return nil, fmt.Errorf("list expired subscriptions: %w", err)
		}
		expired = append(expired, some...)
		if !more {
			break
		}
		if last != "" { // where all were taken out, others have moved to the front
			from = last
		}
	}
	return expired, ctx.Err()
}

// expired goes over up to count entries after the one given; last is the last that
// has a record, and more says that there may be others.
func (s *Subscriptions) expired(
	ctx context.Context, shard subscription.Shard, from string, now time.Time, count int,
) (expired []subscription.Subscription, last string, more bool, err error) {
	e := s.db.engine
	// An entry that expires now is in the range: it goes on behind the instant.
	value, err := e.run(ctx, expiredScript, []string{e.keys.leases(shard), e.keys.subs(shard)},
		from, sortable(now)+"g", count)
	if err != nil {
		return nil, "", false, err
	}
	answer := value.([]any)
	found := answer[1].([]any)
	for i := 0; i < len(found); i += 2 {
		last = found[i].(string)
		field := last[sortableLen:]
		id, err := parseID(field)
		var sub subscription.Subscription
		if err == nil {
			sub, err = decodeSubscription(id, found[i+1].(string))
		}
		if err != nil {
			e.damaged(e.keys.subs(shard), field, err)
			continue
		}
		expired = append(expired, sub)
	}
	return expired, last, answer[0] == int64(count), nil
}

// about says what was being tried, and with which subscription.
func about(what string, id subscription.ID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, id, err)
}

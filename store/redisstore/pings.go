package redisstore

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"carillon/delivery"
	"carillon/subscription"
	"carillon/topic"
)

var _ delivery.Pings = (*Pings)(nil)

// pingScript notes pings, all or none, each with a count of its own.
//
//	KEYS  1 waiting  2 count
//	ARGV  1 the bell's channel  2 how many topics may wait  3 how many there are here
//	      then as many keys of topics, all different, and as many topics
//
// It returns the counts, or nothing where too many topics would wait.
var pingScript = grows("ping", `
local n = tonumber(ARGV[3])
local more = 0
for i = 4, 3 + n do more = more + 1 - redis.call('HEXISTS', KEYS[1], ARGV[i]) end
if more > 0 and redis.call('HLEN', KEYS[1]) + more > tonumber(ARGV[2]) then return {} end
local last, stored = unpack(redis.call('HMGET', KEYS[2], 'last', 'run'))
local identity = run()
last = tonumber(last)
if stored ~= identity or not last then last = fresh(last or 0) end
local counts, records = {}, {}
for i = 1, n do
  counts[i] = last + i
  records[i] = string.format('%.0f', counts[i]) .. ' ' .. ARGV[3 + n + i]
end
-- First, as it may be forbidden (ACL). Nobody reads before all of this is done.
for i = 1, n do redis.call('PUBLISH', ARGV[1], 'p ' .. records[i]) end
redis.call('HSET', KEYS[2], 'last', string.format('%.0f', last + n), 'run', identity)
for i = 1, n do redis.call('HSET', KEYS[1], ARGV[3 + i], records[i]) end
return counts
`)

// fetchedScript forgets a ping, unless a newer one waits for its topic.
//
//	KEYS  1 waiting
//	ARGV  1 the topic's key  2 the ping's count
//
// It returns the record of the newer one, which is forgotten if it is unreadable.
var fetchedScript = shrinks("fetched", `
local record = redis.call('HGET', KEYS[1], ARGV[1])
if not record then return false end
local count = string.match(record, '^(%d+) .')
if not count or count == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
if count == ARGV[2] then return false end
return record
`)

// Ping implements delivery.Pings. It is subscription.ErrBusy where more topics would
// wait than Config.MaxPings, unless all of them wait already.
func (p *Pings) Ping(ctx context.Context, topics []topic.Address) ([]delivery.Ping, error) {
	noted, err := p.ping(ctx, topics)
	if err != nil {
		return nil, fmt.Errorf("note pings: %w", err)
	}
	return noted, nil
}

func (p *Pings) ping(ctx context.Context, topics []topic.Address) ([]delivery.Ping, error) {
	if len(topics) == 0 {
		return nil, ctx.Err()
	}
	// Of several spellings of one topic the last is noted.
	var names []string
	places := make(map[string]int, len(topics))
	latest := make(map[string]topic.Address, len(topics))
	for _, at := range topics {
		key := at.Key()
		if _, again := places[key]; !again {
			places[key] = len(names)
			names = append(names, key)
		}
		latest[key] = at
	}
	e := p.db.engine
	args := make([]any, 0, 3+2*len(names))
	args = append(args, e.keys.bell(), e.cfg.MaxPings, len(names))
	for _, key := range names {
		args = append(args, key)
	}
	for _, key := range names {
		args = append(args, latest[key].String())
	}
	value, err := e.run(ctx, pingScript, []string{e.keys.pings(), e.keys.pingCount()}, args...)
	if err != nil {
		return nil, err
	}
	counts, _ := value.([]any)
	if len(counts) != len(names) {
		return nil, fmt.Errorf("%w: %d topics wait for their fetch at most", subscription.ErrBusy, e.cfg.MaxPings)
	}
	noted := make([]delivery.Ping, len(topics))
	for i, at := range topics {
		count, _ := counts[places[at.Key()]].(int64)
		noted[i] = delivery.Ping{Topic: at, Count: uint64(count)}
	}
	return noted, nil
}

// Fetched implements delivery.Pings.
func (p *Pings) Fetched(ctx context.Context, ping delivery.Ping) (left *delivery.Ping, err error) {
	e := p.db.engine
	key := ping.Topic.Key()
	value, err := e.run(ctx, fetchedScript, []string{e.keys.pings()}, key, strconv.FormatUint(ping.Count, 10))
	if err != nil {
		return nil, fmt.Errorf("forget the ping of %q: %w", ping.Topic, err)
	}
	record, there := value.(string)
	if !there {
		return nil, nil
	}
	other, err := decodePing(key, record)
	if err != nil {
		// Its topic is known from the call, and was fetched.
		e.damaged(e.keys.pings(), key, err)
		return nil, nil
	}
	return &other, nil
}

// Waiting implements delivery.Pings.
func (p *Pings) Waiting(ctx context.Context) iter.Seq2[delivery.Ping, error] {
	return func(yield func(delivery.Ping, error) bool) {
		e := p.db.engine
		for fields, err := range e.scan(ctx, scanHash, e.keys.pings(), scanRequests) {
			if err != nil {
				yield(delivery.Ping{}, fmt.Errorf("list the pings: %w", err))
				return
			}
			for i := 0; i < len(fields); i += 2 {
				ping, err := decodePing(fields[i], fields[i+1])
				if err != nil {
					e.damaged(e.keys.pings(), fields[i], err)
					continue
				}
				if !yield(ping, nil) {
					return
				}
			}
		}
	}
}

// decodePing reads the record of the topic with the key: its count in decimal, a
// space, and the topic as in the request.
func decodePing(key, record string) (delivery.Ping, error) {
	ping, err := parsePing(record)
	if err != nil {
		return delivery.Ping{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if ping.Topic.Key() != key {
		return delivery.Ping{}, fmt.Errorf("%w: it is of the topic %q", ErrDamaged, ping.Topic)
	}
	return ping, nil
}

func parsePing(text string) (delivery.Ping, error) {
	number, spelling, _ := strings.Cut(text, " ")
	count, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return delivery.Ping{}, fmt.Errorf("a ping's count: %w", err)
	}
	if spelling == "" {
		return delivery.Ping{}, fmt.Errorf("a ping has no topic")
	}
	return delivery.Ping{Topic: topic.Parse(spelling), Count: count}, nil
}

package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

var _ delivery.Marks = (*Marks)(nil)

// markedAt is the field that says when a shard was marked. No topic is called so.
const markedAt = "!at"

// markScript records the lowest cursors of a shard's topics, in the place of what was noted.
// It runs while the server's memory is full, as what it leads to frees some.
//
//	KEYS  1 cursors  2 marks
//	ARGV  1 the epoch  then a topic and its cursor, by turns
//
// It returns 1, or 0 where the epoch is not the shard's.
var markScript = shrinks("mark a shard", `
if redis.call('HGET', KEYS[1], '!epoch') ~= ARGV[1] then return 0 end
local t = redis.call('TIME')
redis.call('UNLINK', KEYS[2])
redis.call('HSET', KEYS[2], '!at', string.format('%.0f', t[1] * 1000000 + t[2]))
for i = 2, #ARGV, 4000 do
  redis.call('HSET', KEYS[2], unpack(ARGV, i, math.min(i + 3999, #ARGV)))
end
return 1
`)

// lowestScript reads the marks of a shard.
//
//	KEYS  1 marks
//
// It returns how many microseconds ago they were made, by the server's clock, -1 if
// never; and the hash.
var lowestScript = reads("read marks", `
local t = redis.call('TIME')
local at = tonumber(redis.call('HGET', KEYS[1], '!at') or '')
return {at and t[1] * 1000000 + t[2] - at or -1, redis.call('HGETALL', KEYS[1])}
`)

// Mark implements delivery.Marks.
func (m *Marks) Mark(ctx context.Context, t delivery.Tenure, lowest map[string]delivery.Seq) error {
	if t.Shard >= subscription.Shards {
		return fmt.Errorf("mark a shard: there is no shard %d", t.Shard)
	}
	e := m.db.engine
	args := make([]any, 0, 1+2*len(lowest))
	args = append(args, strconv.FormatUint(t.Epoch, 10))
	for topic, seq := range lowest {
		args = append(args, topic, strconv.FormatUint(uint64(seq), 10))
	}
	value, err := e.run(ctx, markScript, []string{e.keys.cursors(t.Shard), e.keys.marks(t.Shard)}, args...)
	if err != nil {
		return err
	}
	if value != int64(1) {
		m.db.nudge()
		return fmt.Errorf("mark shard %d: %w", t.Shard, &delivery.FencedError{Shards: []subscription.Shard{t.Shard}})
	}
	return nil
}

// Lowest implements delivery.Marks. The clocks of the processes and of the server need not
// agree: compared is how long ago each says that it was. A mark that was made
// before since by less than one round trip may count as one made after it.
func (m *Marks) Lowest(ctx context.Context, since time.Time) (lowest map[string]delivery.Seq, ok bool, err error) {
	e := m.db.engine
	lowest = make(map[string]delivery.Seq)
	// One shard after another: the marks of all at once may be much.
	for s := range subscription.Shard(subscription.Shards) {
		value, err := e.run(ctx, lowestScript, []string{e.keys.marks(s)})
		if err != nil {
			return nil, false, err
		}
		// After the answer, so that what was marked after since is not too old.
		if !m.lower(lowest, s, value, time.Since(since)) {
			return nil, false, nil
		}
	}
	return lowest, true, nil
}

// lower takes in what was read of a shard, unless that is older than it may be,
// or cannot be read: to trim by a part of it would lose what others need.
func (m *Marks) lower(
	lowest map[string]delivery.Seq, s subscription.Shard, value any, oldest time.Duration,
) (ok bool) {
	e := m.db.engine
	answer := value.([]any)
	age := time.Duration(answer[0].(int64)) * time.Microsecond
	if age < 0 || age > oldest {
		return false // also where the server's clock went back
	}
	for pair := range slices.Chunk(answer[1].([]any), 2) {
		topic, record := pair[0].(string), pair[1].(string)
		if topic == markedAt {
			continue
		}
		n, err := strconv.ParseUint(record, 10, 64)
		if err != nil {
			e.damaged(e.keys.marks(s), topic, fmt.Errorf("%w: a mark: %w", ErrDamaged, err))
			return false
		}
		if known, again := lowest[topic]; !again || delivery.Seq(n) < known {
			lowest[topic] = delivery.Seq(n)
		}
	}
	return true
}

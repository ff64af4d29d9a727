package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"carillon/delivery"
	"carillon/subscription"
)

const (
	// maxGaps is how many gaps are kept of one subscription; the oldest go first.
	maxGaps = 100
	// scanMembers is about how many members one round trip reads.
	scanMembers = 1000
)

var _ delivery.Cursors = (*Cursors)(nil)

// Members implements delivery.Cursors. The subscriptions are scanned, and each
// part's positions are read after it, so that a position is never older than
// its subscription.
func (c *Cursors) Members(ctx context.Context, s subscription.Shard) iter.Seq2[delivery.Member, error] {
	e := c.db.engine
	scan := func(ctx context.Context) iter.Seq2[[]string, error] {
		return e.scan(ctx, scanHash, e.keys.subs(s), scanMembers)
	}
	return func(yield func(delivery.Member, error) bool) {
		for subs, err := range ahead(ctx, scan) {
			var positions []string
			if err == nil {
				positions, err = c.positions(ctx, s, subs)
			}
			if err != nil {
				yield(delivery.Member{}, fmt.Errorf("list the members of shard %d: %w", s, err))
				return
			}
			for i, position := range positions {
				m, ok := c.member(s, subs[2*i], subs[2*i+1], position)
				if ok && !yield(m, nil) {
					return
				}
			}
		}
	}
}

// positions reads those of subscriptions.
func (c *Cursors) positions(ctx context.Context, s subscription.Shard, subs []string) ([]string, error) {
	if len(subs) == 0 {
		return nil, nil
	}
	e := c.db.engine
	args := make([]any, 0, 2+len(subs)/2)
	args = append(args, "hmget", e.keys.cursors(s))
	for i := 0; i < len(subs); i += 2 {
		args = append(args, &subs[i]) // a pointer takes no allocation
	}
	cmd := redis.NewStringSliceCmd(ctx, args...)
	_ = e.client.Process(ctx, cmd) // the command has its error
	positions, err := cmd.Result()
	return positions, e.failed(ctx, err)
}

// member reads a member. A position that cannot be read counts for nothing, so
// that the subscription stands at its Start: it gets again what it had rather
// than never what it did not have.
func (c *Cursors) member(s subscription.Shard, name, record, position string) (m delivery.Member, ok bool) {
	e := c.db.engine
	id, err := parseID(name)
	if err == nil {
		m.Subscription, err = decodeSubscription(id, record)
	}
	if err != nil {
		e.damaged(e.keys.subs(s), name, err)
		return m, false
	}
	if position != "" {
		if m.Position, err = decodePosition(position); err != nil {
			e.damaged(e.keys.cursors(s), name, err)
		}
	}
	if start := delivery.Seq(m.Start); m.Settled < start {
		m.Position = delivery.Position{Settled: start}
	}
	return m, true
}

// saveScript writes a batch of one shard, whole or not at all.
//
//	KEYS  1 cursors  2… gaps, of each subscription that has new ones
//	ARGV  1 the epoch  2 the advances  3 how many gaps are kept of a subscription
//	      for each key of gaps: the id  the number m of its gaps  m times First and the record
//
// It returns 1, or 0 where the epoch is not the shard's.
//
// The advances are one text, because the server needs more time for many short arguments. Each
// advance is its id, the length of its position in one byte, and the position.
//
// A position that is there proves that its subscription is. Numbers that begin
// a record are compared as text, as they may be beyond what Lua counts exactly.
// Up to 2000 advances take one HMGET and one HSET, as Lua passes no more
// than some thousand values at once.
var saveScript = shrinks("save cursors", `
local cursors, advances, chunk = KEYS[1], ARGV[2], 2000
local match, take = string.match, struct.unpack
local function before(a, b) return #a < #b or (#a == #b and a < b) end

local names, news, n, at = {'!epoch'}, {}, 0, 1
while at <= #advances do
  n = n + 1
  names[n + 1], news[n], at = take('c36Bc0', advances, at)
end
at = 4
for k = 2, #KEYS do
  names[#names + 1] = ARGV[at]
  at = at + 2 + 2 * ARGV[at + 1]
end
local stored
for i = 1, #names, chunk do
  local part = redis.call('HMGET', cursors, unpack(names, i, math.min(i + chunk - 1, #names)))
  if i == 1 then stored = part else for j = 1, #part do stored[i + j - 1] = part[j] end end
  if stored[1] ~= ARGV[1] then return 0 end
end

local changes, c = {}, 0
for i = 1, n do
  local old, new = stored[i + 1], news[i]
  if old and old ~= new then
    local settled = match(old, '^%d+')
    if not (settled and before(match(new, '^%d+'), settled)) then
      changes[c + 1], changes[c + 2] = names[i + 1], new
      c = c + 2
    end
  end
end
for i = 1, c, 2 * chunk do
  redis.call('HSET', cursors, unpack(changes, i, math.min(i + 2 * chunk - 1, c)))
end

at = 4
for k = 2, #KEYS do
  local last = at + 1 + 2 * ARGV[at + 1]
  if stored[n + k] then
    for i = at + 2, last, 2 do redis.call('ZREMRANGEBYSCORE', KEYS[k], ARGV[i], ARGV[i]) end
    for i = at + 2, last, chunk do
      redis.call('ZADD', KEYS[k], unpack(ARGV, i, math.min(i + chunk - 1, last)))
    end
    redis.call('ZREMRANGEBYRANK', KEYS[k], 0, -1 - ARGV[3])
  end
  at = last + 1
end
return 1
`)

// Save implements delivery.Cursors. Every batch is a script of its own. Where one of them may not have
// run, Save is ErrUnavailable, on a Cluster a *delivery.SaveError. A repetition of the written ones
// does no harm, and fenced ones are fenced again.
func (c *Cursors) Save(ctx context.Context, batches []delivery.Batch) error {
	if err := delivery.CheckBatches(batches); err != nil {
		return fmt.Errorf("save cursors: %w", err)
	}
	if len(batches) == 0 {
		return ctx.Err()
	}
	calls := make([]call, len(batches))
	at := make(map[subscription.ID]int)
	for i, b := range batches {
		clear(at)
		b.Advances = latest(b.Advances, at)
		calls[i] = c.saving(b)
	}
	var errs error
	var fenced, away []subscription.Shard
	for i, r := range c.db.engine.runAll(ctx, calls) {
		switch {
		case r.err != nil:
			// One reason is enough: the others are the same.
			errs, away = r.err, append(away, batches[i].Tenure.Shard)
		case r.value != int64(1):
			fenced = append(fenced, batches[i].Tenure.Shard)
		}
	}
	if len(fenced) > 0 {
		c.db.nudge()
	}
	if errs != nil && !errors.Is(errs, delivery.ErrPartAway) {
		return errs
	}
	if errs != nil {
		errs = &delivery.SaveError{Shards: away, Err: errs}
	}
	if len(fenced) > 0 {
		slices.Sort(fenced)
		errs = errors.Join(errs, fmt.Errorf("save cursors: %w", &delivery.FencedError{Shards: slices.Compact(fenced)}))
	}
	return errs
}

// saving is the call that writes the batch, which has one advance of each
// subscription.
func (c *Cursors) saving(b delivery.Batch) call {
	k := c.db.engine.keys
	keys := []string{k.cursors(b.Tenure.Shard)}
	args := make([]any, 0, 3+4*len(b.Gaps))
	args = append(args, strconv.FormatUint(b.Tenure.Epoch, 10), encodeAdvances(b.Advances), maxGaps)
	for id, gaps := range bySubscription(b.Gaps) {
		keys = append(keys, k.gaps(id))
		args = append(args, id.String(), len(gaps))
		for _, g := range gaps {
			args = append(args, strconv.FormatUint(uint64(g.First), 10), encodeGap(g))
		}
	}
	return call{saveScript, keys, args}
}

// latest leaves one advance for each subscription: the script compares with what
// was stored before it, not with the batch itself. at is empty.
func latest(advances []delivery.Advance, at map[subscription.ID]int) []delivery.Advance {
	kept := advances
	for n, a := range advances {
		i, again := at[a.Subscription]
		if again && len(kept) == len(advances) {
			kept = slices.Clone(advances[:n]) // they are the caller's
		}
		switch {
		case again && a.Position.Settled >= kept[i].Position.Settled:
			kept[i] = a
		case !again:
			at[a.Subscription] = len(at)
			if len(kept) < len(advances) {
				kept = append(kept, a)
			}
		}
	}
	return kept
}

// bySubscription sorts gaps by their subscription. Of several with the same First the
// last counts.
func bySubscription(gaps []delivery.Gap) map[subscription.ID][]delivery.Gap {
	by := make(map[subscription.ID][]delivery.Gap)
	for _, g := range gaps {
		of := by[g.Subscription]
		same := func(other delivery.Gap) bool { return other.First == g.First }
		by[g.Subscription] = append(slices.DeleteFunc(of, same), g)
	}
	return by
}

// Gaps implements delivery.Cursors.
func (c *Cursors) Gaps(ctx context.Context, id subscription.ID, limit int) ([]delivery.Gap, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := c.db.engine
	records, err := e.client.ZRevRange(ctx, e.keys.gaps(id), 0, -1).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("list gaps of %s: %w", id, e.failed(ctx, err))
	}
	gaps := c.gapsOf(id, records)
	return gaps[:min(len(gaps), max(limit, 0))], nil
}

// gapsOf reads the gaps of a subscription, but for those that are damaged.
func (c *Cursors) gapsOf(id subscription.ID, records []string) (gaps []delivery.Gap) {
	for _, record := range records {
		g, err := decodeGap(id, record)
		if err != nil {
			c.db.engine.damaged(c.db.engine.keys.gaps(id), record, err)
			continue
		}
		gaps = append(gaps, g)
	}
	return gaps
}

// Gapped implements delivery.Cursors. Few subscriptions have gaps, and those that have
// are found by the names of the keys: one command asks for some hundred of them at once.
func (c *Cursors) Gapped(ctx context.Context, s subscription.Shard) iter.Seq2[subscription.ID, error] {
	e := c.db.engine
	return func(yield func(subscription.ID, error) bool) {
		for fields, err := range e.scan(ctx, scanHash, e.keys.cursors(s), scanMembers) {
			var gapped []subscription.ID
			if err == nil {
				gapped, err = c.gapped(ctx, fields)
			}
			if err != nil {
				yield(subscription.ID{}, fmt.Errorf("list who has gaps in shard %d: %w", s, err))
				return
			}
			for _, id := range gapped {
				if !yield(id, nil) {
					return
				}
			}
		}
	}
}

// gapped finds who has gaps among the fields of cursors, which come with their values.
func (c *Cursors) gapped(ctx context.Context, fields []string) (gapped []subscription.ID, err error) {
	e := c.db.engine
	ids := make([]subscription.ID, 0, len(fields)/2)
	names := make([]string, 0, len(fields)/2)
	for i := 0; i < len(fields); i += 2 {
		if id, err := parseID(fields[i]); err == nil { // else it is of the lease
			ids, names = append(ids, id), append(names, e.keys.gaps(id))
		}
	}
	if len(names) == 0 {
		return nil, ctx.Err()
	}
	if there, err := e.client.Exists(ctx, names...).Result(); err != nil || there == 0 {
		return nil, e.failed(ctx, err)
	}
	pipe := e.client.Pipeline()
	found := make([]*redis.StringSliceCmd, len(names))
	for i, name := range names {
		found[i] = pipe.ZRange(ctx, name, 0, -1)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, id := range ids {
		records, err := found[i].Result()
		if err != nil {
			return nil, e.failed(ctx, err)
		}
		if slices.ContainsFunc(c.gapsOf(id, records), func(g delivery.Gap) bool { return g.Replayed.IsZero() }) {
			gapped = append(gapped, id)
		}
	}
	return gapped, nil
}

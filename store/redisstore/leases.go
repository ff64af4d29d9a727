package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"carillon/delivery"
	"carillon/subscription"
)

// The scripts of membership and of leases run while the server's memory is full, too: they write a few
// fields, and no process could go on without them.

// joinScript makes the process a member, or keeps it one, and forgets those that
// were silent for too long. Where the server's clock has gone back, what was
// written before counts for the longest takeover at most; lookScript does so too.
//
//	KEYS  1 members
//	ARGV  1 the process  2 for how long, ms  3 the bell's channel  4 the longest takeover, ms
//
// It returns the names of the members and, in milliseconds, how long each will be
// one if it stays silent, in turns.
var joinScript = shrinks("join", `
local now, members = now(), KEYS[1]
redis.call('ZREMRANGEBYSCORE', members, '-inf', now)
-- First, as it may be forbidden (ACL). Nobody looks before all of this is done.
if not redis.call('ZSCORE', members, ARGV[1]) then redis.call('PUBLISH', ARGV[3], 'm') end
redis.call('ZADD', members, now + ARGV[2], ARGV[1])
local latest = string.format('%.0f', now + ARGV[4])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', members, '(' .. latest, '+inf')) do
  redis.call('ZADD', members, latest, name)
end
local list = redis.call('ZRANGE', members, 0, -1, 'WITHSCORES')
for i = 2, #list, 2 do list[i] = list[i] - now end
return list
`)

// leaveScript ends a membership.
//
//	KEYS  1 members
//	ARGV  1 the process  2 the bell's channel
var leaveScript = shrinks("leave", `
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then redis.call('PUBLISH', ARGV[2], 'm') end
return 1
`)

// renewScript renews a lease. It does so also when the lease has run out, if no process took the shard
// since, as nothing happened to it then.
//
//	KEYS  1 cursors
//	ARGV  1 the process  2 its epoch  3 for how long, ms
//
// It returns 1; 2 where the lease is renewed but the server is another than when it was taken, and may
// have lost acknowledged data; 3 where the shard has no epoch, which is never removed: all its data is
// gone; 0 where it is no longer the process's.
var renewScript = shrinks("renew a shard", `
local lease = redis.call('HMGET', KEYS[1], '!epoch', '!owner', '!run')
if not lease[1] then return 3 end
if lease[1] ~= ARGV[2] or lease[2] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], '!until', now() + ARGV[3])
return lease[3] == run() and 1 or 2
`)

// lookScript reports when a shard can be taken.
//
//	KEYS  1 cursors
//	ARGV  1 the process  2 the longest takeover, ms
//
// It returns in how many milliseconds its lease runs out if it is not renewed; -1 where that has
// happened; 0 where no other process has it.
var lookScript = shrinks("look at a shard", `
local lease = redis.call('HMGET', KEYS[1], '!owner', '!until')
if not lease[1] or lease[1] == ARGV[1] then return 0 end
local now, longest = now(), tonumber(ARGV[2])
local left = (tonumber(lease[2]) or 0) - now
if left > longest then
  left = longest
  redis.call('HSET', KEYS[1], '!until', now + left)
end
return left > 0 and left or -1
`)

// takeScript takes a shard that is free, or the process's own, under an epoch that was never given
// before: the next one, or a fresh one where the server is another than that which gave the last.
//
//	KEYS  1 cursors
//	ARGV  1 the process  2 for how long, ms
//
// It returns the epoch, 0 and 1, or 0 in its place where the shard had no epoch before; or 0, in how
// many milliseconds the owner's lease runs out, and 1.
var takeScript = shrinks("take a shard", `
local lease = redis.call('HMGET', KEYS[1], '!epoch', '!owner', '!until', '!run')
local now, run = now(), run()
local left = (tonumber(lease[3]) or 0) - now
if lease[2] and lease[2] ~= ARGV[1] and left > 0 then return {0, left, 1} end
local epoch = tonumber(lease[1]) or 0
if epoch == 0 or lease[4] ~= run then epoch = fresh(epoch) end
epoch = epoch + 1
redis.call('HSET', KEYS[1], '!epoch', string.format('%.0f', epoch),
  '!owner', ARGV[1], '!until', now + ARGV[2], '!run', run)
return {epoch, 0, lease[1] and 1 or 0}
`)

// releaseScript gives a shard up. Its epoch stays.
//
//	KEYS  1 cursors
//	ARGV  1 the process  2 its epoch; 0: whichever it has  3 the bell's channel
//
// It returns 1, or 0 where the shard is no longer the process's.
var releaseScript = shrinks("release a shard", `
local lease = redis.call('HMGET', KEYS[1], '!epoch', '!owner')
if (lease[1] ~= ARGV[2] and ARGV[2] ~= '0') or lease[2] ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], '!owner', '!until')
redis.call('PUBLISH', ARGV[3], 'm')
return 1
`)

// verb is what a process asks of a lease, or of the membership.
type verb uint8

const (
	join verb = iota
	leave
	renew
	look
	take
	release
)

// The answers of renewScript.
const (
	leaseLost   int64 = 0
	leaseKept   int64 = 1
	leaseDoubts int64 = 2
	leaseGone   int64 = 3
)

// ask is one question of an exchange.
type ask struct {
	verb  verb
	shard subscription.Shard
	epoch uint64
	young bool // join: it began less than a takeover ago
}

// answer is the outcome of an ask. Which fields are set depends on the verb.
type answer struct {
	ask
	err     error
	verdict int64         // renew
	granted uint64        // take: the epoch
	first   bool          // take: the shard had no epoch before
	left    time.Duration // look, take: how long the shard is another's; negative: its lease ran out
	members []member      // join: in order
}

// member is a process, as it was when the question was answered.
type member struct {
	process string
	left    time.Duration // how long it stays a member without a word
}

// round is an exchange with the server.
type round struct {
	sent    time.Time // before it left
	full    bool      // everything was asked about
	looked  bool      // the shards of others, too
	answers []answer
	err     error // of what is not in the answers
}

func (r *round) add(a ask) { r.answers = append(r.answers, answer{ask: a}) }

// errSlower is of a server of a Cluster that did not answer though another did.
var errSlower = fmt.Errorf("%w: a server is silent, others answer", delivery.ErrPartAway)

// exchange sends all questions, in one round trip to each server, and fills in the answers. Once one
// server has answered the others have so long as patience: a server that hangs must not keep the
// shards of others waiting.
func (e *engine) exchange(ctx context.Context, answers []answer, patience time.Duration) []answer {
	groups := e.byServer(ctx, answers)
	if len(groups) == 1 {
		return e.exchangeAll(ctx, answers)
	}
	answered := make(chan []answer, len(groups))
	for _, group := range groups {
		go func() { answered <- e.exchangeAll(ctx, group) }()
	}
	var done []answer
	var due <-chan time.Time // nil until one has answered
	for range groups {
		select {
		case group := <-answered:
			done = append(done, group...)
			if due == nil && slices.ContainsFunc(group, func(a answer) bool { return a.err == nil }) {
				due = time.After(patience)
			}
		case <-due:
			e.reroute()
			return append(done, unanswered(groups, done)...)
		}
	}
	return done
}

// unanswered are the questions of groups that are not among those done, with errSlower.
func unanswered(groups [][]answer, done []answer) (late []answer) {
	for _, a := range slices.Concat(groups...) {
		if !slices.ContainsFunc(done, func(d answer) bool { return d.ask == a.ask }) {
			late = append(late, answer{ask: a.ask, err: errSlower})
		}
	}
	return late
}

// byServer sorts questions by the server of a Cluster that is asked. A server that is not known is
// one group with the others of that kind.
func (e *engine) byServer(ctx context.Context, answers []answer) [][]answer {
	client, ok := e.client.(*redis.ClusterClient)
	if !ok {
		return [][]answer{answers}
	}
	by := make(map[string][]answer)
	for _, a := range answers {
		addr := ""
		if server, err := client.MasterForKey(ctx, e.asking(a.ask).keys[0]); err == nil {
			addr = server.Options().Addr
		}
		by[addr] = append(by[addr], a)
	}
	return slices.Collect(maps.Values(by))
}

// exchangeAll is exchange that waits for all.
func (e *engine) exchangeAll(ctx context.Context, answers []answer) []answer {
	answers = slices.Clone(answers)
	calls := make([]call, len(answers))
	for i := range answers {
		calls[i] = e.asking(answers[i].ask)
	}
	for i, r := range e.runAll(ctx, calls) {
		if answers[i].err = r.err; r.err == nil {
			answers[i].read(r.value)
		}
	}
	return answers
}

// asking is the call of a question.
func (e *engine) asking(a ask) call {
	me, bell := e.cfg.Process, e.keys.bell()
	takeover, longest := e.cfg.Takeover.Milliseconds(), maxTakeover.Milliseconds()
	epoch := strconv.FormatUint(a.epoch, 10)
	members, shard := []string{e.keys.members()}, []string{e.keys.cursors(a.shard)}
	switch a.verb {
	case join:
		if a.young {
			// One that dies again and again, under a new name each time, would else
			// be many members, to whom the others leave their parts.
			takeover /= 4
		}
		return call{joinScript, members, []any{me, takeover, bell, longest}}
	case leave:
		return call{leaveScript, members, []any{me, bell}}
	case renew:
		return call{renewScript, shard, []any{me, epoch, takeover}}
	case look:
		return call{lookScript, shard, []any{me, longest}}
	case take:
		return call{takeScript, shard, []any{me, takeover}}
	default:
		return call{releaseScript, shard, []any{me, epoch, bell}}
	}
}

// read reads what the script returned.
func (a *answer) read(value any) {
	list, _ := value.([]any)
	number, single := value.(int64)
	switch {
	case a.verb == join && len(list) > 0 && len(list)%2 == 0:
		for pair := range slices.Chunk(list, 2) {
			process, _ := pair[0].(string)
			left, _ := pair[1].(int64)
			a.members = append(a.members, member{process, milliseconds(left)})
		}
		slices.SortFunc(a.members, func(a, b member) int { return cmp.Compare(a.process, b.process) })
	case a.verb == take && len(list) == 3:
		epoch, _ := list[0].(int64)
		left, _ := list[1].(int64)
		a.granted, a.left, a.first = uint64(epoch), milliseconds(left), list[2] == int64(0)
	case a.verb == look && single:
		a.left = milliseconds(number)
	case single && a.verb != join && a.verb != take:
		a.verdict = number
	default:
		a.err = fmt.Errorf("an unexpected answer: %v", value)
	}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

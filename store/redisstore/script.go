package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"carillon/subscription"
)

// script is a Lua script that changes or reads keys of one hash tag. Above each
// stands what it is given in KEYS and ARGV, and what it returns.
type script struct {
	name   string
	source string
	lua    *redis.Script
	// changes: its effect must have reached as many replicas as the configuration asks for.
	changes bool
	grows   bool // the server refuses it while its memory is full
}

// grows makes a script that the server refuses whole while its memory is full.
func grows(name, body string) *script {
	s := newScript(name, "#!lua\n", body, true)
	s.grows = true
	return s
}

// shrinks makes a script that runs though the server's memory is full: it frees
// some, or replaces what is there by about as much.
func shrinks(name, body string) *script {
	return newScript(name, "#!lua flags=allow-oom\n", body, true)
}

// reads makes a script that changes nothing.
func reads(name, body string) *script {
	return newScript(name, "#!lua flags=no-writes\n", body, false)
}

func newScript(name, head, body string, changes bool) *script {
	source := head + fresh + body
	return &script{name: name, source: source, lua: redis.NewScript(source), changes: changes}
}

// fresh stands before every script.
//
// run() is the identity of the server process and of its time as a master. Another one may have lost
// the end of the data that this store counts as durable, and so may this one where it was a replica in
// between. Every append calls run, so it must be quick: a pattern over the whole text would take more
// than an eighth of an append's time.
//
// fresh(last) is a number to go on from under a new identity, or for a missing key. It is not below
// any number that was given before, lost or not. That holds as long as the clock of the servers does
// not go back behind the beginning of the one before, and no more than 65,536 numbers a second are
// given over its life. Where last, the kept number, shows that the clock did go back, fresh goes on
// 2^26 above it. Then it is enough that fewer numbers than that were lost, all of the identity that
// gave the last. It does not always jump, as numbers would run ahead of the clock where servers change
// often, and would not help a log that is lost whole.
//
// now() is the time in milliseconds. size(note, summary, body) is what a notification counts for in
// the bytes of its log, and sum(bytes, more) adds more to the bytes in a head.
const fresh = `
local function run()
  local info = redis.call('INFO', 'server', 'replication')
  local function id(name)
    local _, last = string.find(info, name, 1, true)
    return string.match(info, '^%x+', last + 1)
  end
  return id('run_id:') .. id('master_replid:')
end
local function now() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end
local function fresh(last)
  local t = redis.call('TIME')
  local clock = (t[1] - 1767225600) * 65536 + math.floor(t[2] * 65536 / 1000000)
  if clock > last then return clock end
  return last + 67108864
end
local function size(note, summary, body) return #note + #summary + #body + 400 end
local function sum(bytes, more) return string.format('%.0f', math.max(0, (tonumber(bytes or 0) or 0) + more)) end
`

// call is one run of a script.
type call struct {
	script *script
	keys   []string
	args   []any
}

// run runs a script and returns what it returns; nil for nil.
func (e *engine) run(ctx context.Context, s *script, keys []string, args ...any) (any, error) {
	results := e.runAll(ctx, []call{{s, keys, args}})
	return results[0].value, results[0].err
}

// result is the outcome of a call.
type result struct {
	value any
	err   error
}

// runAll runs scripts beside each other, in one round trip to each server. A
// server that does not have a script is given it. Where replicas must have what
// changed, those that too few of them have got are ErrUnavailable, though made.
func (e *engine) runAll(ctx context.Context, calls []call) []result {
	results := make([]result, len(calls))
	missing := e.pipeline(ctx, calls, results, all(len(calls)), byHash)
	if len(missing) > 0 {
		e.pipeline(ctx, calls, results, missing, bySource)
	}
	return results
}

func all(n int) []int {
	indexes := make([]int, n)
	for i := range indexes {
		indexes[i] = i
	}
	return indexes
}

// The two ways to name a script to a server.
func byHash(c call) (command, script string)   { return "evalsha", c.script.lua.Hash() }
func bySource(c call) (command, script string) { return "eval", c.script.source }

// once is a command that the client never sends again after it may have run. The
// redirections of a Cluster are followed: the node that gave one did nothing.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// command makes the command that runs the script.
func (c call) command(ctx context.Context, how func(call) (command, script string)) once {
	name, script := how(c)
	args := make([]any, 0, 3+len(c.keys)+len(c.args))
	args = append(args, name, script, len(c.keys))
	for _, key := range c.keys {
		args = append(args, key)
	}
	cmd := redis.NewCmd(ctx, append(args, c.args...)...)
	cmd.SetFirstKeyPos(3)
	return once{cmd}
}

// pipeline makes those calls and reports which of them found no script.
func (e *engine) pipeline(
	ctx context.Context, calls []call, results []result, which []int,
	how func(call) (command, script string),
) (missing []int) {
	if err := ctx.Err(); err != nil {
		for _, i := range which {
			results[i].err = err
		}
		return nil
	}
	pipe := e.client.Pipeline()
	commands := make([]once, len(which))
	changes := false
	for n, i := range which {
		commands[n] = calls[i].command(ctx, how)
		_ = pipe.Process(ctx, commands[n]) // it is only queued
		changes = changes || calls[i].script.changes
	}
	received := e.await(ctx, pipe, changes)
	_, _ = pipe.Exec(ctx) // each command has its own error
	for n, i := range which {
		value, err := commands[n].Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			missing = append(missing, i)
			continue
		}
		if errors.Is(err, redis.Nil) {
			value, err = nil, nil
		}
		if err == nil && calls[i].script.grows {
			e.full.noteRoom(e.log, e.url)
		}
		if err == nil && calls[i].script.changes {
			err = received()
		}
		if err != nil {
			value, err = nil, fmt.Errorf("%s: %w", calls[i].script.name, e.failed(ctx, err))
		}
		results[i] = result{value, err}
	}
	return missing
}

// replicaTime bounds the wait for replicas. It is shorter than silenceTime, and half of
// what the caller has left if that is less, so that the answer is heard.
const replicaTime = 3 * time.Second

// await adds to a pipeline a wait until its changes reach the configured replicas. It uses the same
// connection, as WAIT is about the changes of that one. received reports, after the pipeline has run,
// whether they did.
func (e *engine) await(ctx context.Context, pipe redis.Pipeliner, changes bool) (received func() error) {
	want := int64(e.cfg.Replicas)
	if want == 0 || !changes {
		return func() error { return nil }
	}
	bound := replicaTime
	if end, ok := ctx.Deadline(); ok {
		bound = max(time.Millisecond, min(bound, time.Until(end)/2)) // WAIT takes 0 for no bound
	}
	wait := redis.NewCmd(ctx, "wait", want, bound.Milliseconds())
	_ = pipe.Process(ctx, once{wait}) // it is only queued
	return func() error {
		got, err := wait.Int64()
		if err == nil && got < want {
			e.metrics.failures.WithLabelValues(string(laggard)).Inc()
			err = fmt.Errorf("%w: %d of %d replicas have what was written", subscription.ErrUnavailable, got, want)
		}
		return err
	}
}

package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// script is a Lua script that changes or reads keys of one hash tag. Above each
// stands what it is given in KEYS and ARGV, and what it returns.
type script struct {
	name string
	lua  *redis.Script
}

// grows makes a script that the server refuses whole while its memory is full.
func grows(name, body string) *script {
	return &script{name, redis.NewScript("#!lua\n" + fresh + body)}
}

// shrinks makes a script that runs though the server's memory is full: it frees
// some, or replaces what is there by about as much.
func shrinks(name, body string) *script {
	return &script{name, redis.NewScript("#!lua flags=allow-oom\n" + fresh + body)}
}

// fresh stands before every script.
//
// run() is the identity of the server process and of its time as a master: another one
// may have lost the end of what this store was told is durable, and so may this
// one where it was a replica in between. fresh(last) is a number to go on from under a new
// identity, or for a key that is not there: it is not below any number that was given
// before, lost or not, as long as the clock of the servers does not go back behind the
// beginning of the one before, and numbers are not given out at more than 65,536
// a second for all of its life. now() is the time in milliseconds.
const fresh = `
local function run()
  local info = redis.call('INFO', 'server', 'replication')
  return string.match(info, 'run_id:(%x+)') .. string.match(info, 'master_replid:(%x+)')
end
local function now() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end
local function fresh(last)
  local t = redis.call('TIME')
  return math.max(last, (t[1] - 1767225600) * 65536 + math.floor(t[2] * 65536 / 1000000))
end
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

// result is what came of a call.
type result struct {
	value any
	err   error
}

// runAll runs scripts beside each other, in one round trip to each server. A
// server that does not have a script is given it.
func (e *engine) runAll(ctx context.Context, calls []call) []result {
	results := make([]result, len(calls))
	missing := e.pipeline(ctx, calls, results, all(len(calls)), (*redis.Script).EvalSha)
	if len(missing) > 0 {
		e.pipeline(ctx, calls, results, missing, (*redis.Script).Eval)
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

// pipeline makes those calls and tells which of them found no script.
func (e *engine) pipeline(
	ctx context.Context, calls []call, results []result, which []int,
	how func(*redis.Script, context.Context, redis.Scripter, []string, ...any) *redis.Cmd,
) (missing []int) {
	if err := ctx.Err(); err != nil {
		for _, i := range which {
			results[i].err = err
		}
		return nil
	}
	pipe := e.client.Pipeline()
	commands := make([]*redis.Cmd, len(which))
	for n, i := range which {
		commands[n] = how(calls[i].script.lua, ctx, pipe, calls[i].keys, calls[i].args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for n, i := range which {
		value, err := commands[n].Result()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			missing = append(missing, i)
		case errors.Is(err, redis.Nil):
			results[i] = result{}
		case err != nil:
			results[i].err = fmt.Errorf("%s: %w", calls[i].script.name, e.failed(ctx, err))
		default:
			results[i] = result{value: value}
		}
	}
	return missing
}

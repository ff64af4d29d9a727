package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"carillon/delivery"
)

// summariesStep is how many notifications are asked for in one round trip.
const summariesStep = 500

// noteScript reads of one entry of a log what is not its body: for entries that have no
// summary, as those of before. The server has the body in memory meanwhile, so it is asked
// for one at a time.
//
//	KEYS  1 log
//	ARGV  1 the entry's id
//
// It returns {after, note, the length of the body}, or nil where there is no entry.
var noteScript = reads("read a note", `
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not found then return false end
local fields = {}
for i = 1, #found[2], 2 do fields[found[2][i]] = found[2][i + 1] end
return {fields['a'] or '', fields['m'] or '', #(fields['b'] or '')}
`)

// Summaries implements delivery.Log. It reads the times, which have no bodies.
func (l *Log) Summaries(
	ctx context.Context, key string, before delivery.Seq, limit int,
) ([]delivery.Summary, error) {
	e := l.db.engine
	from := "+"
	if before > 0 {
		from = strconv.FormatUint(uint64(before)-1, 10) // there is no number 0
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list the log of %q: %w", key, err)
	}
	var list []delivery.Summary
	for len(list) < limit {
		step := min(limit-len(list), summariesStep)
		found, err := l.times(ctx, func() ([]redis.XMessage, error) {
			return e.client.XRevRangeN(ctx, e.keys.times(key), from, "-", int64(step)).Result()
		})
		if err == nil {
			list, err = l.summaries(ctx, key, found, list)
		}
		if err != nil {
			return nil, fmt.Errorf("list the log of %q below %d: %w", key, before, err)
		}
		if len(found) < step {
			break
		}
		from = "(" + found[len(found)-1].ID
	}
	return list, nil
}

// Summary implements delivery.Log.
func (l *Log) Summary(ctx context.Context, key string, from delivery.Seq) (delivery.Summary, error) {
	e := l.db.engine
	for at := strconv.FormatUint(uint64(from), 10); ; {
		found, err := l.times(ctx, func() ([]redis.XMessage, error) {
			return e.client.XRangeN(ctx, e.keys.times(key), at, "+", 1).Result()
		})
		var list []delivery.Summary
		if err == nil {
			list, err = l.summaries(ctx, key, found, nil)
		}
		switch {
		case err == nil && len(found) == 0:
			err = delivery.ErrEndOfLog
		case len(list) > 0:
			return list[0], nil
		}
		if err != nil {
			return delivery.Summary{}, fmt.Errorf("look into the log of %q at %d: %w", key, from, err)
		}
		at = "(" + found[0].ID
	}
}

// times asks for entries of the times.
func (l *Log) times(ctx context.Context, ask func() ([]redis.XMessage, error)) ([]redis.XMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, err := ask()
	return found, l.db.engine.failed(ctx, err)
}

// summaries adds the entries of the times to the list. Unreadable ones are logged, and left out.
func (l *Log) summaries(
	ctx context.Context, key string, entries []redis.XMessage, list []delivery.Summary,
) ([]delivery.Summary, error) {
	for _, found := range entries {
		s, err := decodeSummary(entry{found.ID, found.Values})
		if err == nil {
			list = append(list, s)
			continue
		}
		s, there, err := l.note(ctx, key, found.ID)
		if err != nil {
			return nil, err
		}
		if there {
			list = append(list, s)
		}
	}
	return list, nil
}

// note reads the summary of an entry from the log itself. It is missing if the entry was trimmed
// meanwhile, or is damaged, which is logged.
func (l *Log) note(ctx context.Context, key, id string) (s delivery.Summary, there bool, err error) {
	e := l.db.engine
	value, err := e.run(ctx, noteScript, []string{e.keys.log(key)}, id)
	if err != nil || value == nil {
		return s, false, err
	}
	list, _ := value.([]any)
	if len(list) != 3 {
		return s, false, fmt.Errorf("the script returned %v", value)
	}
	length, _ := list[2].(int64)
	n, err := decodeHead(key, entry{id, map[string]any{fieldAfter: list[0], fieldNote: list[1]}}, int(length))
	if err != nil {
		e.damaged(e.keys.log(key), id, err)
		return s, false, nil
	}
	return delivery.Summary{
		Seq: n.Seq, After: n.After, ID: n.ID, Accepted: n.Accepted,
		ContentType: n.ContentType, From: n.From, Until: n.Until, Bytes: length,
	}, true, nil
}

package redisstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"carillon/delivery"
)

var _ delivery.Log = (*Log)(nil)

// maxBody is the length of the longest body that is kept. Redis takes a value of
// 512 MB (proto-max-bulk-len), but does nothing else while it copies it.
const maxBody = 256 << 20

// appendScript appends a notification to a topic's log. The stream of times has the same ids as the
// log. It holds what Trim, Topics and Summaries need of a notification without its body.
//
//	KEYS  1 log  2 times  3 head
//	ARGV  1 the topic's key  2 "1" if it is in the set of topics, "?" to do nothing but
//	      return the outcome that it would have  3 the bell's channel
//	      4 id  5 until  6 digest, empty for none  7 accepted, in order  8 note  9 body
//	      10 summary
//
// It returns {"done", seq, previous}; or {"same", seq, id, previous} for the publication that was
// appended last. Or it does nothing and returns {"new"} where the topic may not be in the set of
// topics, {"full"} where the numbers are used up, {"damaged", head} where the head is not readable,
// and {"known"} for "?" in all other cases.
//
// Beside the time stands the size that the notification counts for. The head has the sum, which
// append, trim and restore keep. Entries of earlier versions count for nothing.
//
// A topic counts as new also under a new server, as the one with the set may be new as well, and have
// lost it.
var appendScript = grows("append", `
local head, stored, last, ended, previous, digest, bytes =
  unpack(redis.call('HMGET', KEYS[3], 'head', 'run', 'last', 'until', 'previous', 'digest', 'bytes'))
if head and not string.match(head, '^%d+$') then return {'damaged', head} end
if head and ARGV[6] ~= '' and digest == ARGV[6] then return {'same', tonumber(head), last, previous} end
local identity = run()
if stored ~= identity and ARGV[2] ~= '1' then return {'new'} end
if ARGV[2] == '?' then return {'known'} end
local after = tonumber(head or 0)
local seq = after
if stored ~= identity then seq = fresh(seq) end
seq = seq + 1
if seq > 9007199254740991 then return {'full'} end
local number = string.format('%.0f', seq)
-- First, as it may be forbidden (ACL). Nobody reads before all of this is done.
redis.call('PUBLISH', ARGV[3], 'n ' .. number .. ' ' .. ARGV[1])
local size, before = size(ARGV[8], ARGV[10], ARGV[9]), string.format('%.0f', after)
redis.call('XADD', KEYS[2], number .. '-0', 't', ARGV[7], 's', size, 'n', ARGV[10], 'a', before)
redis.call('XADD', KEYS[1], number .. '-0', 'a', before, 'm', ARGV[8], 'b', ARGV[9])
redis.call('HSET', KEYS[3], 'topic', ARGV[1], 'run', identity, 'head', number,
  'last', ARGV[4], 'until', ARGV[5], 'previous', ended or '', 'digest', ARGV[6],
  'bytes', sum(bytes, size))
return {'done', seq, ended or ''}
`)

// trimScript removes notifications from the oldest on, and empty streams with them; topics stay. The
// next number is above all removed ones, by the head.
//
//	KEYS  1 log  2 times  3 head
//	ARGV  1 the highest number that may go  2 the time before which they were accepted,
//	      in order  3 how many at most  4 they go while the log takes more bytes than this
//
// It returns how many went, and their bytes.
var trimScript = shrinks("trim", `
local bytes, keep = tonumber(redis.call('HGET', KEYS[3], 'bytes') or 0) or 0, tonumber(ARGV[4])
local count, went, first = 0, 0, nil
for i, entry in ipairs(redis.call('XRANGE', KEYS[2], '-', ARGV[1], 'COUNT', ARGV[3])) do
  if not (entry[2][2] < ARGV[2]) or bytes - went <= keep then break end
  count, first = i, string.match(entry[1], '^%d+') + 1
  went = math.min(bytes, went + (tonumber(entry[2][4] or 0) or 0))
end
if count > 0 then
  first = string.format('%.0f', first)
  redis.call('XTRIM', KEYS[1], 'MINID', first)
  redis.call('XTRIM', KEYS[2], 'MINID', first)
end
if redis.call('XLEN', KEYS[1]) + redis.call('XLEN', KEYS[2]) == 0 then
  redis.call('UNLINK', KEYS[1], KEYS[2])
  went = bytes
end
if went > 0 then redis.call('HSET', KEYS[3], 'bytes', sum(bytes, -went)) end
return {count, went}
`)

const (
	// trimStep is how many notifications go in one script, for which all others wait.
	trimStep = 256
	// greatBody is the length from which on a body is not sent before the server has said
	// that it would keep it. A lesser one goes at once: it is sent again to a server that is new,
	// or has not got the script.
	greatBody = 64 << 10
	// topicsStep is how many topics are asked for in one round trip.
	topicsStep = 500
)

// Append implements delivery.Log. A body above 256 MiB is an *http.MaxBytesError.
func (l *Log) Append(
	ctx context.Context, p delivery.Publication, id uuid.UUID, accepted time.Time,
) (delivery.Receipt, error) {
	key := p.Topic.Key()
	receipt, err := l.appendOnce(ctx, key, p, id, accepted)
	if err != nil {
		return delivery.Receipt{}, fmt.Errorf("append to the log of %q: %w", key, err)
	}
	return receipt, nil
}

func (l *Log) appendOnce(
	ctx context.Context, key string, p delivery.Publication, id uuid.UUID, accepted time.Time,
) (delivery.Receipt, error) {
	if len(p.Body) > maxBody {
		return delivery.Receipt{}, &http.MaxBytesError{Limit: maxBody}
	}
	e := l.db.engine
	names := []string{e.keys.log(key), e.keys.times(key), e.keys.head(key)}
	run := func(known string, body []byte) (any, error) {
		return e.run(ctx, appendScript, names, key, known, e.keys.bell(), id.String(), p.Until, digestOf(p),
			timeOrder(accepted), encodeNote(p, id, accepted), body, encodeSummary(p, id))
	}
	var value any = []any{"known"}
	var err error
	if len(p.Body) >= greatBody {
		value, err = run("?", nil)
	}
	if err == nil && says(value, "known") {
		value, err = run("0", p.Body)
	}
	if err == nil && says(value, "new") {
		// The set of topics is on another node, and must not miss one that has a log.
		if err := e.client.SAdd(ctx, e.keys.topics(), key).Err(); err != nil {
			return delivery.Receipt{}, e.failed(ctx, err)
		}
		value, err = run("1", p.Body)
	}
	if err != nil {
		return delivery.Receipt{}, l.headFailed(ctx, key, err)
	}
	receipt, err := receiptOf(value, id)
	if errors.Is(err, ErrDamaged) {
		e.damaged(names[2], "", err)
	}
	return receipt, err
}

// headFailed is the outcome of the use of a topic's head. One that is no hash is damaged: its
// server is not away, and other topics are not concerned.
func (l *Log) headFailed(ctx context.Context, key string, err error) error {
	e := l.db.engine
	if !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return e.failed(ctx, err)
	}
	err = fmt.Errorf("%w: %v", ErrDamaged, err) // not %w, by which it could be ErrUnavailable
	e.damaged(e.keys.head(key), "", err)
	return err
}

// digestOf is Publication.Digest as it is stored.
func digestOf(p delivery.Publication) string { return digestText(p.Digest()) }

// digestText is a digest as it is stored, empty for none.
func digestText(sum [sha256.Size]byte) string {
	if sum == ([sha256.Size]byte{}) {
		return ""
	}
	return string(sum[:])
}

// says reports whether the append script returned the one word.
func says(value any, word string) bool {
	list, _ := value.([]any)
	return len(list) == 1 && list[0] == word
}

// receiptOf reads what the append script returned, for a notification with the id.
func receiptOf(value any, id uuid.UUID) (delivery.Receipt, error) {
	list, _ := value.([]any)
	switch {
	case len(list) == 3 && list[0] == "done":
		seq, _ := list[1].(int64)
		previous, _ := list[2].(string)
		return delivery.Receipt{ID: id, Seq: delivery.Seq(seq), Previous: previous}, nil
	case len(list) == 4 && list[0] == "same":
		seq, _ := list[1].(int64)
		last, _ := list[2].(string)
		previous, _ := list[3].(string)
		first, err := uuid.Parse(last)
		if err != nil {
			return delivery.Receipt{}, fmt.Errorf("%w: the last id: %w", ErrDamaged, err)
		}
		return delivery.Receipt{ID: first, Seq: delivery.Seq(seq), Repeated: true, Previous: previous}, nil
	case len(list) == 2 && list[0] == "damaged":
		return delivery.Receipt{}, fmt.Errorf("%w: the head %q is no sequence number", ErrDamaged, list[1])
	case len(list) == 1 && list[0] == "full":
		return delivery.Receipt{}, fmt.Errorf("there are no sequence numbers above %d", delivery.MaxSeq)
	}
	return delivery.Receipt{}, fmt.Errorf("the script returned %v", value)
}

// Read implements delivery.Log.
func (l *Log) Read(ctx context.Context, key string, from delivery.Seq) (*delivery.Notification, error) {
	n, err := l.read(ctx, key, strconv.FormatUint(uint64(from), 10))
	if err != nil {
		return nil, fmt.Errorf("read the log of %q at %d: %w", key, from, err)
	}
	return n, nil
}

// read returns the first entry from the id on that is a notification.
func (l *Log) read(ctx context.Context, key, from string) (*delivery.Notification, error) {
	e := l.db.engine
	name := e.keys.log(key)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, err := e.client.XRangeN(ctx, name, from, "+", 1).Result()
		if err != nil {
			return nil, e.failed(ctx, err)
		}
		if len(found) == 0 {
			return nil, delivery.ErrEndOfLog
		}
		n, err := decodeEntry(key, entry{found[0].ID, found[0].Values})
		if err == nil {
			return n, nil
		}
		e.damaged(name, found[0].ID, err)
		from = "(" + found[0].ID
	}
}

// Heads implements delivery.Log. A head that cannot be read is ErrDamaged, for all that are asked
// for with it.
func (l *Log) Heads(ctx context.Context, keys []string) ([]delivery.Seq, error) {
	heads := make([]delivery.Seq, 0, len(keys))
	var away []int // those that a part of a Cluster keeps which is away
	var reason error
	for len(heads) < len(keys) {
		some := keys[len(heads):min(len(heads)+topicsStep, len(keys))]
		more, unread, err := l.heads(ctx, some)
		if err != nil && !errors.Is(err, delivery.ErrPartAway) {
			return nil, fmt.Errorf("heads of logs: %w", err)
		}
		for _, i := range unread {
			away = append(away, len(heads)+i)
			reason = err
		}
		heads = append(heads, more...)
	}
	if len(away) > 0 {
		return heads, fmt.Errorf("heads of logs: %w", &delivery.HeadsError{Unread: away, Err: reason})
	}
	return heads, ctx.Err()
}

// heads reads the heads of topics; away are the indexes of those that a part of a Cluster keeps
// which is away, and err is that of one of them.
func (l *Log) heads(ctx context.Context, keys []string) (heads []delivery.Seq, away []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	e := l.db.engine
	pipe := e.client.Pipeline()
	found := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		found[i] = pipe.HGet(ctx, e.keys.head(key), "head")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	heads = make([]delivery.Seq, len(keys))
	for i := range found {
		text, failed := found[i].Result()
		if errors.Is(failed, redis.Nil) {
			continue
		}
		if failed != nil {
			failed = l.headFailed(ctx, keys[i], failed)
			if !errors.Is(failed, delivery.ErrPartAway) {
				return nil, nil, failed
			}
			away, err = append(away, i), failed
			continue
		}
		if heads[i], failed = decodeSeq(text); failed != nil {
			e.damaged(e.keys.head(keys[i]), "", failed)
			return nil, nil, fmt.Errorf("of %q: %w", keys[i], failed)
		}
	}
	return heads, away, err
}

func decodeSeq(text string) (delivery.Seq, error) {
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seq > uint64(delivery.MaxSeq) {
		return 0, fmt.Errorf("%w: the sequence number %q", ErrDamaged, text)
	}
	return delivery.Seq(seq), nil
}

// Trim implements delivery.Log.
func (l *Log) Trim(
	ctx context.Context, key string, before delivery.Seq, olderThan time.Time,
) (delivery.Trimmed, error) {
	went, err := l.trim(ctx, key, before, -1, olderThan)
	if err != nil {
		return went, fmt.Errorf("trim the log of %q: %w", key, err)
	}
	return went, nil
}

// Shrink implements delivery.Log.
func (l *Log) Shrink(
	ctx context.Context, key string, keep int64, before delivery.Seq, olderThan time.Time,
) (delivery.Trimmed, error) {
	went, err := l.trim(ctx, key, before, max(keep, 0), olderThan)
	if err != nil {
		return went, fmt.Errorf("shrink the log of %q: %w", key, err)
	}
	return went, nil
}

// trim goes in steps. With a keep of -1 the bytes do not matter.
func (l *Log) trim(
	ctx context.Context, key string, before delivery.Seq, keep int64, olderThan time.Time,
) (went delivery.Trimmed, err error) {
	e := l.db.engine
	names := []string{e.keys.log(key), e.keys.times(key), e.keys.head(key)}
	highest := strconv.FormatUint(uint64(max(before, 1)-1), 10) // there is no number 0
	for {
		value, err := e.run(ctx, trimScript, names, highest, timeOrder(olderThan), trimStep, keep)
		if err != nil {
			return went, err
		}
		list, _ := value.([]any)
		if len(list) != 2 {
			return went, fmt.Errorf("the script returned %v", value)
		}
		count, _ := list[0].(int64)
		bytes, _ := list[1].(int64)
		went.Notifications += int(count)
		went.Bytes += bytes
		if count < trimStep {
			return went, nil
		}
	}
}

// Keys implements delivery.Log.
func (l *Log) Keys(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		e := l.db.engine
		for topics, err := range e.scan(ctx, scanSet, e.keys.topics(), topicsStep) {
			if err != nil {
				yield("", fmt.Errorf("list the keys of topics: %w", err))
				return
			}
			for _, key := range topics {
				if !yield(key, nil) {
					return
				}
			}
		}
	}
}

// Topics implements delivery.Log.
func (l *Log) Topics(ctx context.Context) iter.Seq2[delivery.TopicState, error] {
	return func(yield func(delivery.TopicState, error) bool) {
		e := l.db.engine
		for topics, err := range e.scan(ctx, scanSet, e.keys.topics(), topicsStep) {
			var states []delivery.TopicState
			if err == nil {
				states, err = l.states(ctx, topics)
			}
			if err != nil {
				yield(delivery.TopicState{}, fmt.Errorf("list the topics: %w", err))
				return
			}
			for _, state := range states {
				if !yield(state, nil) {
					return
				}
			}
		}
	}
}

// State implements delivery.Log. A head that cannot be read is ErrDamaged.
func (l *Log) State(ctx context.Context, key string) (delivery.TopicState, error) {
	found, err := l.askStates(ctx, []string{key})
	var state delivery.TopicState
	if err == nil {
		state, err = l.readState(ctx, key, found[0])
	}
	if err != nil {
		return delivery.TopicState{}, fmt.Errorf("state of the log of %q: %w", key, err)
	}
	if state.Head == 0 {
		return delivery.TopicState{Topic: key, First: 1}, nil
	}
	return state, nil
}

// states reads the states of topics; one whose first append is not done has none.
func (l *Log) states(ctx context.Context, topics []string) ([]delivery.TopicState, error) {
	found, err := l.askStates(ctx, topics)
	if err != nil {
		return nil, err
	}
	var states []delivery.TopicState
	for i, key := range topics {
		state, err := l.readState(ctx, key, found[i])
		switch {
		case errors.Is(err, ErrDamaged): // it was logged
		case err != nil:
			return nil, err
		case state.Head > 0:
			states = append(states, state)
		}
	}
	return states, nil
}

// foundState is what the server said of a topic: the fields of its head, and the first entry
// of its times.
type foundState struct {
	head  *redis.SliceCmd
	first *redis.XMessageSliceCmd
}

// askStates asks for the states of topics, in one round trip.
func (l *Log) askStates(ctx context.Context, topics []string) ([]foundState, error) {
	if err := ctx.Err(); err != nil || len(topics) == 0 {
		return nil, err
	}
	e := l.db.engine
	pipe := e.client.Pipeline()
	all := make([]foundState, len(topics))
	for i, key := range topics {
		all[i].head = pipe.HMGet(ctx, e.keys.head(key), "topic", "head", "last", "until", "digest", "bytes")
		all[i].first = pipe.XRangeN(ctx, e.keys.times(key), "-", "+", 1)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return all, nil
}

// readState reads what was found of a topic. Head is 0 where there is no log.
func (l *Log) readState(ctx context.Context, key string, f foundState) (delivery.TopicState, error) {
	e := l.db.engine
	if err := f.head.Err(); err != nil {
		return delivery.TopicState{}, l.headFailed(ctx, key, err)
	}
	first, err := f.first.Result()
	if err != nil {
		return delivery.TopicState{}, e.failed(ctx, err)
	}
	state, err := decodeState(key, f.head.Val())
	if err != nil {
		e.damaged(e.keys.head(key), "", err)
		return delivery.TopicState{}, err
	}
	if state.Head == 0 {
		return delivery.TopicState{}, nil
	}
	state.First = state.Head + 1
	if len(first) > 0 {
		// Notifications appended after the state was read do not count.
		if seq, err := (entry{id: first[0].ID}).place(); err == nil {
			state.First = min(state.First, delivery.Seq(seq))
		}
	}
	if state.First > state.Head {
		state.Bytes = 0
		return state, nil
	}
	accepted, _ := first[0].Values[fieldTime].(string)
	state.Oldest = instantOf(accepted)
	return state, nil
}

// decodeState reads the fields topic, head, last, until, digest and bytes of a topic.
// Head is 0 without one.
func decodeState(key string, fields []any) (state delivery.TopicState, err error) {
	text := func(i int) string { s, _ := fields[i].(string); return s }
	if fields[1] == nil {
		return state, nil
	}
	state = delivery.TopicState{Topic: key, Last: delivery.Last{Until: text(3)}}
	if text(0) != key {
		return state, fmt.Errorf("%w: it is of the topic %q", ErrDamaged, text(0))
	}
	if state.Head, err = decodeSeq(text(1)); err != nil {
		return state, err
	}
	if state.Last.ID, err = uuid.Parse(text(2)); err != nil {
		return state, fmt.Errorf("%w: the last id: %w", ErrDamaged, err)
	}
	if digest := text(4); digest != "" && copy(state.Last.Digest[:], digest) != len(digest) {
		return state, fmt.Errorf("%w: a digest of %d bytes", ErrDamaged, len(digest))
	}
	state.Bytes, _ = strconv.ParseInt(text(5), 10, 64) // an unreadable size counts for nothing, as in the scripts
	return state, nil
}

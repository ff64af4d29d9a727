package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"carillon/delivery"
)

// putTopicScript sets what is known of a topic's log, unless its head is above. One
// that is damaged is not. The next append counts as the first under a new server.
//
//	KEYS  1 head
//	ARGV  1 the topic's key  2 head  3 last id  4 until  5 digest, empty for none
var putTopicScript = grows("restore topic", `
local head, last = unpack(redis.call('HMGET', KEYS[1], 'head', 'last'))
if head and (tonumber(head) or 0) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'topic', ARGV[1], 'head', ARGV[2], 'last', ARGV[3], 'until', ARGV[4], 'digest', ARGV[5])
if last ~= ARGV[3] then redis.call('HSET', KEYS[1], 'previous', '') end
redis.call('HDEL', KEYS[1], 'run')
return 1
`)

// putNoteScript stores a notification behind all others of its log, and raises the head
// to it.
//
//	KEYS  1 log  2 times  3 head
//	ARGV  1 the topic's key  2 number  3 the number before  4 id  5 until  6 digest, empty for none
//	      7 accepted, in order  8 note  9 body  10 the field of the head with the bytes of this log
//	      11 summary
//
// It returns 1; or 0, having done nothing, where the log has this number or a higher one, or
// had and was not trimmed to nothing since.
var putNoteScript = grows("restore notification", `
local id = ARGV[2] .. '-0'
local size = size(ARGV[8], ARGV[11], ARGV[9])
if type(redis.pcall('XADD', KEYS[2], id, 't', ARGV[7], 's', size, 'n', ARGV[11], 'a', ARGV[3])) == 'table' then return 0 end
if type(redis.pcall('XADD', KEYS[1], id, 'a', ARGV[3], 'm', ARGV[8], 'b', ARGV[9])) == 'table' then
  redis.call('XDEL', KEYS[2], id)
  return 0
end
redis.call('HSET', KEYS[3], ARGV[10], sum(redis.call('HGET', KEYS[3], ARGV[10]), size))
local number, head = tonumber(ARGV[2]), 0
local known, ended, previous = unpack(redis.call('HMGET', KEYS[3], 'head', 'until', 'previous'))
if known then head = tonumber(known) or 0 end
if head > number then return 1 end
if head < number then previous = head == tonumber(ARGV[3]) and ended end
redis.call('HSET', KEYS[3], 'topic', ARGV[1], 'head', ARGV[2], 'last', ARGV[4], 'until', ARGV[5],
  'previous', previous or '', 'digest', ARGV[6])
redis.call('HDEL', KEYS[3], 'run')
return 1
`)

// swapScript puts a log that was made anew in the place of the one there is.
//
//	KEYS  1 log  2 times  3 head  4 the new log  5 its times
var swapScript = shrinks("restore log", `
redis.call('RENAME', KEYS[4], KEYS[1])
redis.call('RENAME', KEYS[5], KEYS[2])
redis.call('HSET', KEYS[3], 'bytes', redis.call('HGET', KEYS[3], 'bytes-new') or 0)
redis.call('HDEL', KEYS[3], 'bytes-new')
return 1
`)

// restoreBytes is about how much one round trip of a restore carries. A single record
// may be greater.
const restoreBytes = 4 << 20

// errNumber: a sequence number that no log can have.
var errNumber = errors.New("it is not a sequence number of a log")

// PutTopics stores the heads of logs and the remembered last notifications. A log whose head is above
// stays unchanged. The next number of such a log is above the head, not the next one.
func (r *Restore) PutTopics(ctx context.Context, topics []delivery.TopicState) error {
	e := r.db.engine
	for some := range slices.Chunk(topics, topicsStep) {
		names := make([]string, len(some))
		calls := make([]call, len(some))
		for i, t := range some {
			if t.Head > delivery.MaxSeq {
				return fmt.Errorf("restore topics: head %d of %q: %w", t.Head, t.Topic, errNumber)
			}
			names[i] = t.Topic
			calls[i] = call{putTopicScript, []string{e.keys.head(names[i])}, []any{
				names[i], uint64(t.Head), t.Last.ID.String(), t.Last.Until, digestText(t.Last.Digest),
			}}
		}
		if _, err := r.putLogs(ctx, names, calls); err != nil {
			return fmt.Errorf("restore topics: %w", err)
		}
	}
	return nil
}

// PutNotifications stores notifications under the numbers, ids and times that they
// have. The heads of their logs are at least as high from then on. One that goes
// between others costs a copy of its log.
func (r *Restore) PutNotifications(ctx context.Context, notifications []*delivery.Notification) error {
	for len(notifications) > 0 {
		n, bytes := 0, 0
		for n < len(notifications) && (n == 0 || bytes+len(notifications[n].Body) <= restoreBytes) {
			bytes += len(notifications[n].Body) + len(notifications[n].Topic.Key()) + 512
			n++
		}
		if err := r.putNotifications(ctx, notifications[:n]); err != nil {
			return fmt.Errorf("restore notifications: %w", err)
		}
		notifications = notifications[n:]
	}
	return nil
}

func (r *Restore) putNotifications(ctx context.Context, notifications []*delivery.Notification) error {
	e := r.db.engine
	names := make([]string, len(notifications))
	calls := make([]call, len(notifications))
	for i, n := range notifications {
		if n.Seq == 0 || n.Seq > delivery.MaxSeq || n.After >= n.Seq {
			return fmt.Errorf("number %d after %d of %q: %w", n.Seq, n.After, n.Topic, errNumber)
		}
		if len(n.Body) > maxBody {
			return fmt.Errorf("number %d of %q: %w", n.Seq, n.Topic, &http.MaxBytesError{Limit: maxBody})
		}
		names[i] = n.Topic.Key()
		calls[i] = putNote(names[i], n, e.keys.log(names[i]), e.keys.times(names[i]), e.keys.head(names[i]), "bytes")
	}
	done, err := r.putLogs(ctx, names, calls)
	if err != nil {
		return err
	}
	left := make(map[string][]*delivery.Notification) // by topic
	for i, n := range notifications {
		if !done[i] {
			left[names[i]] = append(left[names[i]], n)
		}
	}
	for key, some := range left {
		if err := r.merge(ctx, key, some); err != nil {
			return fmt.Errorf("into the log of %q: %w", key, err)
		}
	}
	return nil
}

// putNote is the call that stores n, of the topic with the key, in the log with the keys, whose bytes are in the
// field of the head.
func putNote(key string, n *delivery.Notification, log, times, head, bytes string) call {
	return call{putNoteScript, []string{log, times, head}, []any{
		key, uint64(n.Seq), uint64(n.After), n.ID.String(), n.Until, digestOf(n.Publication),
		timeOrder(n.Accepted), encodeNote(n.Publication, n.ID, n.Accepted), n.Body, bytes,
		encodeSummary(n.Publication, n.ID),
	}}
}

// putLogs records that the topics have logs, and then makes the calls. done reports which of them
// returned 1.
func (r *Restore) putLogs(ctx context.Context, topics []string, calls []call) (done []bool, err error) {
	e := r.db.engine
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.client.SAdd(ctx, e.keys.topics(), topics).Err(); err != nil {
		return nil, e.failed(ctx, err)
	}
	done = make([]bool, len(calls))
	for i, result := range e.runAll(ctx, calls) {
		if result.err != nil {
			return nil, fmt.Errorf("%q: %w", topics[i], result.err)
		}
		done[i] = result.value == int64(1)
	}
	return done, nil
}

// merge puts notifications among those of the log of the topic with the key, by
// making it anew, as a stream takes what is behind all others only.
func (r *Restore) merge(ctx context.Context, key string, notifications []*delivery.Notification) error {
	notifications, err := r.withoutStored(ctx, key, notifications)
	if err != nil || len(notifications) == 0 {
		return err
	}
	slices.SortStableFunc(notifications, func(a, b *delivery.Notification) int { return cmp.Compare(a.Seq, b.Seq) })
	e := r.db.engine
	log, times := e.keys.topic(key, "log-new"), e.keys.topic(key, "times-new")
	if err := errors.Join(
		e.client.Del(ctx, log, times).Err(), e.client.HDel(ctx, e.keys.head(key), "bytes-new").Err(),
	); err != nil {
		return e.failed(ctx, err)
	}
	put := func(n *delivery.Notification) error {
		c := putNote(key, n, log, times, e.keys.head(key), "bytes-new")
		_, err := e.run(ctx, c.script, c.keys, c.args...)
		return err
	}
	for from := delivery.Seq(0); ; {
		old, err := r.db.Log().read(ctx, key, strconv.FormatUint(uint64(from), 10))
		if err != nil && !errors.Is(err, delivery.ErrEndOfLog) {
			return err
		}
		for len(notifications) > 0 && (old == nil || notifications[0].Seq <= old.Seq) {
			if err := put(notifications[0]); err != nil {
				return err
			}
			notifications = notifications[1:]
		}
		if old == nil {
			break
		}
		if err := put(old); err != nil { // it changes nothing where another took its place
			return err
		}
		from = old.Seq + 1
	}
	_, err = e.run(ctx, swapScript, []string{e.keys.log(key), e.keys.times(key), e.keys.head(key), log, times})
	return err
}

// withoutStored leaves out what the log has already.
func (r *Restore) withoutStored(
	ctx context.Context, key string, notifications []*delivery.Notification,
) (missing []*delivery.Notification, err error) {
	for _, n := range notifications {
		old, err := r.db.Log().read(ctx, key, strconv.FormatUint(uint64(n.Seq), 10))
		if err != nil && !errors.Is(err, delivery.ErrEndOfLog) {
			return nil, err
		}
		if old == nil || old.Seq != n.Seq || old.ID != n.ID {
			missing = append(missing, n)
		}
	}
	return missing, nil
}

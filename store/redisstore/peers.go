package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Peers lets the processes that share the store ask each other (decision 29). A question
// goes on a list of the process that is asked, and its answer on a list of the question,
// both of which Redis forgets by itself: nothing of it is kept, and nothing depends on it.
//
//	asker ── RPUSH {process-…}:questions ──▶ BLPOP
//	BLPOP ◀──── RPUSH {question-…}:answers ── taken, and Serve's answer
type Peers struct{ db *DB }

// Peers returns what asks the other processes, and answers them.
func (db *DB) Peers() *Peers { return &Peers{db} }

// silence remembers who did not answer.
type silence struct {
	first time.Duration // 0: ackWithin
	mu    sync.Mutex
	since map[string]time.Time // by process. Owned by mu.
}

// patienceWith is how long each of the others may take to confirm a question. One that got no question
// for silentFor is forgotten.
func (s *silence) patienceWith(others []string) map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.since, func(_ string, at time.Time) bool { return time.Since(at) >= silentFor })
	all := make(map[string]time.Duration, len(others))
	for _, name := range others {
		all[name] = cmp.Or(s.first, ackWithin)
		if _, silent := s.since[name]; silent {
			all[name] = ackOfSilent
		}
	}
	return all
}

// note remembers that a process was silent, or is so no longer.
func (s *silence) note(name string, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.since[name]; !silent {
		delete(s.since, name)
	} else if !known {
		if s.since == nil {
			s.since = make(map[string]time.Time)
		}
		s.since[name] = time.Now()
	}
}

// The bounds of what processes ask each other.
const (
	// MaxQuestion and MaxAnswer are the longest of each, in bytes.
	MaxQuestion = 256 << 10
	MaxAnswer   = 4 << 20
	// maxAsk is how long the answers to a question are waited for at most.
	maxAsk = 30 * time.Second
	// asksAtOnce is how many questions of this process are under way at a time, each of
	// which has a connection; more wait.
	asksAtOnce = 8
	// ackWithin is how long a process may take to say that it has the question, and
	// ackOfSilent how long where it did not answer one within silentFor: one that hangs,
	// or does not know of questions, holds up an answer briefly, and the next ones hardly.
	ackWithin   = time.Second
	ackOfSilent = 200 * time.Millisecond
	silentFor   = time.Minute
	// answersAtOnce is how many questions of others are being answered at a time.
	answersAtOnce = 4
	// maxWaiting is how many questions wait for one process; the oldest go first. As many
	// may it have taken that wait for their turn.
	maxWaiting = 64
	// maxAnswers is how many messages wait for an asker.
	maxAnswers = 2 * maxWaiting
	// leftTime is how much longer than its asker waits an answer is kept.
	leftTime = time.Second
	// askerBlock and serverBlock are how long one BLPOP waits. The asker looks
	// in between whether it is still to wait.
	askerBlock  = 200 * time.Millisecond
	serverBlock = 3 * time.Second
	// popGrace is how much later than that the server's word may come, with an answer of
	// MaxAnswer. It is less than silenceTime together with serverBlock, so that a server
	// which has gone is found out.
	popGrace = 1900 * time.Millisecond
	// lookAfter is how many BLPOPs without an answer are made before the asker looks who
	// of those that it waits for is still there.
	lookAfter = 5
)

// Self names this process as the others know it, if it runs Shards.Run.
func (p *Peers) Self() string { return p.db.engine.cfg.Process }

// namesScript lists the members.
//
//	KEYS  1 members
//	ARGV  none
//
// It returns the names of those that have not been silent for too long.
var namesScript = reads("list members", `
return redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now()), '+inf')
`)

// others are the processes that share the work on the store, without this one.
func (p *Peers) others(ctx context.Context) ([]string, error) {
	e := p.db.engine
	value, err := e.run(ctx, namesScript, []string{e.keys.members()})
	if err != nil {
		return nil, err
	}
	list, _ := value.([]any)
	var names []string
	for _, v := range list {
		name, _ := v.(string)
		if isName(name) && name != p.Self() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// pushScript puts a message on a list. It runs while the server's memory is full, too, as that is
// when operators ask; replicas are not waited for.
//
//	KEYS  1 the list
//	ARGV  1 the message  2 for how long the list is to last, ms  3 how many it holds
var pushScript = newScript("send a message", "#!lua flags=allow-oom\n", `
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], -ARGV[3], -1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
`, false)

// pop takes the oldest message from a list, and waits for one if the list is empty. It looks at ctx
// only as it begins: a long wait is ended by a message.
func (p *Peers) pop(ctx context.Context, list string, block time.Duration) (message string, there bool, err error) {
	e := p.db.engine
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	block = max(block, time.Millisecond) // 0 is without end
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), block+popGrace)
	defer cancel()
	seconds := strconv.FormatFloat(block.Seconds(), 'f', 3, 64)
	cmd := redis.NewStringSliceCmd(ctx, "blpop", list, seconds)
	_ = e.client.Process(ctx, cmd) // the command has its error
	found, err := cmd.Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", false, nil
	case err != nil:
		return "", false, e.failed(ctx, err)
	case len(found) != 2:
		return "", false, fmt.Errorf("BLPOP returned %d values", len(found))
	}
	return found[1], true, nil
}

// messageVersion begins every message of this form.
const messageVersion = "1"

// A question on its way is "1 ID MILLISECONDS TEXT": how long the asker waits, and what
// it asks.
type asked struct {
	id     uuid.UUID
	within time.Duration
	text   string
}

func (q asked) encode() string {
	return fmt.Sprintf("%s %s %d %s", messageVersion, q.id, q.within.Milliseconds(), q.text)
}

func parseAsked(message string) (q asked, err error) {
	f, err := messageFields(message)
	if err != nil {
		return q, err
	}
	if q.id, err = uuid.Parse(f[1]); err != nil {
		return q, err
	}
	ms, err := strconv.ParseUint(f[2], 10, 32)
	if err != nil {
		return q, err
	}
	if len(f[3]) > MaxQuestion {
		return q, fmt.Errorf("a question of %d bytes", len(f[3]))
	}
	q.within, q.text = min(time.Duration(ms)*time.Millisecond, maxAsk), f[3]
	return q, nil
}

// The kinds of an answer: the text itself, or the reason for its absence.
const (
	isTaken  = "taken" // it comes later; the text is empty
	isAnswer = "answer"
	isLarge  = "large" // the text is its length
	isFailed = "failed"
)

// An answer on its way is "1 PROCESS KIND TEXT".
type answered struct{ process, kind, text string }

func (a answered) encode() string {
	return strings.Join([]string{messageVersion, a.process, a.kind, a.text}, " ")
}

func parseAnswered(message string) (a answered, err error) {
	f, err := messageFields(message)
	if err != nil {
		return a, err
	}
	return answered{f[1], f[2], f[3]}, nil
}

// result is what the asker hears.
func (a answered) result() ([]byte, error) {
	switch a.kind {
	case isAnswer:
		return []byte(a.text), nil
	case isLarge:
		return nil, fmt.Errorf("its answer has %.20s bytes, and at most %d are passed on", a.text, MaxAnswer)
	case isFailed:
		return nil, errors.New("it failed to answer, and its log says why")
	}
	return nil, fmt.Errorf("it answers with a message of the kind %.20q, which is not known here", a.kind)
}

// messageFields cuts a message in four, the last of which may be anything.
func messageFields(message string) ([]string, error) {
	f := strings.SplitN(message, " ", 4)
	if len(f) != 4 || f[0] != messageVersion {
		return nil, errors.New("it is no message of this program")
	}
	return f, nil
}

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/subscription"
)

// errNoAnswer: it lives, or died a moment ago, and says nothing.
var errNoAnswer = fmt.Errorf("%w: no answer in time", subscription.ErrUnavailable)

// errGone: it ended, or was silent for its Takeover, after it was asked.
var errGone = fmt.Errorf("%w: it has ended without an answer", subscription.ErrUnavailable)

// Ask puts a question to every other process that shares the work on the store, and calls heard once
// for each, one at a time: with its answer, or with an error in its place. It returns when all were
// heard, at the latest soon after ctx ends or when maxAsk is over. It returns an error if the question
// reached no process; heard was not called then. A process that does not run Shards.Run can ask, too.
func (p *Peers) Ask(
	ctx context.Context, question []byte, heard func(process string, answer []byte, err error),
) error {
	if len(question) > MaxQuestion {
		return fmt.Errorf(
			"ask the other processes: the question has %d bytes, and at most %d can be asked",
			len(question), MaxQuestion,
		)
	}
	ctx, cancel := context.WithTimeout(ctx, maxAsk)
	defer cancel()
	select {
	case p.db.asks <- struct{}{}:
		defer func() { <-p.db.asks }()
	case <-ctx.Done():
		return fmt.Errorf("ask the other processes: %w: too many questions are under way", subscription.ErrUnavailable)
	}
	others, err := p.others(ctx)
	if err != nil {
		return fmt.Errorf("ask the other processes: %w", err)
	}
	if len(others) == 0 {
		return nil
	}
	w := waiting{peers: p, heard: heard, left: make(map[string]time.Time)}
	w.collect(ctx, w.put(ctx, others, string(question)))
	return nil
}

// never: it has said that it has the question.
var never = time.Unix(1<<40, 0)

// waiting is a question that was put.
type waiting struct {
	peers *Peers
	heard func(process string, answer []byte, err error)
	// left are the asked processes without an answer yet, and until when each is to confirm that it has
	// the question.
	left map[string]time.Time
}

// put puts the question on the lists of processes.
func (w *waiting) put(ctx context.Context, others []string, text string) (answers string) {
	e := w.peers.db.engine
	end, _ := ctx.Deadline()
	q := asked{id: uuid.New(), within: time.Until(end), text: text}
	calls := make([]call, len(others))
	for i, name := range others {
		calls[i] = call{pushScript, []string{e.keys.questions(name)}, []any{q.encode(), lasts(q.within), maxWaiting}}
	}
	results, patience := e.runAll(ctx, calls), w.peers.db.silence.patienceWith(others)
	for i, r := range results {
		if r.err != nil {
			w.heard(others[i], nil, fmt.Errorf("it could not be asked: %w", r.err))
			continue
		}
		w.left[others[i]] = time.Now().Add(patience[others[i]])
	}
	return e.keys.answers(q.id)
}

// lasts is how long a list of messages is to last, in milliseconds.
func lasts(within time.Duration) int64 { return max((within + leftTime).Milliseconds(), 1) }

// collect hears the answers until there are all, or ctx ends.
func (w *waiting) collect(ctx context.Context, answers string) {
	p := w.peers
	for silent := 0; len(w.left) > 0; {
		end, _ := ctx.Deadline()
		if first := w.firstEnd(); first.Before(end) {
			end = first
		}
		message, there, err := p.pop(ctx, answers, min(askerBlock, time.Until(end)))
		switch {
		case ctx.Err() != nil && !there:
			w.giveUp(errNoAnswer)
		case err != nil:
			w.giveUp(fmt.Errorf("its answer could not be heard: %w", err))
		case there:
			silent = 0
			w.take(message)
		default:
			w.passOver()
			if silent++; silent%lookAfter == 0 {
				w.look(ctx)
			}
		}
	}
}

// take hears one answer. It ignores garbage, and answers of processes that were not asked.
func (w *waiting) take(message string) {
	a, err := parseAnswered(message)
	if _, awaited := w.left[a.process]; err != nil || !awaited {
		w.peers.db.engine.log.Debug("a message is no answer that is waited for", "bytes", len(message), "error", err)
		return
	}
	w.peers.db.silence.note(a.process, false)
	if a.kind == isTaken {
		w.left[a.process] = never
		return
	}
	delete(w.left, a.process)
	text, err := a.result()
	w.heard(a.process, text, err)
}

// firstEnd is when the patience with one of them ends.
func (w *waiting) firstEnd() time.Time {
	first := never
	for _, end := range w.left {
		if end.Before(first) {
			first = end
		}
	}
	return first
}

// passOver gives up those that have not said in time that they have the question: they hang,
// or do not know of questions.
func (w *waiting) passOver() {
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(w.left)) {
		if !w.left[name].After(now) {
			delete(w.left, name)
			w.peers.db.silence.note(name, true)
			w.heard(name, nil, errNoAnswer)
		}
	}
}

// look gives up those that are no members any more.
func (w *waiting) look(ctx context.Context) {
	others, err := w.peers.others(ctx)
	if err != nil {
		return // the next look will tell, or the end of the question
	}
	for _, name := range slices.Sorted(maps.Keys(w.left)) {
		if !slices.Contains(others, name) {
			delete(w.left, name)
			w.heard(name, nil, errGone)
		}
	}
}

// giveUp reports all that were not heard of.
func (w *waiting) giveUp(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = errNoAnswer
	}
	for _, name := range slices.Sorted(maps.Keys(w.left)) {
		w.peers.db.silence.note(name, true)
		w.heard(name, nil, err)
	}
	clear(w.left)
}

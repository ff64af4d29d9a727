package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/internal/await"
)

// heads reads the heads of logs.
type heads struct {
	*base
	table    *table
	schedule *schedule
	reader   *reader
}

// headLoop reads the heads of topics that are new here, or in doubt, many at a
// time. While the engine is away all wait; a topic whose head alone cannot be
// read waits by itself.
func (h *heads) headLoop(ctx context.Context) {
	pause := enginePause()
	var odd []*followed // whose heads could not be read
	later := time.NewTimer(engineRetryMax)
	later.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.table.asks.asked:
		case <-later.C:
			h.askAgain(odd)
			odd = nil
		}
		for topics := h.nextUnknown(); len(topics) > 0; topics = h.nextUnknown() {
			failed, err := h.readHeads(ctx, topics)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				h.askAgain(topics)
				if await.For(ctx, pause.NextBackOff()) != nil {
					return
				}
				continue
			}
			pause.Reset()
			if len(odd) == 0 && len(failed) > 0 {
				later.Reset(engineRetryMax)
			}
			odd = append(odd, failed...)
		}
	}
}

// readHeads reads the heads of topics, and returns those that cannot be read
// though the engine is there. It is an error if that is away.
func (h *heads) readHeads(ctx context.Context, topics []*followed) (odd []*followed, err error) {
	keys := make([]string, len(topics))
	for i, t := range topics {
		keys[i] = t.key
	}
	readCtx, cancel := context.WithTimeout(ctx, engineTimeout)
	heads, err := h.reader.records.Heads(readCtx, keys)
	cancel()
	part := (*delivery.HeadsError)(nil)
	switch {
	case err == nil:
		h.reader.readWorked()
		h.tellHeads(topics, heads)
		return nil, nil
	case ctx.Err() != nil:
		return nil, err
	case errors.As(err, &part):
		h.reader.readFailed(ctx, "the heads of logs could not be read", keys[part.Unread[0]], err)
		return h.tellRead(topics, heads, part.Unread), nil
	case errors.Is(err, delivery.ErrUnavailable):
		h.reader.readFailed(ctx, "the heads of logs could not be read", keys[0], err)
		return nil, err
	case len(topics) == 1:
		h.reader.readFailed(ctx, "the head of a log could not be read", keys[0], err)
		return topics, nil
	}
	// One of them is to blame: the halves are read by themselves.
	half := len(topics) / 2
	for _, part := range [][]*followed{topics[:half], topics[half:]} {
		failed, err := h.readHeads(ctx, part)
		if err != nil {
			return nil, err
		}
		odd = append(odd, failed...)
	}
	return odd, nil
}

// tellRead says what was read, and returns the topics of which nothing was.
func (h *heads) tellRead(
	topics []*followed, heads []delivery.Seq, unread []int,
) (missing []*followed) {
	var read []*followed
	var of []delivery.Seq
	for i, t := range topics {
		if slices.Contains(unread, i) {
			missing = append(missing, t)
		} else {
			read, of = append(read, t), append(of, heads[i])
		}
	}
	h.tellHeads(read, of)
	return missing
}

// tellHeads says what was read.
func (h *heads) tellHeads(topics []*followed, heads []delivery.Seq) {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	for i, t := range topics {
		h.schedule.tell(t, heads[i])
		if heads[i] < t.asked {
			h.reader.fell(t, heads[i], t.asked)
		}
	}
}

// askAgain has the heads of topics read that could not be read before.
func (h *heads) askAgain(topics []*followed) {
	for _, t := range topics {
		h.table.asks.ask(t)
	}
}

// nextUnknown takes topics whose heads are to be read; it may return none. It passes over topics
// without a subscription here.
func (h *heads) nextUnknown() []*followed {
	for {
		some := h.table.asks.next()
		if len(some) == 0 {
			return nil
		}
		if topics := h.wanted(some); len(topics) > 0 {
			return topics
		}
	}
}

// wanted returns those of the topics that have a subscription here.
func (h *heads) wanted(some []*followed) (topics []*followed) {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	for _, t := range some {
		if h.table.topics[t.key] == t {
			t.asked = t.head
			topics = append(topics, t)
		}
	}
	return topics
}

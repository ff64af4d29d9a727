package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/internal/await"
)

// headLoop reads the heads of topics that are new here, or in doubt, many at a
// time. While the engine is away all wait; a topic whose head alone cannot be
// read waits by itself.
func (d *Dispatcher) headLoop(ctx context.Context) {
	pause := enginePause()
	var odd []*topic // whose heads could not be read
	later := time.NewTimer(engineRetryMax)
	later.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.asked:
		case <-later.C:
			d.askAgain(odd)
			odd = nil
		}
		for topics := d.nextUnknown(); len(topics) > 0; topics = d.nextUnknown() {
			failed, err := d.readHeads(ctx, topics)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				d.askAgain(topics)
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
func (d *Dispatcher) readHeads(ctx context.Context, topics []*topic) (odd []*topic, err error) {
	keys := make([]string, len(topics))
	for i, t := range topics {
		keys[i] = t.key
	}
	readCtx, cancel := context.WithTimeout(ctx, engineTimeout)
	heads, err := d.records.Heads(readCtx, keys)
	cancel()
	part := (*delivery.HeadsError)(nil)
	switch {
	case err == nil:
		d.readWorked()
		d.tellHeads(topics, heads)
		return nil, nil
	case ctx.Err() != nil:
		return nil, err
	case errors.As(err, &part):
		d.readFailed(ctx, "the heads of logs could not be read", keys[part.Unread[0]], err)
		return d.tellRead(topics, heads, part.Unread), nil
	case errors.Is(err, delivery.ErrUnavailable):
		d.readFailed(ctx, "the heads of logs could not be read", keys[0], err)
		return nil, err
	case len(topics) == 1:
		d.readFailed(ctx, "the head of a log could not be read", keys[0], err)
		return topics, nil
	}
	// One of them is to blame: the halves are read by themselves.
	half := len(topics) / 2
	for _, part := range [][]*topic{topics[:half], topics[half:]} {
		failed, err := d.readHeads(ctx, part)
		if err != nil {
			return nil, err
		}
		odd = append(odd, failed...)
	}
	return odd, nil
}

// tellRead says what was read, and returns the topics of which nothing was.
func (d *Dispatcher) tellRead(topics []*topic, heads []delivery.Seq, unread []int) (missing []*topic) {
	var read []*topic
	var of []delivery.Seq
	for i, t := range topics {
		if slices.Contains(unread, i) {
			missing = append(missing, t)
		} else {
			read, of = append(read, t), append(of, heads[i])
		}
	}
	d.tellHeads(read, of)
	return missing
}

// tellHeads says what was read.
func (d *Dispatcher) tellHeads(topics []*topic, heads []delivery.Seq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, t := range topics {
		d.tell(t, heads[i])
		if heads[i] < t.asked {
			d.fell(t, heads[i], t.asked)
		}
	}
}

// askHead has the head of a topic read. mu is held.
func (d *Dispatcher) askHead(t *topic) {
	d.enlist(t)
	signal(d.asked)
}

// enlist notes that the head of a topic is to be read when there is a signal. mu is held.
func (d *Dispatcher) enlist(t *topic) {
	if !t.asking {
		t.asking = true
		d.unknown = append(d.unknown, t)
	}
}

// askAgain has the heads of topics read that could not be read before.
func (d *Dispatcher) askAgain(topics []*topic) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range topics {
		d.askHead(t)
	}
}

// nextUnknown takes topics whose heads are to be read, none if there are none.
// It passes over those that nobody here wants any more.
func (d *Dispatcher) nextUnknown() []*topic {
	d.mu.Lock()
	defer d.mu.Unlock()
	var topics []*topic
	for len(d.unknown) > 0 && len(topics) < headBatch {
		t := d.unknown[0]
		d.unknown = d.unknown[1:]
		t.asking = false
		if d.topics[t.key] == t {
			t.asked = t.head
			topics = append(topics, t)
		}
	}
	if len(d.unknown) == 0 {
		d.unknown = nil
	}
	return topics
}

package delivery

import (
	"context"
	"errors"
	"time"
)

// headLoop reads the heads of topics that are new here, or in doubt. While the
// engine is away all wait; a topic whose head alone cannot be read waits by itself.
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
		for t := d.nextUnknown(); t != nil; t = d.nextUnknown() {
			switch err := d.readHead(ctx, t); {
			case err == nil:
				pause.Reset()
			case errors.Is(err, ErrUnavailable):
				d.askAgain([]*topic{t})
				if !sleep(ctx, pause.NextBackOff()) {
					return
				}
			default:
				if odd = append(odd, t); len(odd) == 1 {
					later.Reset(engineRetryMax)
				}
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// readHead reads the head of a topic.
func (d *Dispatcher) readHead(ctx context.Context, t *topic) error {
	readCtx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	heads, err := d.records.Heads(readCtx, []string{t.key})
	if err != nil {
		d.readFailed(ctx, "the head of a log could not be read", t.key, err)
		return err
	}
	d.advance(t.key, heads[0], nil)
	return nil
}

// askHead has the head of a topic read. mu is held.
func (d *Dispatcher) askHead(t *topic) {
	if !t.asking {
		t.asking = true
		d.unknown = append(d.unknown, t)
		signal(d.asked)
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

// nextUnknown takes a topic whose head is to be read, nil if there is none. It
// passes over those that nobody here wants any more.
func (d *Dispatcher) nextUnknown() *topic {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.unknown) > 0 {
		t := d.unknown[0]
		d.unknown = d.unknown[1:]
		t.asking = false
		if d.topics[t.key] == t {
			return t
		}
	}
	d.unknown = nil
	return nil
}

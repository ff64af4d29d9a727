package notifier

import (
	"cmp"
	"context"
	"time"

	"carillon/payload"
)

// batch measures what the next notification of a channel will have. It holds
// no events, only how far it has read: a backlog of any size costs it nothing.
type batch struct {
	ch      *channel
	next    time.Time // where to read on
	first   time.Time // datetime of the first event
	last    time.Time // datetime of the last event
	entries int
	bytes   int // of the whole document
	full    bool
	since   time.Time // when the first event arrived, or a moment before; by the monotonic clock
}

func newBatch(ch *channel) batch {
	return batch{ch: ch, next: ch.state.Next, bytes: overhead(ch.up)}
}

// following is the batch after one that was sealed. If that was full there may be
// more, whose arrival is not known: after the full batch's first event.
func (b *batch) following() batch {
	after := batch{ch: b.ch, next: nextMicro(b.last), bytes: overhead(b.ch.up)}
	if b.full {
		after.since = b.since
	}
	return after
}

// arrival notes when an event arrived that may be the batch's first.
func (b *batch) arrival(at time.Time) {
	if b.entries == 0 && b.since.IsZero() {
		b.since = at
	}
}

// read takes in what the journal has, until the batch is full.
func (b *batch) read(ctx context.Context) error {
	if b.full {
		return nil
	}
	cfg := &b.ch.n.cfg
	for event, err := range cfg.Journal.Events(ctx, b.ch.set, b.next) {
		if err != nil {
			return err
		}
		complete(&b.ch.n.cfg, &event)
		size := payload.EntrySize(&event.Entry)
		if b.bytes+size > cfg.MaxBytes {
			b.full = true
			break
		}
		if b.entries == 0 {
			b.first = event.Datetime
		}
		b.entries++
		b.bytes += size
		b.last, b.next = event.Datetime, nextMicro(event.Datetime)
		if b.entries == cfg.MaxEntries {
			b.full = true
			break
		}
	}
	switch {
	case b.entries == 0:
		b.since = time.Time{} // what arrived is in the batch before
	case b.since.IsZero():
		b.since = time.Now() // the news of its arrival is still on its way
	}
	return nil
}

// overhead is what a notification has besides its entries; it does not depend
// on the interval, whose datetimes are of fixed width.
func overhead(up string) int {
	from := time.Unix(0, 0)
	return payload.NotificationOverhead(payload.Interval{From: from, Until: nextMicro(from)}, up)
}

// complete adds to an event the facts that its Source left out.
func complete(cfg *Config, e *Event) {
	if cfg.LastmodAlways {
		giveLastmod(e)
	}
}

// giveLastmod gives an event a lastmod where its Source gave none.
func giveLastmod(e *Event) { e.LastMod = cmp.Or(e.LastMod, payload.FormatDatetime(e.Datetime)) }

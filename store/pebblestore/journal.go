package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/notifier"
)

// journalLayout is a journal's. Layout 1 was never released.
func journalLayout() layout { return layout{kind: "carillon notifier", version: 2} }

// Journal keeps a notifier's events and notifications in a directory of its
// own, with the guarantees of this package.
//
// What it keeps: each event once for each of its sets, until no Change List has it
// and Accept or DropLists lets it go; a small record for each Change List; the bytes of
// at most two notifications for each set, the one outstanding and the one accepted
// last; and a small record for each set. So the directory grows with the events
// that are kept and the backlog, not with the notifications.
type Journal struct {
	engine *engine

	mu       sync.Mutex
	last     int64                        // guarded by mu: the greatest datetime given, Unix microseconds
	channels map[string]*notifier.Channel // guarded by mu
	gone     map[string]int64             // guarded by mu: up to where the events of a set were let go
	lists    journalLists                 // guarded by mu

	resources journalResources // guarded by mu
}

var (
	_ notifier.Journal = (*Journal)(nil)
	_ notifier.Lists   = (*Journal)(nil)
)

// OpenJournal opens the journal in cfg.Dir, or makes one there. ErrInUse,
// ErrForeign, ErrNewer and ErrOlder say why it cannot.
func OpenJournal(cfg Config) (*Journal, error) {
	e, err := openEngine(cfg, journalLayout())
	if err != nil {
		return nil, err
	}
	j := &Journal{
		engine: e, channels: map[string]*notifier.Channel{}, gone: map[string]int64{},
		lists: journalLists{},
	}
	if err := j.load(); err != nil {
		_ = e.close()
		return nil, fmt.Errorf("store directory %q: %w", cfg.Dir, err)
	}
	return j, nil
}

// Close waits for the calls that are under way, and for the readers that Body
// gave, and closes the journal. Every later call is notifier.ErrUnavailable.
func (j *Journal) Close() error {
	j.dropViews()
	return j.engine.close()
}

// load reads what is held in memory.
func (j *Journal) load() error {
	record, err := j.engine.get([]byte{kindJournalLast})
	if err != nil {
		return err
	}
	if record != nil {
		last, err := decodeCount(record)
		if err != nil {
			return fmt.Errorf("last datetime: %w", err)
		}
		j.last = int64(last)
	}
	var damage error
	err = j.engine.scan(context.Background(), []byte{kindJournalChannel}, func(key, value []byte) bool {
		var ch *notifier.Channel
		if ch, damage = journalDecodeChannel(string(key[1:]), value); damage == nil {
			j.channels[ch.Set] = ch
		}
		return damage == nil
	})
	if err := errors.Join(err, damage); err != nil {
		return err
	}
	for set := range j.channels {
		if err := j.lists.load(j.engine, set); err != nil {
			return err
		}
	}
	if err := j.resources.load(j.engine, j.channels); err != nil {
		return err
	}
	return j.forgetStrays()
}

// Open implements notifier.Journal.
func (j *Journal) Open(ctx context.Context, set string, now time.Time) (notifier.Channel, error) {
	var found notifier.Channel
	// Also for a channel that is there: the empty change waits until what was
	// seen is durable.
	err := j.engine.change(ctx, shrinks, &j.mu, func(b *pebble.Batch) error {
		ch := j.channels[set]
		if ch == nil {
			made := max(now.UnixMicro(), j.last+1)
			j.last = made - 1
			ch = &notifier.Channel{Set: set, Next: journalTime(made)}
			j.channels[set] = ch
			if err := putChannel(b, ch); err != nil {
				return err
			}
			if err := j.lists.begin(b, set, ch.Next); err != nil {
				return err
			}
		}
		found = *ch
		return putLast(b, j.last)
	})
	if err != nil {
		return notifier.Channel{}, fmt.Errorf("open the channel %s: %w", set, journalError(err))
	}
	return found, nil
}

// Append implements notifier.Journal. Datetimes are given and the batch is put
// before the eyes of readers under one lock, so that no reader sees a datetime
// before a smaller one.
func (j *Journal) Append(ctx context.Context, events []notifier.Event, now time.Time) error {
	records, ends := journalRecords(events)
	err := j.engine.change(ctx, grows, &j.mu, func(b *pebble.Batch) error {
		for i := range events {
			for _, set := range events[i].Sets {
				if j.channels[set] == nil {
					return fmt.Errorf("%w: %q", notifier.ErrNoSet, set)
				}
			}
		}
		start := 0
		for i := range events {
			datetime := j.stamp(events[i].Datetime, now)
			for _, set := range events[i].Sets {
				if err := j.appendEvent(b, set, datetime, &events[i], records[start:ends[i]]); err != nil {
					return err
				}
			}
			start = ends[i]
		}
		return putLast(b, j.last)
	})
	if err != nil {
		return fmt.Errorf("append to the journal: %w", journalError(err))
	}
	return nil
}

// appendEvent puts one event of a set into the batch, with what it makes of the set's
// resources; j.mu is held.
func (j *Journal) appendEvent(b *pebble.Batch, set string, datetime int64, e *notifier.Event, record []byte) error {
	if err := b.Set(journalEventKey(set, datetime), record, nil); err != nil {
		return unavailable(err)
	}
	return j.resources.apply(b, set, datetime, &e.Entry)
}

// journalRecords encodes the events into one buffer; ends says where each ends.
func journalRecords(events []notifier.Event) (records []byte, ends []int) {
	ends = make([]int, len(events))
	for i := range events {
		records = notifier.AppendRecord(records, &events[i])
		ends[i] = len(records)
	}
	return records, ends
}

// stamp gives the next datetime; j.mu is held.
func (j *Journal) stamp(wish, now time.Time) int64 {
	datetime := max(now.UnixMicro(), j.last+1)
	if !wish.IsZero() && !wish.After(now) && wish.UnixMicro() > j.last {
		datetime = wish.UnixMicro()
	}
	j.last = datetime
	return datetime
}

// Last implements notifier.Journal.
func (j *Journal) Last(ctx context.Context) (time.Time, error) {
	if err := j.engine.enter(ctx); err != nil {
		return time.Time{}, fmt.Errorf("read the journal's last datetime: %w", journalError(err))
	}
	defer j.engine.leave()
	j.mu.Lock()
	last := j.last
	j.mu.Unlock()
	// Events up to here were applied under the lock.
	if err := j.engine.settled(); err != nil {
		return time.Time{}, fmt.Errorf("read the journal's last datetime: %w", journalError(err))
	}
	return journalTime(last), nil
}

// Events implements notifier.Journal.
func (j *Journal) Events(ctx context.Context, set string, from time.Time) iter.Seq2[notifier.Event, error] {
	return func(yield func(notifier.Event, error) bool) {
		if err := j.events(ctx, set, from, yield); err != nil {
			yield(notifier.Event{}, fmt.Errorf("read the events of %s: %w", set, journalError(err)))
		}
	}
}

func (j *Journal) events(
	ctx context.Context, set string, from time.Time, yield func(notifier.Event, error) bool,
) error {
	if err := j.engine.enter(ctx); err != nil {
		return err
	}
	defer j.engine.leave()
	prefix := journalSetPrefix(kindJournalEvent, set)
	it, err := iterator(j.engine.db, journalEventKey(set, max(from.UnixMicro(), 0)), keyEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		event, err := journalEvent(it)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !yield(event, nil) {
			return it.Close()
		}
	}
	if err := it.Close(); err != nil {
		return unavailable(err)
	}
	return nil
}

// journalEvent reads the event at the iterator's place. A damaged one is an error:
// to leave it out would break the promise of the interval that it belongs to.
func journalEvent(it *pebble.Iterator) (notifier.Event, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return notifier.Event{}, unavailable(err)
	}
	event, err := notifier.ParseRecord(value)
	if err != nil {
		return notifier.Event{}, fmt.Errorf("%w: event %x: %w", ErrDamaged, it.Key(), err)
	}
	event.Datetime = journalTime(int64(seqOf(it.Key())))
	return event, nil
}

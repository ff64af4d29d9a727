package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/notifier"
)

// journalListVersion is the version of a Change List's record.
const journalListVersion = 1

// The meanings of the first byte of one.
const (
	listOpen           = 0
	listClosed         = 1
	listClosedLastmods = 2 // and each entry has a lastmod
)

func journalListKey(set string, from time.Time) []byte {
	return journalMicros(journalSetPrefix(kindJournalList, set), from)
}

// journalLists are the Change Lists of each set, the open one last; Journal.mu guards them.
type journalLists map[string][]notifier.ChangeList

// ChangeLists implements notifier.Lists.
func (j *Journal) ChangeLists(ctx context.Context, set string) (_ []notifier.ChangeList, err error) {
	defer journalDoing(&err, "read the Change Lists of", set)
	if err := j.engine.enter(ctx); err != nil {
		return nil, err
	}
	defer j.engine.leave()
	j.mu.Lock()
	lists := slices.Clone(j.lists[set])
	j.mu.Unlock()
	if lists == nil {
		return nil, notifier.ErrNoSet
	}
	// The published state of a list must not change with a crash.
	if err := j.engine.settled(); err != nil {
		return nil, err
	}
	return lists, nil
}

// CloseList implements notifier.Lists. Both records are of one batch, so that there is
// always one open list.
func (j *Journal) CloseList(ctx context.Context, l notifier.ChangeList) (err error) {
	defer journalDoing(&err, "close a Change List of", l.Set)
	l.From, l.Until = journalTime(l.From.UnixMicro()), journalTime(l.Until.UnixMicro())
	l.Closed = journalTime(l.Closed.UnixMicro())
	return j.engine.change(ctx, shrinks, &j.mu, func(b *pebble.Batch) error {
		lists := j.lists[l.Set]
		if len(lists) == 0 {
			return notifier.ErrNoSet
		}
		open := &lists[len(lists)-1]
		if !l.From.Equal(open.From) || !l.Until.After(l.From) {
			return fmt.Errorf("%w: a list from %s until %s; the open one is from %s",
				notifier.ErrOutOfOrder, l.From, l.Until, open.From)
		}
		*open = l
		if err := putList(b, l); err != nil {
			return err
		}
		// Later events are behind the list.
		j.last = max(j.last, l.Until.UnixMicro()-1)
		if err := putLast(b, j.last); err != nil {
			return err
		}
		return j.lists.begin(b, l.Set, l.Until)
	})
}

// DropLists implements notifier.Lists.
func (j *Journal) DropLists(ctx context.Context, set string, keepFrom time.Time) (err error) {
	defer journalDoing(&err, "forget Change Lists of", set)
	return j.engine.change(ctx, shrinks, &j.mu, func(b *pebble.Batch) error {
		lists, ch := j.lists[set], j.channels[set]
		if len(lists) == 0 {
			return notifier.ErrNoSet
		}
		dropped := 0
		for ; !lists[dropped].Until.IsZero() && !lists[dropped].Until.After(keepFrom); dropped++ {
			if err := b.Delete(journalListKey(set, lists[dropped].From), nil); err != nil {
				return unavailable(err)
			}
		}
		if dropped == 0 {
			return nil
		}
		j.lists[set] = slices.Clone(lists[dropped:])
		if ch.Accepted == nil {
			return nil
		}
		return j.forgetEvents(b, *ch.Accepted, keepFrom)
	})
}

// begin makes the open list of a set; j.mu is held.
func (lists journalLists) begin(b *pebble.Batch, set string, from time.Time) error {
	l := notifier.ChangeList{Set: set, From: from}
	lists[set] = append(lists[set], l)
	return putList(b, l)
}

// load reads the lists of a set. Each must begin where the one before ended, and
// the last be open: with a hole in them Destinations would miss changes.
func (all journalLists) load(e *engine, set string) error {
	prefix := journalSetPrefix(kindJournalList, set)
	var lists []notifier.ChangeList
	var damage error
	err := e.scan(context.Background(), prefix, func(key, value []byte) bool {
		var l notifier.ChangeList
		if len(key) != len(prefix)+seqLen {
			damage = fmt.Errorf("%w: Change List %x", ErrDamaged, key)
			return false
		}
		if l, damage = decodeList(set, int64(seqOf(key)), value); damage != nil {
			return false
		}
		if n := len(lists); n > 0 && !lists[n-1].Until.Equal(l.From) {
			damage = fmt.Errorf(
				"%w: the Change List of %q from %s does not follow the one before", ErrDamaged, set, l.From,
			)
		}
		lists = append(lists, l)
		return damage == nil
	})
	if err := errors.Join(err, damage); err != nil {
		return err
	}
	if n := len(lists); n == 0 || !lists[n-1].Until.IsZero() {
		return fmt.Errorf("%w: the set %q has no open Change List", ErrDamaged, set)
	}
	all[set] = lists
	return nil
}

func putList(b *pebble.Batch, l notifier.ChangeList) error {
	if err := b.Set(journalListKey(l.Set, l.From), encodeList(l), nil); err != nil {
		return unavailable(err)
	}
	return nil
}

func encodeList(l notifier.ChangeList) []byte {
	record := newEncoder(journalListVersion, 32)
	if l.Until.IsZero() {
		record.octet(listOpen)
		return record
	}
	if l.Lastmods {
		record.octet(listClosedLastmods)
	} else {
		record.octet(listClosed)
	}
	record.signed(l.Until.UnixMicro())
	record.number(uint64(l.Entries))
	record.signed(l.Closed.UnixMicro())
	return record
}

func decodeList(set string, from int64, record []byte) (notifier.ChangeList, error) {
	d := newDecoder(record, journalListVersion)
	l := notifier.ChangeList{Set: set, From: journalTime(from)}
	if state := d.octet(); state != listOpen {
		l.Lastmods = state == listClosedLastmods
		l.Until = journalTime(d.signed())
		l.Entries = int(d.uintMax(math.MaxInt32))
		l.Closed = journalTime(d.signed())
	}
	if err := d.done(); err != nil {
		return l, fmt.Errorf("the Change List of %q: %w", set, err)
	}
	return l, nil
}

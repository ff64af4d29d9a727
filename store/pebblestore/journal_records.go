package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/notifier"
	"carillon/subscription"
)

// Keys of a journal, in the same manner as those of a hub.
//
//	40 set                     channel
//	41                         the last datetime given
//	42 set 00 datetime         event
//	43 set 00 from chunk       part of a notification's bytes
//	44 set 00 from             Change List (layout 2)
//
// set is a name without zero bytes, datetime and from 8 bytes of Unix
// microseconds, chunk 4 bytes.
const (
	kindJournalChannel = 0x40
	kindJournalLast    = 0x41
	kindJournalEvent   = 0x42
	kindJournalBody    = 0x43
	kindJournalList    = 0x44
)

// journalChunk is how many bytes of a notification one record has, and so how
// much a reader holds.
const journalChunk = 1 << 20

// journalVersion is the version of a channel's record.
const journalVersion = 1

func journalSetPrefix(kind byte, set string) []byte {
	return append(append([]byte{kind}, set...), 0)
}

// journalMicros adds a time as keys have it.
func journalMicros(key []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(key, uint64(t.UnixMicro()))
}

func journalEventKey(set string, datetime int64) []byte {
	return binary.BigEndian.AppendUint64(journalSetPrefix(kindJournalEvent, set), uint64(datetime))
}

func journalBodyKey(n notifier.Notification, chunk int) []byte {
	key := binary.BigEndian.AppendUint64(journalSetPrefix(kindJournalBody, n.Set), uint64(n.From.UnixMicro()))
	return binary.BigEndian.AppendUint32(key, uint32(chunk))
}

func journalTime(micro int64) time.Time { return time.UnixMicro(micro).UTC() }

// journalRounded gives n with whole microseconds in UTC.
func journalRounded(n notifier.Notification) notifier.Notification {
	n.From, n.Until = journalTime(n.From.UnixMicro()), journalTime(n.Until.UnixMicro())
	return n
}

// journalSame reports whether kept is n; an interval of a set is covered once.
func journalSame(kept *notifier.Notification, n notifier.Notification) bool {
	return kept != nil && kept.From.Equal(n.From) && kept.Until.Equal(n.Until)
}

// putLast writes the last datetime.
func putLast(b *pebble.Batch, last int64) error {
	if err := b.Set([]byte{kindJournalLast}, encodeCount(uint64(last)), nil); err != nil {
		return unavailable(err)
	}
	return nil
}

// putChannel writes the record of a channel; Journal.mu is held.
func putChannel(b *pebble.Batch, ch *notifier.Channel) error {
	if err := b.Set(append([]byte{kindJournalChannel}, ch.Set...), journalEncodeChannel(ch), nil); err != nil {
		return unavailable(err)
	}
	return nil
}

func journalEncodeChannel(ch *notifier.Channel) []byte {
	record := newEncoder(journalVersion, 64)
	record.signed(ch.Next.UnixMicro())
	journalEncodeNotification(&record, ch.Sealed)
	journalEncodeNotification(&record, ch.Accepted)
	return record
}

func journalEncodeNotification(record *encoder, n *notifier.Notification) {
	if n == nil {
		record.octet(0)
		return
	}
	record.octet(1)
	record.signed(n.From.UnixMicro())
	record.signed(n.Until.UnixMicro())
	record.number(uint64(n.Entries))
	record.number(uint64(n.Size))
}

func journalDecodeChannel(set string, record []byte) (*notifier.Channel, error) {
	d := newDecoder(record, journalVersion)
	ch := &notifier.Channel{Set: set, Next: journalTime(d.signed())}
	ch.Sealed = journalDecodeNotification(d, set)
	ch.Accepted = journalDecodeNotification(d, set)
	if err := d.done(); err != nil {
		return nil, fmt.Errorf("channel %q: %w", set, err)
	}
	return ch, nil
}

func journalDecodeNotification(d *decoder, set string) *notifier.Notification {
	if d.octet() == 0 {
		return nil
	}
	return &notifier.Notification{
		Set: set, From: journalTime(d.signed()), Until: journalTime(d.signed()),
		Entries: int(d.uintMax(math.MaxInt32)), Size: int64(d.uintMax(math.MaxInt64)),
	}
}

// journalDoing adds to an error what was done to which set.
func journalDoing(err *error, doing, set string) {
	if *err != nil {
		*err = fmt.Errorf("%s %s: %w", doing, set, journalError(*err))
	}
}

// journalError puts the engine's trouble in the words of the journal.
func journalError(err error) error {
	if errors.Is(err, subscription.ErrUnavailable) {
		return fmt.Errorf("%w: %w", notifier.ErrUnavailable, err)
	}
	return err
}

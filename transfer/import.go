package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

// DefaultMaxBody is the largest body of a notification, in bytes, that is taken from a stream: the
// largest --max-body of a hub.
const DefaultMaxBody = 1 << 30

// ImportConfig says how a stream is read.
type ImportConfig struct {
	// Merge takes a target that is not empty. A record takes the place of the one with the same name, but
	// no position moves back: a subscription that has come further in the target keeps its position there.
	// Records that only the target has stay. Where both have a topic's log, it must be the same one, of
	// which one may be the beginning of the other (ErrOtherLog).
	Merge bool
	// MaxBody bounds the body of a notification, bytes. Default DefaultMaxBody.
	MaxBody int64
	// Progress is called after every record; may be nil. It must not block.
	Progress func(Progress)
}

func (c ImportConfig) withDefaults() ImportConfig {
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	return c
}

// Summary says what a stream held.
type Summary struct {
	Progress
	// Exported, Hub and Engine are the header's.
	Exported    time.Time
	Hub, Engine string
}

// Verify reads a stream to its end and writes nothing. It is nil for a stream that
// Import takes.
func Verify(ctx context.Context, r io.Reader, cfg ImportConfig) (Summary, error) {
	return read(ctx, r, cfg.withDefaults(), nothing{})
}

// Import writes everything in the stream into the engine. It is done when it
// returns nil. After an error the engine holds a part of the stream, unless the
// error is ErrNotEmpty, ErrNotExport or ErrVersion: then it was left as it was.
// The same stream can be imported again with Merge; after ErrDamaged, a whole
// one into an empty engine.
func Import(ctx context.Context, r io.Reader, to Engine, cfg ImportConfig) (Summary, error) {
	return read(ctx, r, cfg.withDefaults(), newImporter(to, cfg.Merge))
}

// taker does something with the records of a stream, whose order was checked.
type taker interface {
	// begin comes before all records.
	begin(ctx context.Context) error
	take(ctx context.Context, r record) error
	// end comes after all records, once the whole stream is known to be right.
	end(ctx context.Context) error
}

type nothing struct{}

func (nothing) begin(context.Context) error        { return nil }
func (nothing) take(context.Context, record) error { return nil }
func (nothing) end(context.Context) error          { return nil }

// read reads a stream and hands its records to t.
func read(ctx context.Context, r io.Reader, cfg ImportConfig, t taker) (Summary, error) {
	l := newLines(r, cfg.MaxBody)
	header, err := l.header()
	if err != nil {
		return Summary{}, err
	}
	s := Summary{Exported: header.Exported, Hub: header.Hub, Engine: header.Engine}
	if err := t.begin(ctx); err != nil {
		return s, err
	}
	var o order
	for {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		rec, err := l.record()
		if err != nil {
			return s, err
		}
		s.Bytes = l.bytes
		if end, ok := rec.(endLine); ok {
			if err := l.end(end, s.Counts); err != nil {
				return s, err
			}
			return s, t.end(ctx)
		}
		if err := o.check(rec); err != nil {
			return s, l.failed(fmt.Errorf("%w: %w", ErrDamaged, err))
		}
		if err := t.take(ctx, rec); err != nil {
			return s, l.failed(err)
		}
		s.count(rec)
		if cfg.Progress != nil {
			cfg.Progress(s.Progress)
		}
	}
}

func (c *Counts) count(r record) {
	switch r.(type) {
	case sourceRecord:
		c.Sources++
	case topicRecord:
		c.Topics++
	case notificationRecord:
		c.Notifications++
	case requestRecord:
		c.Requests++
	case pingRecord:
		c.Pings++
	case memberRecord:
		c.Subscriptions++
	case gapRecord:
		c.Gaps++
	}
}

// order checks that records come as an export writes them, each once.
type order struct {
	last record
	// topic is the topic whose log is being read, and seq the number read last.
	topic delivery.TopicState
	seq   delivery.Seq
	// member is the subscription whose gaps are being read, and gap the last of them.
	member delivery.Member
	gap    delivery.Gap
}

func (o *order) check(r record) error {
	if o.last != nil && section(r) < section(o.last) {
		return errors.New("a record out of order: its section was over")
	}
	rising := true
	switch r := r.(type) {
	case sourceRecord:
		if last, ok := o.last.(sourceRecord); ok {
			rising = last.Name < r.Name
		}
	case topicRecord:
		rising = o.topic.Topic < r.Topic
		o.topic, o.seq = r.TopicState, 0
	case notificationRecord:
		if r.Topic.Key() != o.topic.Topic || r.Seq > o.topic.Head {
			return errors.New("a notification that does not belong to the topic before it")
		}
		rising = o.seq < r.Seq
		o.seq = r.Seq
	case requestRecord:
		if last, ok := o.last.(requestRecord); ok {
			rising = compareIDs(last.ID, r.ID) < 0
		}
	case pingRecord:
		if last, ok := o.last.(pingRecord); ok {
			rising = strings.Compare(last.topic.String(), r.topic.String()) < 0
		}
	case memberRecord:
		rising = o.member.ID == uuid.Nil || compareIDs(o.member.ID, r.ID) < 0
		o.member, o.gap = r.Member, delivery.Gap{}
	case gapRecord:
		if r.Subscription != o.member.ID {
			return errors.New("a gap that does not belong to the subscription before it")
		}
		rising = o.gap.First < r.First
		o.gap = r.Gap
	}
	if !rising {
		return errors.New("a record out of order: it belongs before the one before it")
	}
	o.last = r
	return nil
}

// section is the part of the stream that a record belongs in.
func section(r record) int {
	switch r.(type) {
	case sourceRecord:
		return 0
	case topicRecord, notificationRecord:
		return 1
	case requestRecord:
		return 2
	case pingRecord:
		return 3
	}
	return 4
}

// compareIDs orders subscriptions by shard, then by ID.
func compareIDs(a, b subscription.ID) int {
	return cmp.Or(
		cmp.Compare(subscription.ShardOf(a), subscription.ShardOf(b)),
		bytes.Compare(a[:], b[:]),
	)
}

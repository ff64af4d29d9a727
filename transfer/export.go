package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"carillon/delivery"
	"carillon/subscription"
	"carillon/topic"
)

// ExportConfig has the values of a stream's header, and the function that hears of the export's
// progress.
type ExportConfig struct {
	// Time is the header's; default now.
	Time time.Time
	// Hub is the version of the program.
	Hub string
	// Engine is the kind of the engine: "pebble".
	Engine string
	// Progress is called after every record; may be nil. It must not block.
	Progress func(Progress)
}

// Export writes everything that the engine keeps to w, and returns how much that
// was. Where it returns an error, the stream lacks its end and every import
// refuses it.
func Export(ctx context.Context, from Source, w io.Writer, cfg ExportConfig) (Progress, error) {
	if cfg.Time.IsZero() {
		cfg.Time = time.Now()
	}
	e := &exporter{Source: from, w: newWriter(w, cfg.Progress), heads: map[string]delivery.Seq{}}
	err := e.w.header(cfg.Time, cfg.Hub, cfg.Engine)
	for _, part := range []func(context.Context) error{
		e.exportSources, e.exportLogs, e.exportRequests, e.exportPings, e.exportSubscriptions,
	} {
		if err == nil {
			err = part(ctx)
		}
	}
	if err == nil {
		err = e.w.end()
	}
	return e.w.progress, err
}

// exporter is one export.
type exporter struct {
	Source
	w     *writer
	heads map[string]delivery.Seq // of the topics that are in the stream, by key
}

func (e *exporter) exportSources(ctx context.Context) error {
	if e.Sources == nil {
		return nil
	}
	all, err := e.Sources.List(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := e.w.source(s); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) exportLogs(ctx context.Context) error {
	topics, err := sorted(
		e.Log.Topics(ctx), func(a, b delivery.TopicState) int { return strings.Compare(a.Topic, b.Topic) },
	)
	if err != nil {
		return err
	}
	for _, t := range topics {
		if t.Head == 0 {
			continue // a log that never had anything
		}
		e.heads[t.Topic] = t.Head
		err := e.w.topic(t)
		if err == nil {
			err = e.exportLog(ctx, t)
		}
		if err != nil {
			return fmt.Errorf("topic %s: %w", t.Topic, err)
		}
	}
	return nil
}

// exportLog writes the kept notifications of a log up to the head in its topic line: later
// publications are not in this stream.
func (e *exporter) exportLog(ctx context.Context, t delivery.TopicState) error {
	for from := t.First; from <= t.Head; {
		n, err := e.Log.Read(ctx, t.Topic, from)
		if errors.Is(err, delivery.ErrEndOfLog) || err == nil && n.Seq > t.Head {
			return nil
		}
		if err == nil {
			err = e.w.notification(n)
		}
		if err != nil {
			return err
		}
		from = n.Seq + 1
	}
	return nil
}

// exportRequests comes before the subscriptions: one that is verified meanwhile is then
// in the stream twice over rather than not at all.
func (e *exporter) exportRequests(ctx context.Context) error {
	for shard := range subscription.Shard(subscription.Shards) {
		requests, err := sorted(e.Subscriptions.Requests(ctx, shard), func(a, b subscription.Request) int {
			return bytes.Compare(a.ID[:], b.ID[:])
		})
		if err != nil {
			return err
		}
		for _, r := range requests {
			if err := e.w.request(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *exporter) exportPings(ctx context.Context) error {
	pings, err := sorted(e.Pings.Waiting(ctx), func(a, b delivery.Ping) int {
		return strings.Compare(a.Topic.String(), b.Topic.String())
	})
	if err != nil {
		return err
	}
	for _, p := range pings {
		if err := e.w.ping(p.Topic.String()); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) exportSubscriptions(ctx context.Context) error {
	for shard := range subscription.Shard(subscription.Shards) {
		members, err := sorted(e.Cursors.Members(ctx, shard), func(a, b delivery.Member) int {
			return bytes.Compare(a.ID[:], b.ID[:])
		})
		if err != nil {
			return err
		}
		for _, m := range members {
			if err := e.exportMember(ctx, m); err != nil {
				return fmt.Errorf("subscription %s: %w", m.ID, err)
			}
		}
	}
	return nil
}

// maxGaps is how many gaps of a subscription are carried, the latest. No
// engine has kept more so far.
const maxGaps = 1000

// exportMember writes a subscription and its gaps as they were at the topic's head
// in the stream: the target gives out the numbers above it once more.
func (e *exporter) exportMember(ctx context.Context, m delivery.Member) error {
	head := e.heads[topic.Key(m.Topic)]
	m.Start, m.Settled = min(m.Start, uint64(head)), min(m.Settled, head)
	if m.ReplayLast = min(m.ReplayLast, head); m.ReplayNext > m.ReplayLast {
		m.ReplayNext, m.ReplayLast = 0, 0
	}
	if err := e.w.member(m); err != nil {
		return err
	}
	gaps, err := e.Cursors.Gaps(ctx, m.ID, maxGaps)
	if err != nil {
		return err
	}
	slices.SortFunc(gaps, func(a, b delivery.Gap) int { return cmp.Compare(a.First, b.First) })
	for _, g := range gaps {
		if g.First > head {
			break
		}
		g.Last = min(g.Last, head)
		if err := e.w.gap(g); err != nil {
			return err
		}
	}
	return nil
}

// sorted collects what an engine lists, which is in no particular order there and
// may list a record twice, as a scan of Redis may.
func sorted[T any](list iter.Seq2[T, error], compare func(a, b T) int) ([]T, error) {
	var all []T
	for v, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, compare)
	return slices.CompactFunc(all, func(a, b T) bool { return compare(a, b) == 0 }), nil
}

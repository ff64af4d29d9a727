// Package retain decides what logs may take: it trims them by what is settled, by age and by
// size (decision 9 and those after it). Package dispatch runs it, and says what its
// subscriptions still need.
package retain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/internal/wallclock"
	"carillon/subscription"
)

const (
	// roundTimeout bounds a round over all logs.
	roundTimeout = 5 * time.Minute
	// MarkLife is for how many intervals a mark counts.
	MarkLife = 3
	// MaxAhead is how far in the future something may have been accepted, by a clock that is a little
	// ahead. A notification further ahead has no known age.
	MaxAhead = time.Minute
)

// Config holds the bounds, as dispatch.Config has them, with defaults filled in.
type Config struct {
	Interval      time.Duration // between two rounds
	KeepAtLeast   time.Duration
	KeepFor       time.Duration // 0: no bound by age
	KeepBytes     int64         // 0: no bound by size
	RememberFor   time.Duration
	RememberBytes int64 // 0: KeepBytes alone
	// RetryMax is the longest pause between two attempts for a subscription.
	RetryMax time.Duration
}

// Shards are those that this process owns. All methods may be called from any goroutine.
type Shards interface {
	// Mark returns what the subscriptions of a shard need, if that is owned and read.
	Mark(s subscription.Shard) (m Mark, held bool)
	// Save saves the positions of all shards but those that are sidelined.
	Save(ctx context.Context) error
	// Sidelined counts the shards whose positions cannot be saved, as the part of the engine that
	// keeps them is away.
	Sidelined() int
}

// Mark is the lowest cursor of every topic that has subscriptions in a shard.
type Mark struct {
	Tenure delivery.Tenure
	Lowest map[string]delivery.Seq // by the topic's key
}

// Trimmer trims the logs. Round is called by one goroutine, WriteMark by any.
type Trimmer struct {
	cfg     Config
	records delivery.Log
	marks   delivery.Marks // nil where this process has the engine to itself
	shards  Shards
	wall    *wallclock.Clock
	log     *slog.Logger
	metrics *metrics
	// marking is full while a shard is marked: a later look is written later.
	marking chan struct{}

	// The fields below belong to Round.
	age, size loss // not logged yet
	told      time.Time
	since     time.Time          // when it began; zero while it does not
	ahead     map[string]glimpse // by topic
	sites     *sites
	logs      []holding // those of the latest sweep: its memory is used again
}

// New returns a Trimmer. Marks is nil where one process has the engine to itself. A nil Registerer
// is for those who want no metrics.
func New(
	cfg Config, records delivery.Log, marks delivery.Marks, shards Shards, wall *wallclock.Clock,
	logger *slog.Logger, reg prometheus.Registerer,
) (*Trimmer, error) {
	m, err := newMetrics(cfg, reg)
	return &Trimmer{
		cfg: cfg, records: records, marks: marks, shards: shards, wall: wall, log: logger, metrics: m,
		marking: make(chan struct{}, 1), sites: newSites(),
	}, err
}

// Round trims once. A Save that is under way when ctx ends goes on while saves stands.
func (t *Trimmer) Round(ctx, saves context.Context) {
	err := t.trim(ctx, saves)
	if errors.Is(err, delivery.ErrUnavailable) {
		t.since = time.Time{}
	}
	if err != nil && ctx.Err() == nil {
		t.log.Warn("the logs could not be trimmed; it is tried again", "error", err)
	}
}

// trim removes what no subscription needs any more and is older than
// Config.KeepAtLeast, and what the logs may not keep. Of the processes that share an
// engine the owner of shard 0 does so.
func (t *Trimmer) trim(ctx, saves context.Context) error {
	marks := t.held()
	if len(marks) == 0 {
		t.since = time.Time{}
		t.metrics.logs.Store(nil)
		return nil
	}
	// Trimmed is what is settled on disk, not only in memory: after a crash a
	// subscription must not find a gap where it had its deliveries.
	unsaved := t.shards.Sidelined()
	if err := t.shards.Save(saves); err != nil {
		return err
	}
	if unsaved += t.shards.Sidelined(); unsaved > 0 {
		return fmt.Errorf("%w: not all positions could be saved", delivery.ErrPartAway)
	}
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	slowest, err := t.agree(ctx, marks)
	if err != nil {
		return err
	}
	if !slowest.trims {
		t.since = time.Time{}
		t.metrics.logs.Store(nil) // another process reports
		return nil
	}
	return t.sweep(ctx, slowest)
}

// needs is what the processes that share an engine know together.
type needs struct {
	trims  bool                    // it is for this process to trim
	known  bool                    // the cursors of all subscriptions are known
	lowest map[string]delivery.Seq // the lowest saved cursor of each topic, if known
}

// agree returns what is needed over all shards.
//
// What one process does not see would be lost to the subscriptions of another: so
// each marks its own shards in the engine, and the one that owns shard 0 trims. An
// engine without Marks has one process, which sees all as soon as it owns all.
func (t *Trimmer) agree(ctx context.Context, marks []Mark) (n needs, err error) {
	n.trims = marks[0].Tenure.Shard == 0
	if t.marks == nil {
		n.lowest, n.known = merge(marks), len(marks) == subscription.Shards
		return n, nil
	}
	for _, m := range marks {
		err := t.WriteMark(ctx, m)
		if errors.Is(err, delivery.ErrFenced) {
			// The shard is lost, which Save or Lost will say.
			t.log.Debug("a shard was not marked: it is lost, or is about to be", "shard", m.Tenure.Shard)
			n.trims = n.trims && m.Tenure.Shard != 0
			continue
		}
		if err != nil {
			return n, fmt.Errorf("marking shard %d: %w", m.Tenure.Shard, err)
		}
	}
	if !n.trims {
		return n, nil
	}
	n.lowest, n.known, err = t.marks.Lowest(ctx, time.Now().Add(-MarkLife*t.cfg.Interval))
	if err != nil {
		return n, fmt.Errorf("reading the marks: %w", err)
	}
	return n, nil
}

// WriteMark marks a shard as it was looked at before its cursors were saved, but for replays that
// have begun since: they need what lies before their cursors. Marks are written one at a time, so
// that none takes the place of one that was looked at later.
func (t *Trimmer) WriteMark(ctx context.Context, m Mark) error {
	select {
	case t.marking <- struct{}{}:
		defer func() { <-t.marking }()
	case <-ctx.Done():
		return fmt.Errorf("%w: the mark before has not been written yet: %w", delivery.ErrUnavailable, ctx.Err())
	}
	now, held := t.shards.Mark(m.Tenure.Shard)
	if !held || now.Tenure != m.Tenure {
		return &delivery.FencedError{Shards: []subscription.Shard{m.Tenure.Shard}}
	}
	return t.marks.Mark(ctx, m.Tenure, merge([]Mark{m, now}))
}

// held returns the marks of the shards that are owned and read.
func (t *Trimmer) held() (marks []Mark) {
	for s := range subscription.Shard(subscription.Shards) {
		if m, held := t.shards.Mark(s); held {
			marks = append(marks, m)
		}
	}
	return marks
}

// merge returns the lowest of several marks.
func merge(marks []Mark) map[string]delivery.Seq {
	all := map[string]delivery.Seq{}
	for _, m := range marks {
		for topic, seq := range m.Lowest {
			if settled, found := all[topic]; !found || seq < settled {
				all[topic] = seq
			}
		}
	}
	return all
}

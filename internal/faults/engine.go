package faults

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/source"
	"carillon/subscription"
	"carillon/topic"
)

// Store is a subscription.Store that fails as the plan says.
type Store struct {
	of   subscription.Store
	plan *Plan
}

// NewStore wraps a store.
func NewStore(of subscription.Store, plan *Plan) *Store { return &Store{of, plan} }

var _ subscription.Store = (*Store)(nil)

// Submit implements subscription.Store.
func (s *Store) Submit(ctx context.Context, r subscription.Request) error {
	return s.plan.do(ctx, "store.Submit", func() error { return s.of.Submit(ctx, r) })
}

// KeepStart implements subscription.Store.
func (s *Store) KeepStart(ctx context.Context, r subscription.Request, start uint64) (subscription.Request, error) {
	return get(
		ctx, s.plan, "store.KeepStart", func() (subscription.Request, error) { return s.of.KeepStart(ctx, r, start) },
	)
}

// Requests implements subscription.Store.
func (s *Store) Requests(ctx context.Context, shard subscription.Shard) iter.Seq2[subscription.Request, error] {
	return list(ctx, s.plan, "store.Requests", func() iter.Seq2[subscription.Request, error] {
		return s.of.Requests(ctx, shard)
	})
}

// Request implements subscription.Store.
func (s *Store) Request(ctx context.Context, id subscription.ID) (subscription.Request, error) {
	return get(ctx, s.plan, "store.Request", func() (subscription.Request, error) { return s.of.Request(ctx, id) })
}

// Activate implements subscription.Store.
func (s *Store) Activate(ctx context.Context, r subscription.Request, sub subscription.Subscription) error {
	return s.plan.do(ctx, "store.Activate", func() error { return s.of.Activate(ctx, r, sub) })
}

// Drop implements subscription.Store.
func (s *Store) Drop(ctx context.Context, r subscription.Request) error {
	return s.plan.do(ctx, "store.Drop", func() error { return s.of.Drop(ctx, r) })
}

// Unsubscribe implements subscription.Store.
func (s *Store) Unsubscribe(ctx context.Context, r subscription.Request) error {
	return s.plan.do(ctx, "store.Unsubscribe", func() error { return s.of.Unsubscribe(ctx, r) })
}

// Remove implements subscription.Store.
func (s *Store) Remove(ctx context.Context, sub subscription.Subscription) (bool, error) {
	return get(ctx, s.plan, "store.Remove", func() (bool, error) { return s.of.Remove(ctx, sub) })
}

// Get implements subscription.Store.
func (s *Store) Get(ctx context.Context, id subscription.ID) (subscription.Subscription, error) {
	return get(ctx, s.plan, "store.Get", func() (subscription.Subscription, error) { return s.of.Get(ctx, id) })
}

// Expired implements subscription.Store.
func (s *Store) Expired(
	ctx context.Context, shard subscription.Shard, now time.Time, limit int,
) ([]subscription.Subscription, error) {
	return get(ctx, s.plan, "store.Expired", func() ([]subscription.Subscription, error) {
		return s.of.Expired(ctx, shard, now, limit)
	})
}

// Log is a delivery.Log that fails as the plan says.
type Log struct {
	of   delivery.Log
	plan *Plan
}

// NewLog wraps a log.
func NewLog(of delivery.Log, plan *Plan) *Log { return &Log{of, plan} }

var _ delivery.Log = (*Log)(nil)

// Append implements delivery.Log.
func (l *Log) Append(
	ctx context.Context, p delivery.Publication, id uuid.UUID, accepted time.Time,
) (delivery.Receipt, error) {
	return get(ctx, l.plan, "log.Append", func() (delivery.Receipt, error) { return l.of.Append(ctx, p, id, accepted) })
}

// Read implements delivery.Log.
func (l *Log) Read(ctx context.Context, key string, from delivery.Seq) (*delivery.Notification, error) {
	return get(ctx, l.plan, "log.Read", func() (*delivery.Notification, error) { return l.of.Read(ctx, key, from) })
}

// Summaries implements delivery.Log.
func (l *Log) Summaries(ctx context.Context, key string, before delivery.Seq, limit int) ([]delivery.Summary, error) {
	return get(ctx, l.plan, "log.Summaries", func() ([]delivery.Summary, error) {
		return l.of.Summaries(ctx, key, before, limit)
	})
}

// Summary implements delivery.Log.
func (l *Log) Summary(ctx context.Context, key string, from delivery.Seq) (delivery.Summary, error) {
	return get(ctx, l.plan, "log.Summary", func() (delivery.Summary, error) { return l.of.Summary(ctx, key, from) })
}

// State implements delivery.Log.
func (l *Log) State(ctx context.Context, key string) (delivery.TopicState, error) {
	return get(ctx, l.plan, "log.State", func() (delivery.TopicState, error) { return l.of.State(ctx, key) })
}

// Heads implements delivery.Log.
func (l *Log) Heads(ctx context.Context, keys []string) ([]delivery.Seq, error) {
	return get(ctx, l.plan, "log.Heads", func() ([]delivery.Seq, error) { return l.of.Heads(ctx, keys) })
}

// Trim implements delivery.Log. It returns the removed part also with an injected error.
func (l *Log) Trim(
	ctx context.Context, key string, before delivery.Seq, olderThan time.Time,
) (went delivery.Trimmed, err error) {
	err = l.plan.do(ctx, "log.Trim", func() error {
		went, err = l.of.Trim(ctx, key, before, olderThan)
		return err
	})
	return went, err
}

// Shrink implements delivery.Log. It returns the removed part also with an injected error.
func (l *Log) Shrink(
	ctx context.Context, key string, keep int64, before delivery.Seq, olderThan time.Time,
) (went delivery.Trimmed, err error) {
	err = l.plan.do(ctx, "log.Shrink", func() error {
		went, err = l.of.Shrink(ctx, key, keep, before, olderThan)
		return err
	})
	return went, err
}

// Keys implements delivery.Log.
func (l *Log) Keys(ctx context.Context) iter.Seq2[string, error] {
	return list(ctx, l.plan, "log.Keys", func() iter.Seq2[string, error] { return l.of.Keys(ctx) })
}

// Topics implements delivery.Log.
func (l *Log) Topics(ctx context.Context) iter.Seq2[delivery.TopicState, error] {
	return list(ctx, l.plan, "log.Topics", func() iter.Seq2[delivery.TopicState, error] {
		return l.of.Topics(ctx)
	})
}

// Cursors is a delivery.Cursors that fails as the plan says.
type Cursors struct {
	of   delivery.Cursors
	plan *Plan
}

// NewCursors wraps cursors.
func NewCursors(of delivery.Cursors, plan *Plan) *Cursors { return &Cursors{of, plan} }

var _ delivery.Cursors = (*Cursors)(nil)

// Members implements delivery.Cursors.
func (c *Cursors) Members(ctx context.Context, s subscription.Shard) iter.Seq2[delivery.Member, error] {
	return list(ctx, c.plan, "cursors.Members", func() iter.Seq2[delivery.Member, error] {
		return c.of.Members(ctx, s)
	})
}

// Save implements delivery.Cursors.
func (c *Cursors) Save(ctx context.Context, batches []delivery.Batch) error {
	return c.plan.do(ctx, "cursors.Save", func() error { return c.of.Save(ctx, batches) })
}

// Gaps implements delivery.Cursors.
func (c *Cursors) Gaps(ctx context.Context, id subscription.ID, limit int) ([]delivery.Gap, error) {
	return get(ctx, c.plan, "cursors.Gaps", func() ([]delivery.Gap, error) { return c.of.Gaps(ctx, id, limit) })
}

// Gapped implements delivery.Cursors.
func (c *Cursors) Gapped(ctx context.Context, s subscription.Shard) iter.Seq2[subscription.ID, error] {
	return list(ctx, c.plan, "cursors.Gapped", func() iter.Seq2[subscription.ID, error] {
		return c.of.Gapped(ctx, s)
	})
}

// Pings is a delivery.Pings that fails as the plan says.
type Pings struct {
	of   delivery.Pings
	plan *Plan
}

// NewPings wraps pings.
func NewPings(of delivery.Pings, plan *Plan) *Pings { return &Pings{of, plan} }

var _ delivery.Pings = (*Pings)(nil)

// Ping implements delivery.Pings.
func (p *Pings) Ping(ctx context.Context, topics []topic.Address) ([]delivery.Ping, error) {
	return get(ctx, p.plan, "pings.Ping", func() ([]delivery.Ping, error) { return p.of.Ping(ctx, topics) })
}

// Fetched implements delivery.Pings.
func (p *Pings) Fetched(ctx context.Context, ping delivery.Ping) (*delivery.Ping, error) {
	return get(ctx, p.plan, "pings.Fetched", func() (*delivery.Ping, error) { return p.of.Fetched(ctx, ping) })
}

// Waiting implements delivery.Pings.
func (p *Pings) Waiting(ctx context.Context) iter.Seq2[delivery.Ping, error] {
	return list(ctx, p.plan, "pings.Waiting", func() iter.Seq2[delivery.Ping, error] {
		return p.of.Waiting(ctx)
	})
}

// Marks is a delivery.Marks that fails as the plan says.
type Marks struct {
	of   delivery.Marks
	plan *Plan
}

// NewMarks wraps marks. It returns nil for nil: an engine that one process has to
// itself has none.
func NewMarks(of delivery.Marks, plan *Plan) delivery.Marks {
	if of == nil {
		return nil
	}
	return &Marks{of, plan}
}

var _ delivery.Marks = (*Marks)(nil)

// Mark implements delivery.Marks.
func (m *Marks) Mark(ctx context.Context, t delivery.Tenure, lowest map[string]delivery.Seq) error {
	return m.plan.do(ctx, "marks.Mark", func() error { return m.of.Mark(ctx, t, lowest) })
}

// Lowest implements delivery.Marks.
func (m *Marks) Lowest(ctx context.Context, since time.Time) (lowest map[string]delivery.Seq, ok bool, err error) {
	err = m.plan.do(ctx, "marks.Lowest", func() error {
		lowest, ok, err = m.of.Lowest(ctx, since)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return lowest, ok, nil
}

// Sources is a source.Store that fails as the plan says.
type Sources struct {
	of   source.Store
	plan *Plan
}

// NewSources wraps a store of Sources.
func NewSources(of source.Store, plan *Plan) *Sources { return &Sources{of, plan} }

var _ source.Store = (*Sources)(nil)

// Add implements source.Store.
func (s *Sources) Add(ctx context.Context, one source.Source) error {
	return s.plan.do(ctx, "sources.Add", func() error { return s.of.Add(ctx, one) })
}

// Replace implements source.Store.
func (s *Sources) Replace(ctx context.Context, one source.Source) error {
	return s.plan.do(ctx, "sources.Replace", func() error { return s.of.Replace(ctx, one) })
}

// Delete implements source.Store.
func (s *Sources) Delete(ctx context.Context, name string) error {
	return s.plan.do(ctx, "sources.Delete", func() error { return s.of.Delete(ctx, name) })
}

// Get implements source.Store.
func (s *Sources) Get(ctx context.Context, name string) (source.Source, error) {
	return get(ctx, s.plan, "sources.Get", func() (source.Source, error) { return s.of.Get(ctx, name) })
}

// List implements source.Store.
func (s *Sources) List(ctx context.Context) ([]source.Source, error) {
	return get(ctx, s.plan, "sources.List", func() ([]source.Source, error) { return s.of.List(ctx) })
}

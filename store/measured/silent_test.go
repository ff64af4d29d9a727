package measured_test

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

// silent is an empty engine that fails with a given error.
type silent struct{ err error }

// silentSources is such a store of Sources.
type silentSources struct{ err error }

// nothing is a sequence of an error at most.
func nothing[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

func (s silent) Append(_ context.Context, _ delivery.Publication, _ uuid.UUID, _ time.Time) (delivery.Receipt, error) {
	return delivery.Receipt{}, s.err
}

func (s silent) Read(_ context.Context, _ string, _ delivery.Seq) (*delivery.Notification, error) {
	return nil, s.err
}

func (s silent) Summaries(_ context.Context, _ string, _ delivery.Seq, _ int) ([]delivery.Summary, error) {
	return nil, s.err
}

func (s silent) Summary(_ context.Context, _ string, _ delivery.Seq) (delivery.Summary, error) {
	return delivery.Summary{}, s.err
}

func (s silent) Heads(_ context.Context, _ []string) ([]delivery.Seq, error) {
	return nil, s.err
}

func (s silent) Trim(_ context.Context, _ string, _ delivery.Seq, _ time.Time) (delivery.Trimmed, error) {
	return delivery.Trimmed{}, s.err
}

func (s silent) Shrink(_ context.Context, _ string, _ int64, _ delivery.Seq, _ time.Time) (delivery.Trimmed, error) {
	return delivery.Trimmed{}, s.err
}

func (s silent) State(_ context.Context, _ string) (delivery.TopicState, error) {
	return delivery.TopicState{}, s.err
}

func (s silent) Keys(_ context.Context) iter.Seq2[string, error] { return nothing[string](s.err) }

func (s silent) Topics(_ context.Context) iter.Seq2[delivery.TopicState, error] {
	return nothing[delivery.TopicState](s.err)
}

func (s silent) Ping(_ context.Context, _ []topic.Address) ([]delivery.Ping, error) {
	return nil, s.err
}

func (s silent) Fetched(_ context.Context, _ delivery.Ping) (left *delivery.Ping, err error) {
	return nil, s.err
}

func (s silent) Waiting(_ context.Context) iter.Seq2[delivery.Ping, error] {
	return nothing[delivery.Ping](s.err)
}

func (s silent) Members(_ context.Context, _ subscription.Shard) iter.Seq2[delivery.Member, error] {
	return nothing[delivery.Member](s.err)
}

func (s silent) Save(_ context.Context, _ []delivery.Batch) error {
	return s.err
}

func (s silent) Gaps(_ context.Context, _ subscription.ID, _ int) ([]delivery.Gap, error) {
	return nil, s.err
}

func (s silent) Gapped(_ context.Context, _ subscription.Shard) iter.Seq2[subscription.ID, error] {
	return nothing[subscription.ID](s.err)
}

func (s silent) Mark(_ context.Context, _ delivery.Tenure, _ map[string]delivery.Seq) error {
	return s.err
}

func (s silent) Lowest(_ context.Context, _ time.Time) (lowest map[string]delivery.Seq, ok bool, err error) {
	return nil, false, s.err
}

func (s silent) KeepStart(context.Context, subscription.Request, uint64) (subscription.Request, error) {
	return subscription.Request{}, s.err
}

func (s silent) Submit(_ context.Context, _ subscription.Request) error {
	return s.err
}

func (s silent) Requests(_ context.Context, _ subscription.Shard) iter.Seq2[subscription.Request, error] {
	return nothing[subscription.Request](s.err)
}

func (s silent) Request(_ context.Context, _ subscription.ID) (subscription.Request, error) {
	return subscription.Request{}, s.err
}

func (s silent) Activate(_ context.Context, _ subscription.Request, _ subscription.Subscription) error {
	return s.err
}

func (s silent) Drop(_ context.Context, _ subscription.Request) error {
	return s.err
}

func (s silent) Unsubscribe(_ context.Context, _ subscription.Request) error {
	return s.err
}

func (s silent) Remove(_ context.Context, _ subscription.Subscription) (removed bool, err error) {
	return false, s.err
}

func (s silent) Get(_ context.Context, _ subscription.ID) (subscription.Subscription, error) {
	return subscription.Subscription{}, s.err
}

func (s silent) Expired(_ context.Context, _ subscription.Shard, _ time.Time, _ int) ([]subscription.Subscription, error) {
	return nil, s.err
}

func (s silentSources) Add(_ context.Context, _ source.Source) error {
	return s.err
}

func (s silentSources) Replace(_ context.Context, _ source.Source) error {
	return s.err
}

func (s silentSources) Delete(_ context.Context, _ string) error {
	return s.err
}

func (s silentSources) Get(_ context.Context, _ string) (source.Source, error) {
	return source.Source{}, s.err
}

func (s silentSources) List(_ context.Context) ([]source.Source, error) {
	return nil, s.err
}

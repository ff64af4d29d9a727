package measured

import (
	"context"
	"iter"
	"time"

	"carillon/source"
	"carillon/subscription"
)

type requests struct {
	subscription.Store
	calls *Calls
}

// Subscriptions are the engine's, measured.
func (c *Calls) Subscriptions(s subscription.Store) subscription.Store { return requests{s, c} }

func (s requests) Submit(ctx context.Context, r subscription.Request) error {
	began := time.Now()
	err := s.Store.Submit(ctx, r)
	s.calls.done(requestsSubmit, began, err)
	return err
}

func (s requests) KeepStart(ctx context.Context, r subscription.Request, start uint64) (subscription.Request, error) {
	began := time.Now()
	kept, err := s.Store.KeepStart(ctx, r, start)
	s.calls.done(requestsKeepStart, began, err)
	return kept, err
}

func (s requests) Requests(ctx context.Context, shard subscription.Shard) iter.Seq2[subscription.Request, error] {
	return sequence(s.calls, requestsRequests, s.Store.Requests(ctx, shard))
}

func (s requests) Request(ctx context.Context, id subscription.ID) (subscription.Request, error) {
	began := time.Now()
	r, err := s.Store.Request(ctx, id)
	s.calls.done(requestsRequest, began, err)
	return r, err
}

func (s requests) Activate(ctx context.Context, r subscription.Request, sub subscription.Subscription) error {
	began := time.Now()
	err := s.Store.Activate(ctx, r, sub)
	s.calls.done(requestsActivate, began, err)
	return err
}

func (s requests) Drop(ctx context.Context, r subscription.Request) error {
	began := time.Now()
	err := s.Store.Drop(ctx, r)
	s.calls.done(requestsDrop, began, err)
	return err
}

func (s requests) Unsubscribe(ctx context.Context, r subscription.Request) error {
	began := time.Now()
	err := s.Store.Unsubscribe(ctx, r)
	s.calls.done(requestsUnsubscribe, began, err)
	return err
}

func (s requests) Remove(ctx context.Context, sub subscription.Subscription) (bool, error) {
	began := time.Now()
	removed, err := s.Store.Remove(ctx, sub)
	s.calls.done(requestsRemove, began, err)
	return removed, err
}

func (s requests) Get(ctx context.Context, id subscription.ID) (subscription.Subscription, error) {
	began := time.Now()
	sub, err := s.Store.Get(ctx, id)
	s.calls.done(requestsGet, began, err)
	return sub, err
}

func (s requests) Expired(ctx context.Context, shard subscription.Shard, now time.Time, limit int) ([]subscription.Subscription, error) {
	began := time.Now()
	subs, err := s.Store.Expired(ctx, shard, now, limit)
	s.calls.done(requestsExpired, began, err)
	return subs, err
}

type sources struct {
	source.Store
	calls *Calls
}

// Sources are the engine's, measured.
func (c *Calls) Sources(s source.Store) source.Store { return sources{s, c} }

func (s sources) Add(ctx context.Context, one source.Source) error {
	began := time.Now()
	err := s.Store.Add(ctx, one)
	s.calls.done(sourcesAdd, began, err)
	return err
}

func (s sources) Replace(ctx context.Context, one source.Source) error {
	began := time.Now()
	err := s.Store.Replace(ctx, one)
	s.calls.done(sourcesReplace, began, err)
	return err
}

func (s sources) Delete(ctx context.Context, name string) error {
	began := time.Now()
	err := s.Store.Delete(ctx, name)
	s.calls.done(sourcesDelete, began, err)
	return err
}

func (s sources) Get(ctx context.Context, name string) (source.Source, error) {
	began := time.Now()
	one, err := s.Store.Get(ctx, name)
	s.calls.done(sourcesGet, began, err)
	return one, err
}

func (s sources) List(ctx context.Context) ([]source.Source, error) {
	began := time.Now()
	all, err := s.Store.List(ctx)
	s.calls.done(sourcesList, began, err)
	return all, err
}

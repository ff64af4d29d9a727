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

func (s requests) Submit(ctx context.Context, r subscription.Request) (err error) {
	defer s.calls.done(requestsSubmit, time.Now(), &err)
	return s.Store.Submit(ctx, r)
}

func (s requests) KeepStart(
	ctx context.Context, r subscription.Request, start uint64,
) (_ subscription.Request, err error) {
	defer s.calls.done(requestsKeepStart, time.Now(), &err)
	return s.Store.KeepStart(ctx, r, start)
}

func (s requests) Requests(ctx context.Context, shard subscription.Shard) iter.Seq2[subscription.Request, error] {
	return sequence(s.calls, requestsRequests, s.Store.Requests(ctx, shard))
}

func (s requests) Request(
	ctx context.Context, id subscription.ID,
) (_ subscription.Request, err error) {
	defer s.calls.done(requestsRequest, time.Now(), &err)
	return s.Store.Request(ctx, id)
}

func (s requests) Activate(ctx context.Context, r subscription.Request, sub subscription.Subscription) (err error) {
	defer s.calls.done(requestsActivate, time.Now(), &err)
	return s.Store.Activate(ctx, r, sub)
}

func (s requests) Drop(ctx context.Context, r subscription.Request) (err error) {
	defer s.calls.done(requestsDrop, time.Now(), &err)
	return s.Store.Drop(ctx, r)
}

func (s requests) Unsubscribe(ctx context.Context, r subscription.Request) (err error) {
	defer s.calls.done(requestsUnsubscribe, time.Now(), &err)
	return s.Store.Unsubscribe(ctx, r)
}

func (s requests) Remove(ctx context.Context, sub subscription.Subscription) (_ bool, err error) {
	defer s.calls.done(requestsRemove, time.Now(), &err)
	return s.Store.Remove(ctx, sub)
}

func (s requests) Get(
	ctx context.Context, id subscription.ID,
) (_ subscription.Subscription, err error) {
	defer s.calls.done(requestsGet, time.Now(), &err)
	return s.Store.Get(ctx, id)
}

func (s requests) Expired(
	ctx context.Context, shard subscription.Shard, now time.Time, limit int,
) (_ []subscription.Subscription, err error) {
	defer s.calls.done(requestsExpired, time.Now(), &err)
	return s.Store.Expired(ctx, shard, now, limit)
}

type sources struct {
	source.Store
	calls *Calls
}

// Sources are the engine's, measured.
func (c *Calls) Sources(s source.Store) source.Store { return sources{s, c} }

func (s sources) Add(ctx context.Context, one source.Source) (err error) {
	defer s.calls.done(sourcesAdd, time.Now(), &err)
	return s.Store.Add(ctx, one)
}

func (s sources) Replace(ctx context.Context, one source.Source) (err error) {
	defer s.calls.done(sourcesReplace, time.Now(), &err)
	return s.Store.Replace(ctx, one)
}

func (s sources) Delete(ctx context.Context, name string) (err error) {
	defer s.calls.done(sourcesDelete, time.Now(), &err)
	return s.Store.Delete(ctx, name)
}

func (s sources) Get(ctx context.Context, name string) (_ source.Source, err error) {
	defer s.calls.done(sourcesGet, time.Now(), &err)
	return s.Store.Get(ctx, name)
}

func (s sources) List(ctx context.Context) (_ []source.Source, err error) {
	defer s.calls.done(sourcesList, time.Now(), &err)
	return s.Store.List(ctx)
}

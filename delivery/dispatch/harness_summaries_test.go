package dispatch_test

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"carillon/delivery"
	"carillon/subscription"
)

func summaryOf(n *delivery.Notification) delivery.Summary {
	return delivery.Summary{
		Seq: n.Seq, After: n.After, ID: n.ID, Accepted: n.Accepted,
		ContentType: n.ContentType, From: n.From, Until: n.Until, Bytes: int64(len(n.Body)),
	}
}

func (e *engine) Summaries(_ context.Context, key string, before delivery.Seq, limit int) (list []delivery.Summary, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.readErr != nil {
		return nil, e.readErr
	}
	for _, n := range slices.Backward(e.logs[key]) {
		if n != nil && (before == 0 || n.Seq < before) && len(list) < limit {
			list = append(list, summaryOf(n))
		}
	}
	return list, nil
}

func (e *engine) Summary(_ context.Context, key string, from delivery.Seq) (delivery.Summary, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.readErr != nil {
		return delivery.Summary{}, e.readErr
	}
	for _, n := range e.logs[key] {
		if n != nil && n.Seq >= from {
			return summaryOf(n), nil
		}
	}
	return delivery.Summary{}, delivery.ErrEndOfLog
}

func (e *engine) State(ctx context.Context, key string) (delivery.TopicState, error) {
	for state, err := range e.Topics(ctx) {
		if err != nil || state.Topic == key {
			return state, err
		}
	}
	return delivery.TopicState{Topic: key, First: 1}, nil
}

func (e *engine) Keys(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for state, err := range e.Topics(ctx) {
			if !yield(state.Topic, err) {
				return
			}
		}
	}
}

// latestGaps are a subscription's, newest first, the last of each First; mu held.
func (e *engine) latestGaps(id subscription.ID) (gaps []delivery.Gap) {
	at := map[delivery.Seq]int{}
	for _, g := range e.gaps {
		if g.Subscription != id {
			continue
		}
		if i, known := at[g.First]; known {
			gaps[i] = g
			continue
		}
		at[g.First] = len(gaps)
		gaps = append(gaps, g)
	}
	slices.SortFunc(gaps, func(a, b delivery.Gap) int { return cmp.Compare(b.First, a.First) })
	return gaps
}

func (e *engine) Gapped(_ context.Context, s subscription.Shard) iter.Seq2[subscription.ID, error] {
	return func(yield func(subscription.ID, error) bool) {
		e.mu.Lock()
		err := e.readErr
		var gapped []subscription.ID
		for id := range e.subs {
			left := func(g delivery.Gap) bool { return g.Replayed.IsZero() }
			if subscription.ShardOf(id) == s && slices.ContainsFunc(e.latestGaps(id), left) {
				gapped = append(gapped, id)
			}
		}
		e.mu.Unlock()
		if err != nil {
			yield(subscription.ID{}, err)
			return
		}
		for _, id := range gapped {
			if !yield(id, nil) {
				return
			}
		}
	}
}

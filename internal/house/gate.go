package house

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
	"carillon/topic"
)

// gate keeps the store from taking anything in before it was checked: a server that answers may
// be one on which nothing is kept. Only what a request does comes before that, and it ends in one
// of three calls.
func (a *attachment) gate() {
	a.Subscriptions = gatedRequests{a.Subscriptions, a}
	a.Log = gatedLog{a.Log, a}
	a.Pings = gatedPings{a.Pings, a}
}

type gatedRequests struct {
	subscription.Store
	store *attachment
}

func (s gatedRequests) Submit(ctx context.Context, r subscription.Request) error {
	if err := s.store.closed(); err != nil {
		return err
	}
	return s.Store.Submit(ctx, r)
}

type gatedLog struct {
	delivery.Log
	store *attachment
}

func (l gatedLog) Append(
	ctx context.Context, p delivery.Publication, id uuid.UUID, accepted time.Time,
) (delivery.Receipt, error) {
	if err := l.store.closed(); err != nil {
		return delivery.Receipt{}, err
	}
	return l.Log.Append(ctx, p, id, accepted)
}

type gatedPings struct {
	delivery.Pings
	store *attachment
}

func (p gatedPings) Ping(ctx context.Context, topics []topic.Address) ([]delivery.Ping, error) {
	if err := p.store.closed(); err != nil {
		return nil, err
	}
	return p.Pings.Ping(ctx, topics)
}

// gatedChangeMemory is read only where the store was checked: every reading begins with the state of
// its log.
type gatedChangeMemory struct {
	delivery.Log
	store *attachment
}

// State implements hub.Memory.
func (m gatedChangeMemory) State(ctx context.Context, key string) (delivery.TopicState, error) {
	if err := m.store.closed(); err != nil {
		return delivery.TopicState{}, err
	}
	return m.Log.State(ctx, key)
}

package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

// gate keeps the store from taking anything in before it was checked: a server
// that answers may be one on which nothing is kept. Only what a request does comes
// before that, and it ends in one of these three calls.
type gate struct{ h *house }

// closed returns why nothing may be taken in: subscription.ErrUnavailable.
func (g gate) closed() error {
	if missing := g.h.missing.Load(); missing != nil {
		return *missing
	}
	return nil
}

type gatedRequests struct {
	subscription.Store
	gate
}

func (s gatedRequests) Submit(ctx context.Context, r subscription.Request) error {
	if err := s.closed(); err != nil {
		return err
	}
	return s.Store.Submit(ctx, r)
}

type gatedLog struct {
	delivery.Log
	gate
}

func (l gatedLog) Append(ctx context.Context, p delivery.Publication, id uuid.UUID, accepted time.Time) (delivery.Receipt, error) {
	if err := l.closed(); err != nil {
		return delivery.Receipt{}, err
	}
	return l.Log.Append(ctx, p, id, accepted)
}

type gatedPings struct {
	delivery.Pings
	gate
}

func (p gatedPings) Ping(ctx context.Context, topics []string) ([]delivery.Ping, error) {
	if err := p.closed(); err != nil {
		return nil, err
	}
	return p.Pings.Ping(ctx, topics)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"carillon/admin"
	"carillon/subscription"
)

// admin is the operator's listener.
func (h *house) admin() http.Handler {
	return admin.Handler(admin.Config{
		Checks: []admin.Check{
			{Name: "hub", Ready: h.notStopping},
			{Name: "store", Ready: h.storeReady},
			{Name: "deliveries", Ready: h.deliveriesReady},
		},
		Warnings: h.store.Warnings,
		Metrics:  h.metrics,
		Logger:   h.logger,
	})
}

func (h *house) notStopping(context.Context) error {
	if h.stopping.Load() {
		return errors.New("it is stopping")
	}
	return nil
}

// storeReady reads a subscription that does not exist.
func (h *house) storeReady(ctx context.Context) error {
	if missing := h.missing.Load(); missing != nil {
		return *missing
	}
	_, err := h.store.Subscriptions.Get(ctx, subscription.ID{})
	if errors.Is(err, subscription.ErrNotFound) {
		return nil
	}
	return err
}

func (h *house) deliveriesReady(context.Context) error {
	held, loading, until := h.holder.counts()
	switch {
	case h.missing.Load() != nil:
		return errors.New("they wait for the store")
	case h.store.Listen == nil && held < subscription.Shards:
		return fmt.Errorf("subscriptions are being loaded: %d of %d shards", held, subscription.Shards)
	case h.store.Listen != nil && until.IsZero():
		return errors.New("joining the other processes")
	case h.store.Listen != nil && !time.Now().Before(until):
		return errors.New("the store did not confirm in time that this process still takes part; it joins again by itself")
	case loading > 0:
		return fmt.Errorf("subscriptions are being loaded: %d shards to go", loading)
	case held == 0:
		return errors.New("the other processes have not handed over a part of the work yet")
	case h.dispatcher.Stats().Paused:
		return errors.New("deliveries pause because the store fails; they go on by themselves")
	}
	return nil
}

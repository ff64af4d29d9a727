package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"carillon/cmd/internal/program"
	"carillon/delivery"
	"carillon/operator/api"
	"carillon/operator/page"
	"carillon/subscription"
)

// admin is the operator's listener. Streams end when stopping is closed.
func (h *house) admin(stopping <-chan struct{}) http.Handler {
	return api.Handler(api.Config{
		Checks:   h.checks(),
		Warnings: h.warnings,
		Metrics:  h.metrics,
		Desk:     h.desk,
		Pages: page.New(page.Config{
			Desk: h.desk, Version: program.Version, Open: h.sources == nil, Level: h.level, Auth: h.auth, Stopping: stopping, Logger: h.logger,
		}),
		Auth:     h.auth,
		Profiles: h.profiles,
		Version:  program.Version, Publishers: h.mode(),
		Level:    h.level,
		Stopping: stopping,
		Logger:   h.logger,
	})
}

// checks are those of /readyz.
func (h *house) checks() []api.Check {
	return []api.Check{
		{Name: "hub", Ready: h.notStopping},
		{Name: "store", Ready: h.storeReady},
		{Name: "deliveries", Ready: h.deliveriesReady},
	}
}

// warnings are what the operator must know of the store, of the certificates, of his token,
// of files that others can read, and of the proxy.
func (h *house) warnings() []string {
	all := append(h.listeners().Warnings(), h.store.Warnings()...)
	all = append(all, h.token.Warnings()...)
	all = append(all, h.around.warnings()...)
	all = append(all, h.chosen...)
	if warning := h.back.Warning(); warning != "" {
		all = append(all, warning)
	}
	if warning := h.proxy.Warning(); warning != "" {
		all = append(all, warning)
	}
	return all
}

func (h *house) notStopping(context.Context) error {
	if h.stopping.Load() {
		return errors.New("it is stopping")
	}
	return nil
}

// storeReady asks the store, at most once a second for all strangers together.
func (h *house) storeReady(ctx context.Context) error {
	if missing := h.missing.Load(); missing != nil {
		return *missing
	}
	return h.asked.Ask(ctx, h.askStore)
}

// askStore reads a subscription that does not exist.
func (h *house) askStore(ctx context.Context) error {
	var nobody subscription.ID
	_, err := h.store.Subscriptions.Get(ctx, nobody)
	if errors.Is(err, subscription.ErrNotFound) {
		return nil
	}
	// The rest serves, which others could not do better; Warnings tell of the part.
	if _, until := h.holder.counts(); errors.Is(err, delivery.ErrPartAway) && time.Now().Before(until) {
		return nil
	}
	// Whom the store was asked for tells the operator nothing.
	for cause := err; cause != nil && strings.Contains(err.Error(), nobody.String()); cause = errors.Unwrap(cause) {
		err = cause
	}
	return err
}

// deliveriesReady is nil once this process has loaded its part of the subscriptions,
// as long as it may deliver.
func (h *house) deliveriesReady(context.Context) error {
	fair, joined := h.store.Fair()
	held, until := h.holder.counts()
	if joined && held >= fair {
		// From now on: what it takes over from another is loaded beside its work.
		h.loaded.Store(true)
	}
	switch {
	case h.missing.Load() != nil:
		return errors.New("they wait for the store")
	case h.store.Listen != nil && until.IsZero():
		return errors.New("joining the other processes")
	case h.store.Listen != nil && !time.Now().Before(until):
		return errors.New("the store did not confirm in time that this process still takes part; it joins again by itself")
	case !h.loaded.Load():
		return fmt.Errorf("subscriptions are being loaded or handed over by other processes: %d of %d shards", held, fair)
	case h.dispatcher.Stats().Paused:
		return errors.New("deliveries pause because the store fails; they go on by themselves")
	}
	return nil
}

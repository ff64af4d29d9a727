package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/destination/lists"
	"carillon/destination/mirror"
)

// mirrored has a mirror take the changes.
func (h *following) mirrored(ctx context.Context) (outlet, error) {
	h.dump = h.Dump
	m, err := h.mirrorFlags.open(h.places.start, h.places.client, h.store, false, h.logger)
	if err != nil {
		return outlet{}, err
	}
	err = mustBeFree(m)
	anew := false
	if err == nil {
		anew, err = h.startAnew(ctx, m)
	}
	if err != nil {
		return outlet{}, errors.Join(err, m.Close())
	}
	p, err := h.publishFlags.open(ctx, h.store, h.logger)
	if err != nil {
		return outlet{}, errors.Join(err, m.Close())
	}
	end := showProgress("follow", m, h.surroundings)
	return outlet{
		taker:    settlingTaker{m, h.settled},
		anew:     anew,
		baseline: beginning{mirror.Baselines{Mirror: m, From: settlingLists{h.places.client, h.settled}, Set: h.set}, m},
		before:   func(ctx context.Context) { h.byDump(ctx, m, anew) },
		run: func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return m.Run(ctx) })
			if p != nil {
				g.Go(func() error { return p.Run(ctx) })
			}
			return g.Wait()
		},
		close: func() error {
			end()
			return errors.Join(h.standing(m), m.Close())
		},
	}, nil
}

// set is what the Source offers, with the Change List that the flags say.
func (h *following) set(ctx context.Context) (lists.Set, error) {
	set, err := h.places.set(ctx)
	if err != nil {
		return set, err
	}
	set.ChangeList, err = h.places.ChangeList(ctx)
	return set, err
}

// standing tells at the end how the copies stand, if they are not too many to count.
func (h *following) standing(m *mirror.Mirror) error {
	const within = time.Second // the end waits for it
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	all, _, err := m.Standing(ctx, 0)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	h.logger.Info("how the copies stand", "whole", all[mirror.Whole], "missing", all[mirror.Missing],
		"failed", all[mirror.Failed], "kept", all[mirror.Gone], "outside", all[mirror.Refused],
		"invalid", all[mirror.Invalid], "fetched", m.Progress().Fetched, "from_packages", m.Progress().Unpacked)
	if h.Publish == "" {
		return nil
	}
	out, err := h.store.Outbox().Standing(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	h.logger.Info("what is published of the copies",
		"published", out.Published, "waiting", out.Waiting, "refused", out.Refused)
	return nil
}

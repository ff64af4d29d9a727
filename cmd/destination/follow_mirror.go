package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/mirror"
)

// mirrored has a mirror take the changes.
func (h *following) mirrored(ctx context.Context) (outlet, error) {
	h.dump = h.Dump
	m, err := h.mirrorFlags.open(h.locator.start, h.locator.client, h.store, false, h.logger)
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
		handler: settlingHandler{m, h.settled},
		anew:    anew,
		baseline: beginning{
			mirror.Baselines{Mirror: m, From: settlingLists{h.locator.client, h.settled}, Set: h.set}, m,
		},
		before: func(ctx context.Context) { h.byDump(ctx, m, anew) },
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
			return errors.Join(h.logCounts(m), m.Close())
		},
	}, nil
}

// startAnew reports whether a mirror is to begin with a baseline although there is a position: changes
// were handed on to another receiver up to there. With another --start it begins without.
func (h *following) startAnew(ctx context.Context, m *mirror.Mirror) (bool, error) {
	begun, err := m.Begun(ctx)
	if err != nil || begun {
		return false, err
	}
	if start, _, _ := h.begin(); start != follow.StartBaseline {
		return false, m.Begin(ctx)
	}
	return true, nil
}

// beginning records that the copies of a mirror were begun, when a baseline was taken.
type beginning struct {
	follow.Baseliner
	mirror *mirror.Mirror
}

// Baseline implements follow.Baseliner.
func (b beginning) Baseline(ctx context.Context) (time.Time, error) {
	at, err := b.Baseliner.Baseline(ctx)
	if err == nil {
		err = b.mirror.Begin(ctx)
	}
	return at, err
}

// byDump takes the changes since the last run from the Change Dump, where so many are pending that
// this is worth it. Then it removes packages that an earlier command has left. The follower reads the
// other changes from the Change List. A mirror that begins with a baseline is left to that: it uses
// the packages that are there, and removes them.
func (h *following) byDump(ctx context.Context, m *mirror.Mirror, anew bool) {
	from, err := h.store.Following().Position(ctx)
	start, _, _ := h.begin() // Validate has read it
	switch begins := anew || from.At.IsZero(); {
	case err == nil && begins && start == follow.StartBaseline:
		return
	case err == nil && !begins && !from.Assumed:
		err = h.changeDump(ctx, m, from)
	}
	if ctx.Err() != nil {
		return // the follower ends; the next run goes on with the packages
	}
	if err != nil {
		h.logger.Warn("no changes are taken from the Change Dump", "error", err)
	}
	if err := m.EndDumps(); err != nil {
		h.logger.Warn("packages of dumps cannot be removed", "error", err)
	}
}

// changeDump takes the changes from a position on from the Change Dump, and moves the position.
func (h *following) changeDump(ctx context.Context, m *mirror.Mirror, from follow.Position) error {
	set, err := h.set(ctx)
	if err != nil {
		return err
	}
	p := &pull{
		pullFlags: &pullFlags{mirrorFlags: h.mirrorFlags}, surroundings: h.surroundings,
		client: h.locator.client, set: set, store: h.store, mirror: m,
	}
	t := pending{ctx: ctx, to: m, limit: latest()}
	t.reach(from)
	if err := p.fromDump(ctx, from, &t); err != nil || !t.at.At.After(from.At) {
		return err
	}
	h.logger.Info("caught up by the Change Dump", "position", t.at.At)
	return p.advance(ctx, t.at)
}

// set is what the Source offers, with the Change List that the flags say.
func (h *following) set(ctx context.Context) (lists.Set, error) {
	set, err := h.locator.set(ctx)
	if err != nil {
		return set, err
	}
	set.ChangeList, err = h.locator.ChangeList(ctx)
	return set, err
}

// logCounts logs at the end the counts of the copies, if they are not too many to count.
func (h *following) logCounts(m *mirror.Mirror) error {
	const within = time.Second // the end waits for it
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	all, _, err := m.Counts(ctx, 0)
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
	out, err := h.store.Outbox().Counts(ctx)
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

package main

import (
	"context"

	"carillon/destination/follow"
	"carillon/destination/mirror"
)

// byDump takes what the Change Dump has of the changes since the last run, where so many are
// pending that this is worth it. Then it removes packages that an earlier command has left. What a
// Change Dump does not bring, the follower reads from the Change List. A mirror that begins with a
// baseline is left to that: it uses the packages that are there, and removes them.
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
		mirrorFlags: &h.mirrorFlags, surroundings: h.surroundings,
		client: h.places.client, set: set, store: h.store, mirror: m,
	}
	t := taking{ctx: ctx, to: m, limit: latest()}
	t.reach(from)
	if err := p.fromDump(ctx, from, &t); err != nil || !t.at.At.After(from.At) {
		return err
	}
	h.logger.Info("caught up by the Change Dump", "position", t.at.At)
	return p.advance(ctx, t.at)
}

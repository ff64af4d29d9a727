package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/internal/legible"
	"carillon/payload"
)

// manyChanges is from how many pending changes on a Change Dump is used: below it a package may hold
// far more than is needed.
const manyChanges = 1000

// errMany ends the counting of pending changes.
var errMany = errors.New("many changes are pending")

// fromDump takes what the Change Dump has of the changes after a position, where it is to be used,
// and returns how far that goes.
func (p *pull) fromDump(ctx context.Context, from follow.Position, t *pending) error {
	switch worth, err := p.worthDump(ctx, from); {
	case err != nil || !worth:
		return err
	}
	bundles := bundling{p: p, t: t, since: from.At, sure: t.at}
	covered, err := p.client.ChangeDump(
		ctx, p.set.ChangeDump, from.At, func(one lists.Package) error { return bundles.store(ctx, one) },
	)
	if closed := bundles.next(ctx, time.Time{}); closed != nil {
		return closed
	}
	if err == nil {
		t.cover(covered)
		return nil
	}
	if p.dump == mirror.DumpOnly || p.set.ChangeList == "" || bundles.fault != nil || ctx.Err() != nil {
		return err
	}
	t.reach(bundles.sure)
	p.logger.Warn(
		"the Change Dump is not used any further: changes are taken from the Change List",
		"position", t.at.At, "error", legible.Cut(err.Error()),
	)
	return nil
}

// worthDump reports whether the Change Dump is to be used.
func (p *pull) worthDump(ctx context.Context, from follow.Position) (bool, error) {
	switch {
	case p.set.ChangeDump == "" && p.dump == mirror.DumpOnly:
		return false, fmt.Errorf("%w: a Change Dump", lists.ErrNone)
	case p.set.ChangeDump == "" || p.dump == mirror.DumpNever || p.dump == "":
		return false, nil
	case p.dump == mirror.DumpOnly || p.set.ChangeList == "":
		return true, nil
	}
	pending := 0
	_, err := p.client.Changes(ctx, p.set.ChangeList, from.At, func(payload.Entry) error {
		if pending++; pending >= manyChanges {
			return errMany
		}
		return nil
	})
	p.client.Forget() // the counted changes were not taken
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	// Where the Change Lists do not reach back, the dump may.
	return errors.Is(err, errMany) || errors.Is(err, lists.ErrGone), nil
}

// bundling takes the packages of a Change Dump, one after the other.
type bundling struct {
	p *pull
	t *pending
	// since is where the reading began: earlier changes were taken. The packages need not be in the order
	// of their changes.
	since time.Time
	// sure is up to where nothing is missing, if the dump is not used any further, or the process ends.
	// last is the last package that was taken, and its end, if it has one.
	sure  follow.Position
	last  *mirror.Bundle
	until time.Time
	// fault is trouble of the mirror itself.
	fault error
}

func (b *bundling) store(ctx context.Context, one lists.Package) error {
	if b.fault = b.next(ctx, one.From); b.fault != nil {
		return b.fault
	}
	bundle, err := b.p.mirror.OpenChanges(ctx, one)
	if err != nil {
		if !errors.Is(err, mirror.ErrUnusable) {
			b.fault = err
		}
		return err
	}
	b.t.to = bundle
	for i := range bundle.Entries {
		e := &bundle.Entries[i]
		if !e.Datetime.IsZero() && lists.Latest(e).Before(b.since) {
			continue // it was taken
		}
		if b.fault == nil {
			b.fault = b.t.visit(*e)
		}
	}
	if b.fault == nil {
		b.fault = b.t.flush()
	}
	b.t.to, bundle.Entries = b.p.mirror, nil
	b.last, b.until = bundle, one.Until
	return b.fault
}

// next ends the use of the last package. Where the next begins when it ends, or later, nothing is
// missing up to there, and the next run goes on from there.
func (b *bundling) next(ctx context.Context, from time.Time) error {
	last := b.last
	if b.last = nil; last == nil {
		return nil
	}
	if b.until.IsZero() || from.Before(b.until) || !b.until.After(b.sure.At) || b.until.After(b.t.limit) {
		return last.Close()
	}
	b.sure = follow.Position{At: b.until}
	return errors.Join(b.p.advance(ctx, b.sure), last.Discard())
}

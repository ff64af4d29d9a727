package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/payload"
)

// baselineDumpFlag and incrementalDumpFlag say when content is taken from packages.
type baselineDumpFlag struct {
	Dump mirror.DumpMode `default:"auto" enum:"auto,never,only" help:"Whether to take content from the Source's Resource Dump: auto does where more than half of the set is missing here, and fetches one by one what the dump lacks, has too old, or has wrong; never fetches each resource; only uses the dump, and nothing else is fetched (status 1 where something is missing)." group:"Mirror"`
}

type incrementalDumpFlag struct {
	Dump mirror.DumpMode `default:"auto" enum:"auto,never,only" help:"Whether to take changes with their content from the Source's Change Dump: auto does where 1000 changes or more are pending, and fetches one by one what the dump lacks, or has wrong; never reads Change Lists; only uses the dump, up to where it ends." group:"Mirror"`
}

// manyChanges is from how many pending changes on a Change Dump is used: below it a package may hold
// far more than is needed.
const manyChanges = 1000

// errMany ends the counting of pending changes.
var errMany = errors.New("many changes are pending")

// fromDump takes what the Change Dump has of the changes after a position, where it is to be used,
// and returns how far that goes.
func (p *pull) fromDump(ctx context.Context, from follow.Position, t *taking) error {
	switch worth, err := p.worthDump(ctx, from); {
	case err != nil || !worth:
		return err
	}
	bundles := bundling{p: p, t: t, since: from.At, sure: t.at}
	covered, err := p.client.ChangeDump(ctx, p.set.ChangeDump, from.At, func(one lists.Package) error { return bundles.take(ctx, one) })
	if err == nil {
		t.cover(covered)
		return nil
	}
	if p.dump == mirror.DumpOnly || p.set.ChangeList == "" || bundles.fault != nil || ctx.Err() != nil {
		return err
	}
	t.reach(bundles.sure)
	p.logger.Warn("the Change Dump is not used any further: changes are taken from the Change List", "position", t.at.At, "error", lists.Cut(err.Error()))
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
	p.client.Forget() // what was counted was not taken
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	// Where the Change Lists do not reach back, the dump may.
	return errors.Is(err, errMany) || errors.Is(err, lists.ErrGone), nil
}

// bundling takes the packages of a Change Dump, one after the other.
type bundling struct {
	p *pull
	t *taking
	// since is where the reading began: what is earlier was taken. The packages need not be in the
	// order of their changes.
	since time.Time
	// sure is up to where nothing is missing, if the dump is not used any further: packages that
	// do not tell when they end do not move it.
	sure follow.Position
	// fault is trouble of the mirror itself.
	fault error
}

func (b *bundling) take(ctx context.Context, one lists.Package) error {
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
	if closed := bundle.Close(); b.fault == nil {
		b.fault = closed
	}
	b.t.to = b.p.mirror
	if b.fault == nil && !one.Until.IsZero() {
		b.sure = b.t.at
	}
	return b.fault
}

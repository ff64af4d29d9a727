package main

import (
	"context"
	"errors"
	"fmt"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/payload"
)

// incrementalCommand takes what has changed since the last run.
type incrementalCommand struct {
	pullFlags `embed:""`
	Dump      mirror.DumpMode `default:"auto" enum:"auto,never,only" help:"Whether to take changes with their content from the Source's Change Dump. auto does where 1000 changes or more are pending, and fetches missing and wrong content one by one. never reads Change Lists. only uses the dump, up to where it ends." group:"Mirror"`
	Retries   int             `default:"3" help:"How often what failed is tried again before the command ends, each time after a longer wait." group:"Mirror" range:"0 or more"`
	Since     string          `placeholder:"DATETIME" env:"-" help:"Take the changes from this moment on. Default: from where the last baseline, incremental or follow has ended." group:"Source"`
	JSON      bool            `name:"json" help:"Print what became of it as an object of JSON." group:"Output"`
}

// Help says what the flags do not.
func (*incrementalCommand) Help() string {
	return "It reads the Source's Change Lists from where the last run ended, fetches what has changed, " +
		"and deletes or records what was deleted. It is for Sources without push; follow misses nothing " +
		"of those with it. Where the Change Lists do not reach back that far, a new baseline is needed, " +
		"and the exit status is 1."
}

// Validate is called when the flags are parsed.
func (c *incrementalCommand) Validate() error {
	all := []error{c.pullFlags.Validate(), checkRetries(c.Retries)}
	if c.Since != "" {
		at, err := payload.ParseDatetime(c.Since)
		if err != nil {
			err = fmt.Errorf("--since: %q is not a datetime such as 2026-01-02T03:04:05Z", c.Since)
		} else {
			err = notAhead("since", c.Since, at)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

func (c *incrementalCommand) run(ctx context.Context, in surroundings) (err error) {
	defer func() { err = stopped(ctx, "incremental", err) }()
	c.dump = c.Dump
	p, err := openPull(ctx, &c.pullFlags, false, in)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return err
	}
	if err := mustBeFree(p.mirror); err != nil {
		return fmt.Errorf("incremental: %w", err)
	}
	from, err := p.position(ctx, c.Since)
	if err != nil {
		return err
	}
	var to follow.Position
	held, err := p.bring(ctx, "incremental", c.Retries, func() (err error) {
		tooMany := p.mirror.Sweep(ctx)
		if tooMany != nil && !errors.Is(tooMany, mirror.ErrTooMany) {
			return tooMany
		}
		if to, err = p.increment(ctx, from); err != nil {
			return err
		}
		return tooMany
	})
	switch {
	case errors.Is(err, lists.ErrGone):
		return fmt.Errorf("incremental: %w: take a new baseline", err)
	case err != nil:
		return fmt.Errorf("incremental: %w", err)
	}
	if err := errors.Join(p.advance(ctx, to), p.mirror.EndDumps()); err != nil {
		return err
	}
	return errors.Join(p.summary(ctx, "incremental", c.JSON), held)
}

// position is where to begin.
func (p *pull) position(ctx context.Context, since string) (follow.Position, error) {
	if since != "" {
		at, err := payload.ParseDatetime(since)
		return follow.Position{At: at}, err
	}
	begun, err := p.mirror.Begun(ctx)
	var from follow.Position
	if err == nil {
		from, err = p.store.Following().Position(ctx)
	}
	if err == nil && (from.At.IsZero() || !begun) { // changes handed on to other receivers are not in the mirror
		err = errors.New("it is not known from when on changes are to be taken: " +
			"take a baseline first, or say it by --since")
	}
	if err == nil && from.At.After(latest()) {
		err = fmt.Errorf("changes were taken up to %s, which lies in the future: nothing would be taken "+
			"until then. If this clock is right take a new baseline, or say it by --since", payload.FormatDatetime(from.At))
	}
	return from, err
}

// increment takes the changes since a position, and returns up to where.
func (p *pull) increment(ctx context.Context, from follow.Position) (follow.Position, error) {
	t := pending{ctx: ctx, to: p.mirror, limit: latest()}
	t.reach(from)
	if err := p.fromDump(ctx, from, &t); err != nil {
		return from, err
	}
	switch {
	case p.set.ChangeList == "" && p.set.ChangeDump == "" || p.set.ChangeList == "" && p.dump == mirror.DumpNever:
		return from, fmt.Errorf("%w: a Change List", lists.ErrNone)
	case p.set.ChangeList == "" || p.dump == mirror.DumpOnly:
		return t.at, nil
	}
	covered, err := p.client.Changes(ctx, p.set.ChangeList, t.at.At, t.visit)
	if err = errors.Join(err, t.flush()); err != nil {
		return from, err
	}
	t.cover(covered)
	return t.at, nil
}

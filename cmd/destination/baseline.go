package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/destination/follow"
	"carillon/destination/mirror"
	"carillon/internal/legible"
	"carillon/payload"
)

// clockMargin is how far the clocks of a Source and of this machine may be apart. From a Source
// without a moment of its Resource List, changes are taken from so long before it was read.
const clockMargin = time.Hour

// baselineCommand has a mirror be what a Source's Resource List says.
type baselineCommand struct {
	pullFlags `embed:""`
	Dump      mirror.DumpMode `default:"auto" enum:"auto,never,only" help:"Whether to take content from the Source's Resource Dump. auto does where more than half of the set is missing here, and fetches missing, old and wrong content one by one. never fetches each resource. only uses the dump, and nothing else is fetched (status 1 where something is missing)." group:"Mirror"`
	At        string          `placeholder:"DATETIME|now" env:"-" help:"Bring the mirror to what the Source had at this moment, from its archives, and keep it there: no other command moves it on. now brings such a mirror to the present." group:"Source"`
	Retries   int             `default:"3" help:"How often what failed is tried again before the command ends, each time after a longer wait." group:"Mirror" range:"0 or more"`
	JSON      bool            `name:"json" help:"Print what became of it as an object of JSON." group:"Output"`
}

// Help says what the flags do not.
func (*baselineCommand) Help() string {
	return "It reads the Source's Resource List, and the Change List since, fetches new and changed resources, " +
		"and deletes or records missing ones. A failed fetch is tried again at the end, then recorded for the " +
		"next run, with exit status 1. A resource that its server does not have (404, 410) does not count. " +
		"Nothing is deleted for a Resource List that is not whole, or beyond --max-delete. With --at content " +
		"comes from dumps first, unless --dump never is given. A resource is taken only if its hash proves " +
		"that it is unchanged since that moment; the others are listed, and the exit status is 1."
}

// Validate is called when the flags are parsed.
func (c *baselineCommand) Validate() error {
	_, err := c.moment()
	return errors.Join(c.pullFlags.Validate(), checkRetries(c.Retries), err)
}

// moment is the --at that is a datetime; zero for none.
func (c *baselineCommand) moment() (time.Time, error) {
	if c.At == "" || c.At == now {
		return time.Time{}, nil
	}
	at, err := payload.ParseDatetime(c.At)
	switch {
	case err != nil || len(c.At) <= len("2006-01-02"):
		return at, fmt.Errorf("--at: %q is not a datetime with a time of day "+
			"such as 2026-01-02T03:04:05Z, nor %s", c.At, now)
	case at.After(time.Now()):
		return at, fmt.Errorf("--at: %s lies in the future; for the present give --at %s", c.At, now)
	}
	return at, nil
}

func (c *baselineCommand) run(ctx context.Context, in surroundings) (err error) {
	defer func() { err = stopped(ctx, "baseline", err) }()
	c.dump = c.Dump
	p, err := openPull(ctx, &c.pullFlags, false, in)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return err
	}
	if c.At != "" && c.At != now {
		return c.bringBack(ctx, p)
	}
	if c.At == now {
		err = p.mirror.LetGo()
	} else {
		err = mustBeFree(p.mirror)
	}
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	var seen mirror.Seen
	held, err := p.bring(ctx, "baseline", c.Retries, func() (err error) {
		seen, err = p.mirror.Baseline(ctx, p.client, p.set)
		return err
	})
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	if position, known := c.position(&seen, p); !known {
		held = errors.Join(held, fmt.Errorf("baseline: the Resource List does not tell of what moment "+
			"it is (core §10.1: at), and the Change List cannot be read: from when on changes are to be "+
			"taken is not known; take the baseline again: %w", seen.Unread))
	} else if err := p.advance(ctx, follow.Position{At: position}); err != nil {
		return err
	}
	return errors.Join(p.summary(ctx, "baseline", c.JSON), held)
}

// position is from when on changes are to be taken, if that is known.
func (*baselineCommand) position(seen *mirror.Seen, p *pull) (at time.Time, known bool) {
	switch {
	case !seen.Position.IsZero():
		return seen.Position, true
	case seen.Unread != nil:
		return at, false
	}
	at = p.begun.Add(-clockMargin).UTC().Truncate(time.Microsecond)
	p.logger.Warn(
		"the Source does not tell of what moment its Resource List is (core §10.1: at): changes are taken from an hour ago on",
		"position", at)
	return at, true
}

// bringBack has the mirror be what the Source had at --at.
func (c *baselineCommand) bringBack(ctx context.Context, p *pull) error {
	at, err := c.moment()
	if err != nil {
		return err
	}
	if p.set, err = p.client.WithArchives(ctx, p.set); err != nil {
		return fmt.Errorf("--source: %w", err)
	}
	var seen mirror.Seen
	held, err := p.bring(ctx, "baseline", c.Retries, func() (err error) {
		seen, err = p.mirror.BaselineAt(ctx, p.client, p.set, at)
		return err
	})
	if err != nil {
		return fmt.Errorf("baseline --at %s: %w", c.At, err)
	}
	p.logger.Info("the mirror is what the Source had at a moment, and is kept there",
		"at", at, "state_of", seen.At, "resources", seen.Entries, "changes_since", seen.Changes)
	if err := p.advance(ctx, follow.Position{At: at}); err != nil {
		return err
	}
	if err := c.listFailed(ctx, p); err != nil {
		return err
	}
	return errors.Join(p.summary(ctx, "baseline", c.JSON), held)
}

// listFailed prints every resource that is not as it was.
func (c *baselineCommand) listFailed(ctx context.Context, p *pull) error {
	return p.mirror.EachFailed(ctx, func(f *mirror.Copy) error {
		if c.JSON {
			return printJSON(p.stdout, struct {
				Loc    string `json:"not_as_it_was"`
				Reason string `json:"reason"`
			}{f.Loc, f.Reason})
		}
		if _, err := fmt.Fprintf(p.stdout, "not as it was %q: %s\n", f.Loc, legible.Line(f.Reason)); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		return nil
	})
}

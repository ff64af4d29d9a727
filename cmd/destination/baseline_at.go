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

// now is the --at that brings a mirror back to the present.
const now = "now"

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

// mustBeFree refuses to move a mirror on that is kept at a moment.
func mustBeFree(m *mirror.Mirror) error {
	at := m.Moment()
	if at.IsZero() {
		return nil
	}
	return fmt.Errorf("%w, %s, and is not moved on: bring it to the present by destination baseline "+
		"--at %s, or use another --mirror and --data", mirror.ErrKept, payload.FormatDatetime(at), now)
}

func (p *pull) mustBeFree() error { return mustBeFree(p.mirror) }

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

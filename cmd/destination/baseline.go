package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/payload"
)

// clockMargin is how far the clocks of a Source and of this machine may be apart. From a Source
// without a moment of its Resource List, changes are taken from so long before it was read.
const clockMargin = time.Hour

// baselineCommand has a mirror be what a Source's Resource List says.
type baselineCommand struct {
	sourceFlags      `embed:""`
	mirrorFlags      `embed:""`
	baselineDumpFlag `embed:""`
	At               string `placeholder:"DATETIME|now" env:"-" help:"Bring the mirror to what the Source had at this moment, from its archives, and keep it there: no other command moves it on. now brings such a mirror to the present." group:"Source"`
	Retries          int    `default:"3" help:"How often what failed is tried again before the command ends, each time after a longer wait." group:"Mirror" range:"0 or more"`
	JSON             bool   `name:"json" help:"Print what became of it as an object of JSON." group:"Output"`
}

// Help says what the flags do not.
func (*baselineCommand) Help() string {
	return "It reads the Source's Resource List, and the Change List since, fetches what is new or " +
		"differs, and deletes or records what is not there any more. What cannot be fetched is tried " +
		"again at the end, then recorded for the next run; the exit status is 1 then, but for what its " +
		"server does not have (404, 410). " +
		"Nothing is deleted for a Resource List that is not whole, or beyond --max-delete. " +
		"With --at content comes from dumps first, unless --dump never is given. A resource is taken " +
		"only if its hash proves that it is what it was; what cannot be had so is listed, and the exit " +
		"status is 1."
}

// Validate is called when the flags are parsed.
func (c *baselineCommand) Validate() error {
	_, err := c.moment()
	return errors.Join(c.sourceFlags.check(), c.mirrorFlags.check(), checkRetries(c.Retries), err)
}

func checkRetries(n int) error {
	if n < 0 {
		return fmt.Errorf("--retries must be 0 or more, not %d", n)
	}
	return nil
}

func (c *baselineCommand) run(ctx context.Context, in surroundings) (err error) {
	defer func() { err = stopped(ctx, "baseline", err) }()
	c.dump = c.Dump
	p, err := openPull(ctx, &c.sourceFlags, &c.mirrorFlags, false, in)
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
		err = p.mustBeFree()
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

// bring runs do, which brings the copies to another state, and shows its progress. Then it retries
// what failed. held says what do did not delete, where it did all else.
func (p *pull) bring(
	ctx context.Context, what string, retries int, do func() error,
) (held, err error) {
	end := showProgress(what, p.mirror, p.surroundings)
	defer end()
	err = do()
	if errors.Is(err, mirror.ErrNotWhole) || errors.Is(err, mirror.ErrTooMany) {
		held, err = fmt.Errorf("%s: %w", what, err), nil
	}
	if err == nil {
		err = p.mirror.Settle(ctx, retries)
	}
	return held, err
}

// stopped adds to the error of a command that was stopped in the middle how to go on.
func stopped(ctx context.Context, what string, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: it was stopped before its end (%w); "+
		"give the same command again, and it goes on with what is there", what, cause)
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

// incrementalCommand takes what has changed since the last run.
type incrementalCommand struct {
	sourceFlags         `embed:""`
	mirrorFlags         `embed:""`
	incrementalDumpFlag `embed:""`
	Retries             int    `default:"3" help:"How often what failed is tried again before the command ends, each time after a longer wait." group:"Mirror" range:"0 or more"`
	Since               string `placeholder:"DATETIME" env:"-" help:"Take the changes from this moment on. Default: from where the last baseline, incremental or follow has ended." group:"Source"`
	JSON                bool   `name:"json" help:"Print what became of it as an object of JSON." group:"Output"`
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
	all := []error{c.sourceFlags.check(), c.mirrorFlags.check(), checkRetries(c.Retries)}
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
	p, err := openPull(ctx, &c.sourceFlags, &c.mirrorFlags, false, in)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return err
	}
	if err := p.mustBeFree(); err != nil {
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
	if err == nil && (from.At.IsZero() || !begun) { // what was handed on to others is not in the mirror
		err = errors.New("it is not known from when on changes are to be taken: " +
			"take a baseline first, or say it by --since")
	}
	if err == nil && from.At.After(latest()) {
		err = fmt.Errorf("changes were taken up to %s, which lies in the future: nothing would be taken "+
			"until then. If this clock is right take a new baseline, or say it by --since", payload.FormatDatetime(from.At))
	}
	return from, err
}

// advance notes up to where the copies are.
func (p *pull) advance(ctx context.Context, to follow.Position) error {
	if err := p.store.Following().Advance(ctx, to); err != nil {
		return err
	}
	return p.mirror.Begin(ctx)
}

// increment takes the changes since a position, and returns up to where.
func (p *pull) increment(ctx context.Context, from follow.Position) (follow.Position, error) {
	t := taking{ctx: ctx, to: p.mirror, limit: latest()}
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

// cover moves on to where a reading is complete. With a datetime in the future nobody knows up to
// where a list is, but for the others in it.
func (t *taking) cover(covered lists.Covered) {
	if covered.Until.After(t.at.At) && !covered.Until.After(t.limit) && !t.odd {
		t.reach(follow.Position{At: covered.Until})
	}
}

const (
	// takeBatch is how many changes are handed on in one step, and takeBytes about how many bytes.
	takeBatch = 1000
	takeBytes = 4 << 20
	// clockSkew is how far a Source's clock may be ahead of this one. What it dates later does not move
	// the position: all that comes until then would count as taken.
	clockSkew = follow.DefaultSkew
)

// latest is up to when a position is believed.
func latest() time.Time { return time.Now().Add(clockSkew) }

// taking hands changes on, several at a time, and notes up to where.
type taking struct {
	ctx   context.Context // of one call
	to    follow.Taker
	batch []follow.Change
	bytes int
	at    follow.Position
	known map[string]struct{} // the keys of at
	limit time.Time           // beyond it at does not move
	odd   bool                // something is beyond it
}

func (t *taking) visit(e payload.Entry) error {
	c := follow.Change{Entry: e, Key: follow.Key(&e, 0), Via: follow.ChangeList}
	switch {
	case e.Datetime.After(t.limit):
		t.odd = true
	case e.Datetime.After(t.at.At):
		t.reach(follow.Position{At: e.Datetime, Keys: []string{c.Key}})
	case !e.Datetime.IsZero() && e.Datetime.Equal(t.at.At):
		t.note(c.Key) // also the last run may have taken it
	}
	// The texts are parts of the whole entry, which may be large.
	c.Links = mirror.KeptLinks(c.Links)
	texts := []*string{&c.Loc, &c.LastMod, &c.Hash, &c.Length, &c.Type, &c.Encoding, &c.Path}
	for _, text := range texts {
		*text = strings.Clone(*text)
		t.bytes += len(*text)
	}
	t.batch = append(t.batch, c)
	if len(t.batch) < takeBatch && t.bytes < takeBytes {
		return nil
	}
	return t.flush()
}

// reach moves on to a position.
func (t *taking) reach(to follow.Position) {
	t.at = follow.Position{At: to.At, Assumed: to.Assumed}
	t.known = make(map[string]struct{}, len(to.Keys))
	for _, key := range to.Keys {
		t.note(key)
	}
}

// note has a key in the position, once.
func (t *taking) note(key string) {
	if _, known := t.known[key]; !known {
		t.known[key] = struct{}{}
		t.at.Keys = append(t.at.Keys, key)
	}
}

func (t *taking) flush() error {
	for len(t.batch) > 0 {
		done, err := t.to.Take(t.ctx, t.batch)
		if err != nil {
			return err
		}
		t.batch = t.batch[done:]
	}
	t.batch, t.bytes = nil, 0
	return nil
}

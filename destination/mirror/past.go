package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// ErrReach reports that what a Source lists and has archived does not reach the wanted moment.
var ErrReach = errors.New("the Source has no record of its state at that moment")

// Past reads what a Source lists, and what it has archived: *lists.Client does.
type Past interface {
	Lists
	Dumps
	ChangeDump(
		ctx context.Context, uri string, since time.Time, visit func(lists.Package) error,
	) (lists.Covered, error)
	Archive(ctx context.Context, uri, capability string, visit func(lists.Archived) error) error
	Moment(ctx context.Context, uri string) (at, completed time.Time, err error)
}

// eachState calls note for a live document, and for each that its archive lists.
func eachState(
	ctx context.Context, from Past, live, archive, capability string,
	note func(uri string, at, completed time.Time),
) error {
	if live != "" {
		at, completed, err := from.Moment(ctx, live)
		if err != nil && !passesOver(err) {
			return err
		}
		note(live, at, completed)
	}
	if archive == "" {
		return nil
	}
	return from.Archive(ctx, archive, capability, func(a lists.Archived) error {
		var err error
		if a.At.IsZero() {
			a.At, a.Completed, err = from.Moment(ctx, a.URI)
		}
		if err != nil && !passesOver(err) {
			return err
		}
		note(strings.Clone(a.URI), a.At, a.Completed)
		return nil
	})
}

// passesOver reports whether an older state may do where one has failed.
func passesOver(err error) bool { return errors.Is(err, ErrReach) || lists.Final(err) }

// state is a Resource List, or with dump a Resource Dump, live or archived.
type state struct {
	uri  string
	at   time.Time
	dump bool
}

// Dumps reads what dumps list. A Lists that is one has its Resource Dump used.
type Dumps interface {
	ResourceDump(ctx context.Context, uri string, visit func(lists.Package) error) (lists.Snapshot, error)
}

// ofPast marks an error of a package as one for which another state may do.
func ofPast(err error) error {
	if errors.Is(err, ErrUnusable) {
		return fmt.Errorf("%w: %w", ErrReach, err)
	}
	return err
}

// changesIn visits the changes that the manifests of Change Dumps tell of.
func (c *changesUntil) changesIn(from Past, uri string, since time.Time) (lists.Covered, error) {
	return from.ChangeDump(c.ctx, uri, since, func(p lists.Package) error {
		if p.From.After(c.moment) {
			return errPast
		}
		b, err := c.m.OpenChanges(c.ctx, p)
		if err != nil {
			return ofPast(err)
		}
		for _, e := range b.Entries {
			if err == nil {
				err = c.visit(e)
			}
		}
		return errors.Join(err, b.Close())
	})
}

// changesUntil puts changes up to a moment into the Ledger.
type changesUntil struct {
	recorder
	moment  time.Time
	undated []payload.Entry
}

// read reads the Change Lists from a moment on, or the Change Dumps of a Source without them, up to
// the wanted moment.
func (c *changesUntil) read(from Past, set lists.Set, since time.Time) error {
	if !since.Before(c.moment) {
		return nil
	}
	next := func() (lists.Covered, error) {
		return from.Changes(c.ctx, set.ChangeList, since, c.visit)
	}
	switch {
	case set.ChangeList != "":
	case set.ChangeDump == "" || !c.m.dumps():
		return c.short(since)
	default:
		next = func() (lists.Covered, error) { return c.changesIn(from, set.ChangeDump, since) }
	}
	for range maxReadings {
		covered, err := next()
		switch {
		case errors.Is(err, errPast):
			return c.end(false)
		case errors.Is(err, lists.ErrGone):
			return fmt.Errorf("%w: %w", c.short(since), err)
		case err != nil:
			return err
		case !covered.Until.Before(c.moment):
			return c.end(!covered.Open && covered.Until.Equal(c.moment))
		case covered.Until.After(since): // it may have ended before a hole
			since = covered.Until
			continue
		case covered.Open:
			return c.end(false)
		}
		break
	}
	return c.short(since)
}

// short is the error where the known changes end at a moment.
func (c *changesUntil) short(until time.Time) error {
	return fmt.Errorf("%w, %s: changes are known up to %s only; give that moment or an earlier one",
		ErrReach, payload.FormatDatetime(c.moment), payload.FormatDatetime(until))
}

// visit takes a change. They come in order, so that one without a datetime is before what comes
// after it.
func (c *changesUntil) visit(e payload.Entry) error {
	switch {
	case e.Datetime.IsZero() && len(c.undated) < maxUndated:
		t := c.m.described(&e)
		c.undated = append(c.undated, entryOf(e.Loc, &t))
		return nil
	case e.Datetime.After(c.moment):
		return errPast
	case e.Datetime.IsZero() || lists.Latest(&e).After(c.moment): // a day has many moments
		e.Change = undecided
	}
	if err := c.settle(true); err != nil {
		return err
	}
	return c.change(e)
}

// settle records the changes without a datetime. before: they were before the moment.
func (c *changesUntil) settle(before bool) error {
	for _, e := range c.undated {
		if !before {
			e.Change = undecided
		}
		if err := c.change(e); err != nil {
			return err
		}
	}
	c.undated = c.undated[:0]
	return nil
}

// end records what is left. before: all was before the moment.
func (c *changesUntil) end(before bool) error {
	if err := c.settle(before); err != nil {
		return err
	}
	return c.flush()
}

// errPast ends the reading of changes at the first one after the moment.
var errPast = errors.New("after the moment that is asked for")

// maxReadings is how often the lists are read, each time from where the reading before has ended.
const maxReadings = 100

// maxUndated is how many changes without a datetime are held until a later one shows that they were
// before the moment.
const maxUndated = 10_000

// recordDump puts what the manifests of a Resource Dump tell into the Ledger.
func (n *recorder) recordDump(from Past, uri string) (lists.Snapshot, error) {
	snapshot, err := from.ResourceDump(n.ctx, uri, func(p lists.Package) error {
		one, err := n.m.packages.Open(n.ctx, p)
		if err == nil {
			err = one.Manifest(payload.CapResourceDumpManifest, n.bitstream)
			err = errors.Join(err, one.Close()) // its file is needed again
		}
		if err != nil {
			err = n.m.unusable(n.ctx, err)
		}
		return err
	})
	return snapshot, err
}

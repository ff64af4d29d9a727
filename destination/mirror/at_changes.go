package mirror

import (
	"errors"
	"fmt"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// maxUndated is how many changes without a datetime are held until a later one shows that they were
// before the moment.
const maxUndated = 10_000

// maxReadings is how often the lists are read, each time from where the reading before has ended.
const maxReadings = 100

// errPast ends the reading of changes at the first one after the moment.
var errPast = errors.New("after the moment that is asked for")

// changesUntil puts changes up to a moment into the Ledger.
type changesUntil struct {
	noting
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

// short is the error where changes are told up to a moment only.
func (c *changesUntil) short(until time.Time) error {
	return fmt.Errorf("%w, %s: what has changed is told up to %s only; give that moment or an earlier one",
		ErrReach, payload.FormatDatetime(c.moment), payload.FormatDatetime(until))
}

// visit takes a change. They come in order, so that one without a datetime is before what comes
// after it.
func (c *changesUntil) visit(e payload.Entry) error {
	switch {
	case e.Datetime.IsZero() && len(c.undated) < maxUndated:
		t := c.m.told(&e)
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

// settle notes the changes without a datetime. before: they were before the moment.
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

// end notes what is left. before: all was before the moment.
func (c *changesUntil) end(before bool) error {
	if err := c.settle(before); err != nil {
		return err
	}
	return c.flush()
}

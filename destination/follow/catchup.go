package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/destination/lists"
	"carillon/internal/legible"
	"carillon/payload"
)

// finding is what asking who may have changes has come to.
type finding struct {
	asked    int       // places that there are
	read     int       // of those, how many could be read
	later    bool      // asking again may help, whatever was said so far
	doubtful bool      // asking again may help, but not for ever
	earliest time.Time // from when on there are changes, where that is later than the position
	behind   time.Time // the same of the Change List alone
	err      error     // why not more
}

// final reports whether the missing changes are nowhere; tired, that all places were asked often
// enough.
func (d *finding) final(tired bool) bool { return !d.later && (tired || !d.doubtful) }

func (d *finding) reason() error {
	if d.asked == 0 {
		return errors.New("no memory of a hub and no Change List is known")
	}
	if d.err == nil {
		return errors.New("what is there does not reach so far")
	}
	return d.err
}

// catchup asks the hub's memory and the Source's Change Lists. Run's goroutine owns it.
type catchup struct {
	*handover
	hubAway bool // its memory could not be asked, the last time
	// notBefore is when who was too busy may be asked again.
	notBefore map[Via]time.Time
}

// catchUp reads what the hub's memory has, and the Source's Change Lists, from the position on
// and hands it on: until the position is goal or later, or, where goal is zero, all
// there is. The error is the end of ctx.
func (c *catchup) catchUp(ctx context.Context, goal time.Time) (found finding, err error) {
	for _, source := range []struct {
		via  Via
		find func(context.Context) (string, error)
	}{{ChangeMemory, c.cfg.Locator.ChangeMemory}, {ChangeList, c.cfg.Locator.ChangeList}} {
		if err := c.ask(ctx, &found, source.via, source.find, goal); err != nil {
			return found, err
		}
		if !goal.IsZero() && !c.progress.at.Before(goal) {
			return found, nil
		}
	}
	return found, nil
}

// ask reads what one of those who may have changes has, up to goal as catchUp does, and adds to what
// was found. The error is the end of ctx.
func (c *catchup) ask(
	ctx context.Context, found *finding, via Via, find func(context.Context) (string, error), goal time.Time,
) error {
	uri, err := find(ctx)
	if err == nil && uri == "" {
		return nil
	}
	found.asked++
	switch wait := time.Until(c.notBefore[via]); {
	case err != nil:
		err = &laterError{err}
	case wait > 0:
		err = &waitError{wait}
	default:
		_, err = c.readList(ctx, via, uri, goal)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.judge(found, via, err)
	return nil
}

// laterError is trouble that passes.
type laterError struct{ error }

func (e *laterError) Unwrap() error { return e.error }

// waitError: the server that was asked wants to be left alone.
type waitError struct{ left time.Duration }

func (e *waitError) Error() string {
	return fmt.Sprintf("it asked to be left alone for %s", e.left.Round(time.Second))
}

// judge adds to what was found what one place has said.
func (c *catchup) judge(found *finding, via Via, err error) {
	said := found.later
	defer func() {
		if via == ChangeMemory {
			c.hubAway = found.later
		}
		found.later = found.later || said
	}()
	found.later = false
	if err != nil {
		found.err = errors.Join(found.err, err)
	}
	gone, busy, wait := (*lists.GoneError)(nil), (*lists.BusyError)(nil), (*waitError)(nil)
	switch {
	case err == nil:
		found.read++
		// An open Change List may be written late. A memory that has relayed what
		// comes behind the gap has what it has.
		if via == ChangeList {
			found.later = true
		} else {
			found.doubtful = true
		}
	case errors.As(err, &gone):
		if gone.Earliest.After(c.progress.at) && (found.earliest.IsZero() || gone.Earliest.Before(found.earliest)) {
			found.earliest = gone.Earliest
		}
		if via == ChangeList {
			found.behind = gone.Earliest
		}
	case errors.As(err, &busy):
		found.later = true
		c.notBefore[via] = time.Now().Add(min(busy.RetryAfter, maxBusy))
	case errors.As(err, &wait), errors.As(err, new(*laterError)):
		found.later = true
	case errors.Is(err, lists.ErrAnswer), errors.Is(err, lists.ErrNone), errors.Is(err, lists.ErrOtherHost), errors.Is(err, lists.ErrLoop):
		found.doubtful = true
	default:
		found.later = true
	}
}

// readList hands on the changes of a list from the position on, up to goal unless that is zero. Later
// changes are in a waiting notification, which is whole, while an open list may lack a change for now.
// Changes handed on before an error stay handed on.
func (c *catchup) readList(ctx context.Context, via Via, uri string, goal time.Time) (lists.Covered, error) {
	v := visitor{
		f: c, via: via, goal: goal, batch: batch{f: c.handover, limit: c.limit(goal)},
		nth: counter{}, undated: map[string]struct{}{},
	}
	before, at := c.count, c.progress.at
	covered, err := c.cfg.Lists.Changes(
		v.nth.reading(ctx), uri, c.progress.at, func(e payload.Entry) error { return v.visit(ctx, e) },
	)
	if flushed := v.batch.flush(ctx); flushed != nil {
		return covered, flushed
	}
	beyond := errors.Is(err, errBeyond)
	if beyond {
		err = nil
		c.progress.reach(goal)
	}
	if v.late > 0 {
		c.cfg.Logger.Warn(
			"changes came behind later ones, and were passed over: their order is not known (core §12.1)",
			"count", v.late, "uri", legible.Cut(uri),
		)
	}
	if !v.future { // else the list may be complete up to any time
		c.progress.reach(earlier(covered.Until, goal))
	}
	if err == nil && !beyond && covered.Documents == 1 && !covered.Unchanged {
		c.progress.keepUndated(v.undated)
	}
	if n := c.count - before; n > 0 {
		c.cfg.Logger.Info("caught up", "via", string(via), "count", n, "position", shown(c.progress.at))
	}
	if c.count == before && c.progress.at.Equal(at) {
		return covered, err // there is nothing new to keep
	}
	return covered, errors.Join(err, c.save(ctx))
}

// errBeyond ends a reading that has come to its goal.
var errBeyond = errors.New("this lies behind what is missing")

// visitor hands on the entries of one reading.
type visitor struct {
	f       *catchup
	via     Via
	goal    time.Time // nothing after it is handed on; zero: everything is
	batch   batch
	nth     counter
	newest  time.Time
	undated map[string]struct{} // keys
	late    int
	future  bool // there was a datetime that must be wrong
}

func (v *visitor) visit(ctx context.Context, e payload.Entry) error {
	if !v.goal.IsZero() && e.Datetime.After(v.goal) && !e.Datetime.After(v.batch.limit) {
		return errBeyond // and in order: so does what follows
	}
	key := v.nth.key(&e)
	if e.Datetime.IsZero() && len(v.undated) < maxUndated {
		v.undated[key] = struct{}{}
	}
	v.future = v.future || e.Datetime.After(v.batch.limit)
	if v.f.progress.past(&e, key) || v.f.progress.listed(&e, key) || v.batch.has(key) {
		if _, known := v.f.progress.known[key]; !known && v.newest.After(e.Datetime) && !e.Datetime.IsZero() && !v.batch.has(key) {
			v.late++
		}
		return ctx.Err()
	}
	if !e.Datetime.IsZero() && lists.Latest(&e).Before(v.newest) {
		v.late++
		return ctx.Err()
	}
	if !e.Datetime.After(v.batch.limit) { // else it says nothing of the others
		v.newest = later(v.newest, e.Datetime)
	}
	return v.batch.add(ctx, Change{Entry: e, Key: key, Via: v.via})
}

// firstOf is the datetime of the first change that the Change List has from a moment on; zero if it
// has none, or cannot be read. The error is the end of ctx.
func (c *catchup) firstOf(ctx context.Context, since time.Time) (first time.Time, err error) {
	uri, err := c.cfg.Locator.ChangeList(ctx)
	if err == nil && uri != "" {
		_, err = c.cfg.Lists.Changes(ctx, uri, since, func(e payload.Entry) error {
			if first = e.Datetime; first.IsZero() {
				return ctx.Err()
			}
			return errEnough
		})
	}
	if err != nil && !errors.Is(err, errEnough) {
		c.cfg.Logger.Debug("the Change List could not be looked at", "error", err)
	}
	return first, ctx.Err()
}

// latest visits a list from a moment on, and returns the position behind its last change.
func (c *catchup) latest(ctx context.Context, uri string, since time.Time) (Position, error) {
	p, nth := newProgress(Position{At: since}), counter{}
	_, err := c.cfg.Lists.Changes(nth.reading(ctx), uri, since, func(e payload.Entry) error {
		p.handed(&e, nth.key(&e), c.limit(time.Time{}))
		return ctx.Err()
	})
	return p.position(), err
}

// errEnough ends a visit early.
var errEnough = errors.New("enough was seen")

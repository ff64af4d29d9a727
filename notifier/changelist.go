package notifier

import (
	"context"
	"slices"
	"sync"
	"time"

	"carillon/internal/await"
	"carillon/payload"
)

const (
	// countPause is how often the open list is counted at most while events come.
	countPause = time.Second
	// maxLists is how many Change Lists a set has at most: an Index can name no more
	// (core §12.2, §7). Beyond that the oldest go before their time.
	maxLists = payload.MaxEntries
	// lastModBytes is what a lastmod takes that is not there: whether it is
	// written is for the operator to say each time anew.
	lastModBytes = 64
)

// changeLists are the Change Lists of one set: their documents, and the loop that closes the open one
// and drops old ones.
type changeLists struct {
	ch   *channel
	wake chan struct{} // holds one token: there may be something new

	mu    sync.Mutex   // guards the rest; held while the journal is read
	lists []ChangeList // the open one last; nil: they must be read again. Never changed in place.
	open  tally        // of the open one
	// touched is when this process has seen the open list change last, and listed
	// when it has seen the lists do so.
	touched, listed time.Time
}

// tally is what the open list has.
type tally struct {
	next        time.Time // where to read on
	first, last time.Time // datetimes; zero where there are no entries
	entries     int
	bytes       int     // of its document, at most
	full        closing // not empty: it takes no more
}

func newChangeLists(ch *channel) *changeLists {
	return &changeLists{ch: ch, wake: make(chan struct{}, 1)}
}

// run closes lists and lets them go until ctx ends.
func (c *changeLists) run(ctx context.Context) {
	pause := newBackOff()
	for ctx.Err() == nil {
		wait, err := c.step(ctx)
		if err == nil {
			pause.Reset()
			c.await(ctx, wait)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		c.ch.n.metrics.journalErrors.Inc()
		again := min(pause.NextBackOff(), longestRetry)
		c.ch.log.Error("trouble with the journal; Change Lists will be closed and let go later",
			"error", err, "retry_in", again.String())
		_ = await.For(ctx, again)
	}
}

// await waits for news, and then for what else comes within a moment; or for the time
// when there is something to do.
func (c *changeLists) await(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	if woken, _ := await.Until(ctx, wait, c.wake); woken {
		_ = await.For(ctx, min(wait, countPause))
	}
}

// step does what is to be done now, and returns when to look again: at once where
// something was done. Its errors are the journal's.
func (c *changeLists) step(ctx context.Context) (wait time.Duration, err error) {
	now := c.ch.n.clock.Now()
	v, err := c.view(ctx)
	if err != nil {
		return 0, err
	}
	c.ch.metrics.lists.Set(float64(len(v.lists)))
	c.ch.metrics.listEntries.Set(float64(v.open.entries))
	if keepFrom := c.retained(v, now); keepFrom != nil {
		err := c.changed(c.ch.n.cfg.Journal.DropLists(ctx, c.ch.set, *keepFrom))
		c.ch.listsChanged()
		return 0, err
	}
	wait = longestLook
	if oldest := v.lists[0]; !oldest.Until.IsZero() {
		if left := oldest.Until.Add(c.ch.n.cfg.Keep).Sub(now); left > 0 { // else it waits for its archive, which signals
			wait = min(wait, left)
		}
	}
	if v.open.entries == 0 {
		return max(wait, shortestLook), nil
	}
	why, due := v.open.full, v.open.first.Add(c.ch.n.cfg.ChangeListFor)
	if why == "" && !due.After(now) {
		why = closedByTime
	}
	if why == "" {
		return max(min(wait, due.Sub(now)), shortestLook), nil
	}
	return c.close(ctx, v, why)
}

// close closes the open list just behind its last entry: events that came since are of
// the next. A list must not promise completeness for a time that is yet to come.
func (c *changeLists) close(ctx context.Context, v listView, why closing) (wait time.Duration, err error) {
	now := c.ch.n.clock.Now()
	l := v.lists[len(v.lists)-1]
	l.Until, l.Entries, l.Closed = nextMicro(v.open.last), v.open.entries, now
	l.Lastmods = c.ch.n.cfg.LastmodAlways
	if ahead := l.Until.Sub(now); ahead > 0 {
		return max(min(ahead, clockStep), shortestLook), nil
	}
	c.freeze(why)
	if err := c.changed(c.ch.n.cfg.Journal.CloseList(ctx, l)); err != nil {
		return 0, err
	}
	c.ch.archives.poke()
	c.ch.metrics.listsClosed[why].Inc()
	c.ch.listsChanged()
	c.ch.log.Info("a Change List was closed", "entries", l.Entries, "by", string(why),
		"from", payload.FormatDatetime(l.From), "until", payload.FormatDatetime(l.Until))
	return 0, nil
}

// freeze stops additions to the open list while it is being closed: its served content until then is
// that of the closed one.
func (c *changeLists) freeze(why closing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open.full = why
}

// changed has the lists read again: also after an error, which leaves open what was done.
func (c *changeLists) changed(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists = nil
	return err
}

// retained returns up to where lists must go now; nil: none.
func (c *changeLists) retained(v listView, now time.Time) *time.Time {
	keepFrom := now.Add(-c.ch.n.cfg.Keep)
	over := len(v.lists) - maxLists
	if over > 0 {
		keepFrom = v.lists[over-1].Until
	}
	keepFrom = c.ch.archives.secured(v.lists, keepFrom, now)
	if oldest := v.lists[0].Until; oldest.IsZero() || oldest.After(keepFrom) {
		return nil
	}
	if over > 0 {
		c.ch.log.Warn("there are more Change Lists than an Index can name; the oldest go before their time",
			"change_lists", len(v.lists), "until", payload.FormatDatetime(keepFrom))
	}
	return &keepFrom
}

// listView is what the lists of a set are at one moment.
type listView struct {
	lists           []ChangeList // the open one last
	open            tally
	touched, listed time.Time
}

// view brings the lists up to what is durable in the journal.
func (c *changeLists) view(ctx context.Context) (listView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(ctx); err != nil {
		return listView{}, err
	}
	had := c.open.entries
	if err := c.countOpen(ctx); err != nil {
		return listView{}, err
	}
	if c.open.entries > had {
		c.touched = c.ch.n.clock.Now()
	}
	return listView{lists: c.lists, open: c.open, touched: c.touched, listed: c.listed}, nil
}

// load reads the lists where they are not known; mu is held.
func (c *changeLists) load(ctx context.Context) error {
	if c.lists != nil {
		return nil
	}
	lists, err := c.ch.n.cfg.Journal.ChangeLists(ctx, c.ch.set)
	if err != nil {
		return err
	}
	if len(lists) == 0 {
		return errNoList
	}
	last := lists[len(lists)-1]
	overhead := len(c.longestHead(last.From)) + len(payload.AppendTail(nil, false))
	c.lists = slices.Clip(lists)
	c.open = tally{next: last.From, bytes: overhead}
	c.touched = c.ch.n.clock.Now()
	c.listed = c.touched
	return nil
}

// countOpen reads what the open list has got; mu is held.
func (c *changeLists) countOpen(ctx context.Context) error {
	t := &c.open
	if t.full != "" {
		return nil
	}
	// Served events must survive a crash: others would come in their place.
	upTo, err := c.ch.n.cfg.Journal.Last(ctx)
	if err != nil {
		return err
	}
	c.ch.n.clock.Reached(upTo)
	if upTo.Before(t.next) {
		return nil
	}
	for event, err := range c.ch.n.cfg.Journal.Events(ctx, c.ch.set, t.next) {
		if err != nil {
			return err
		}
		if event.Datetime.After(upTo) {
			break
		}
		c.add(&event)
		if t.full != "" {
			break
		}
	}
	return nil
}

// add counts an event, if there is room for it; mu is held.
func (c *changeLists) add(event *Event) {
	t := &c.open
	size := payload.EntrySize(&event.Entry)
	if event.LastMod == "" {
		size += lastModBytes
	}
	if t.entries > 0 && t.bytes+size > c.ch.n.cfg.ChangeListBytes {
		t.full = closedBySize
		return
	}
	if t.entries == 0 {
		t.first = event.Datetime
	}
	t.entries++
	t.bytes += size
	t.last, t.next = event.Datetime, nextMicro(event.Datetime)
	if t.entries == c.ch.n.cfg.ChangeListEntries {
		t.full = closedByCount
	}
}

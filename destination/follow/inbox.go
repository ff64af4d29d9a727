package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"carillon/destination"
	"carillon/internal/legible"
	"carillon/payload"
)

var _ destination.Sink = (*Follower)(nil)

// Take implements destination.Sink: the notification is in the Inbox, durable, when it
// returns nil. Where there is no room it is destination.ErrNotNow.
func (f *Follower) Take(n *destination.Notification) error {
	if !n.ChangeNotification {
		f.passOver(n)
		f.pollNow() // something has changed: the lists may tell what
		return nil
	}
	p := Pushed{ID: n.ID, Body: n.Body}
	var told bool
	if p.From, p.Until, told = interval(n); !told {
		f.cfg.Logger.Warn("the notification does not tell what interval it covers (CN §3)", "id", n.ID)
		if p.From.IsZero() {
			f.pollNow() // they may tell more
		}
	}
	p.From = f.standing(p)
	// Who waits for the answer may give up; what is kept is kept.
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	if err := f.room(ctx, p); err != nil {
		return err
	}
	if err := f.cfg.Store.Keep(ctx, p); err != nil {
		return fmt.Errorf("%w: %w", destination.ErrNotNow, err)
	}
	f.ring()
	return nil
}

// passOver logs a delivery that is no change notification. Content of another kind is a topic's habit: that is
// said once.
func (f *Follower) passOver(n *destination.Notification) {
	if n.Broken {
		f.cfg.Logger.Warn("a change notification was delivered that cannot be read, and is passed over", "id", n.ID, "bytes", n.Size)
		return
	}
	f.mu.Lock()
	known := f.foreign
	f.foreign = true
	f.mu.Unlock()
	if known {
		f.cfg.Logger.Debug("content of another kind was delivered", "id", n.ID, "bytes", n.Size)
		return
	}
	f.cfg.Logger.Warn("the topic delivers content that is no ResourceSync change notification: nothing in it can be handed on",
		"topic", n.Topic, "id", n.ID, "bytes", n.Size, "type", legible.Cut(n.ContentType),
		"hint", "destination --topic prints that something came; to get the content, run a callback of your own (docs/destination.md)")
}

// standing is where a notification stands in the Inbox: where it begins, or behind all that
// came before where it does not tell.
func (f *Follower) standing(p Pushed) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Until.IsZero() {
		p.From = later(f.at, f.came)
		p.Until = p.From.Add(1) // the next such one is behind it
	}
	f.came = later(f.came, p.Until)
	return p.From
}

// interval is what a notification covers; where it does not tell, from its first
// change to its last; zero where those do not tell either.
func interval(n *destination.Notification) (from, until time.Time, told bool) {
	from, fromErr := payload.ParseDatetime(n.From)
	until, untilErr := payload.ParseDatetime(n.Until)
	told = fromErr == nil && untilErr == nil && !until.Before(from)
	var first, last time.Time
	for i := range n.Changes {
		at := n.Changes[i].Datetime
		if at.IsZero() {
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	if fromErr != nil {
		from = first
	}
	if from.IsZero() {
		return time.Time{}, time.Time{}, false
	}
	if untilErr != nil || until.Before(from) {
		until = last
		if until.Before(from) {
			until = from
		}
	}
	return from, until, told
}

// room tells whether the Inbox has room. What goes on from the position has it: it
// may be what all others wait for.
func (f *Follower) room(ctx context.Context, p Pushed) error {
	n, held, err := f.cfg.Store.Kept(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", destination.ErrNotNow, err)
	}
	inbox, bytes := f.cfg.Inbox, f.cfg.InboxBytes
	if at := f.position(); !at.IsZero() && !p.From.After(at) {
		inbox, bytes = 2*inbox, 2*bytes
	}
	if n > 0 && (n >= inbox || held+int64(len(p.Body)) > bytes) {
		return fmt.Errorf("%w: the inbox is full: %d notifications of %d bytes wait", destination.ErrNotNow, n, held)
	}
	return nil
}

// read reads what a notification has, in order.
func (f *Follower) read(p Pushed) ([]Change, error) {
	r := payload.NewReader(bytes.NewReader(p.Body), payload.Limits{Bytes: int64(len(p.Body)) + 1})
	var all []Change
	var last time.Time // of those that tell
	sorted := true
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !e.Datetime.IsZero() {
			sorted, last = sorted && !e.Datetime.Before(last), e.Datetime
		}
		all = append(all, Change{Entry: e, Via: Push, Notification: p.ID})
	}
	if !sorted {
		f.cfg.Logger.Warn("the changes of a notification are not in the order of their datetimes (CN §3), and are put in it", "id", p.ID)
		inOrder(all)
	}
	var nth counter
	for i := range all {
		c := &all[i]
		if c.Key = nth.key(&c.Entry); c.Datetime.IsZero() {
			c.Key = within(p.ID, c.Key)
		}
	}
	return all, nil
}

// inOrder sorts changes by their datetimes; those without one stay behind the one before them.
func inOrder(all []Change) {
	type at struct {
		time   time.Time
		change Change
	}
	timed := make([]at, len(all))
	var last time.Time
	for i, c := range all {
		if !c.Datetime.IsZero() {
			last = c.Datetime
		}
		timed[i] = at{last, c}
	}
	slices.SortStableFunc(timed, func(a, b at) int { return a.time.Compare(b.time) })
	for i := range timed {
		all[i] = timed[i].change
	}
}

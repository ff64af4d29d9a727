package follow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"carillon/destination"
	"carillon/internal/legible"
	"carillon/payload"
)

var _ destination.Sink = (*Follower)(nil)

// inbox takes notifications into the Store, at any time and from any goroutine.
type inbox struct {
	cfg  Config
	news chan struct{} // there is something in the Store; has room for one
	poll chan struct{} // the lists should be looked at; has room for one

	mu sync.Mutex
	at time.Time // guarded by mu: the position as it is stored
	// Guarded by mu: how far reaches what came, and where the last notification stands that does not
	// tell what it covers.
	came    time.Time
	foreign bool // guarded by mu: the log has it that the topic delivers other content
}

// Take implements destination.Sink: the notification is in the Inbox, durable, when it
// returns nil. Where there is no room it is destination.ErrNotNow.
func (in *inbox) Accept(n *destination.Notification) error {
	if !n.ChangeNotification {
		in.passOver(n)
		in.pollNow() // something has changed: the lists may tell what
		return nil
	}
	p := Pushed{ID: n.ID, Body: n.Body}
	var stated bool
	if p.From, p.Until, stated = interval(n); !stated {
		in.cfg.Logger.Warn("the notification does not tell what interval it covers (CN §3)", "id", n.ID)
		if p.From.IsZero() {
			in.pollNow() // they may tell more
		}
	}
	p.From = in.latest(p)
	// The client that waits for the answer may give up; a kept notification stays.
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	if err := in.checkLimit(ctx, p); err != nil {
		return err
	}
	if err := in.cfg.Store.Keep(ctx, p); err != nil {
		return fmt.Errorf("%w: %w", destination.ErrNotNow, err)
	}
	in.ring()
	return nil
}

// passOver logs a delivery that is no change notification. Content of another kind is a topic's habit: that is
// said once.
func (in *inbox) passOver(n *destination.Notification) {
	if n.Broken {
		in.cfg.Logger.Warn(
			"a change notification was delivered that cannot be read, and is passed over",
			"id", n.ID, "bytes", n.Size,
		)
		return
	}
	in.mu.Lock()
	known := in.foreign
	in.foreign = true
	in.mu.Unlock()
	if known {
		in.cfg.Logger.Debug("content of another kind was delivered", "id", n.ID, "bytes", n.Size)
		return
	}
	in.cfg.Logger.Warn("the topic delivers content that is no ResourceSync change notification: nothing in it can be handed on",
		"topic", n.Topic, "id", n.ID, "bytes", n.Size, "type", legible.Cut(n.ContentType),
		"hint", "destination --topic prints that something came; to get the content, run a callback of your own (docs/destination.md)")
}

// latest is where a notification stands in the Inbox: where it begins, or behind all that
// came before where it does not tell.
func (in *inbox) latest(p Pushed) time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	if p.Until.IsZero() {
		p.From = later(in.at, in.came)
		p.Until = p.From.Add(1) // the next such one is behind it
	}
	in.came = later(in.came, p.Until)
	return p.From
}

// interval is what a notification covers; where it does not tell, from its first
// change to its last; zero where those do not tell either.
func interval(n *destination.Notification) (from, until time.Time, stated bool) {
	from, fromErr := payload.ParseDatetime(n.From)
	until, untilErr := payload.ParseDatetime(n.Until)
	stated = fromErr == nil && untilErr == nil && !until.Before(from)
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
	return from, until, stated
}

// checkLimit reports whether the Inbox has room. A notification that goes on from the position always
// has: all others may be waiting for it.
func (in *inbox) checkLimit(ctx context.Context, p Pushed) error {
	n, held, err := in.cfg.Store.Kept(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", destination.ErrNotNow, err)
	}
	inbox, bytes := in.cfg.Inbox, in.cfg.InboxBytes
	if at := in.position(); !at.IsZero() && !p.From.After(at) {
		inbox, bytes = 2*inbox, 2*bytes
	}
	if n > 0 && (n >= inbox || held+int64(len(p.Body)) > bytes) {
		return fmt.Errorf("%w: the inbox is full: %d notifications of %d bytes wait", destination.ErrNotNow, n, held)
	}
	return nil
}

func (in *inbox) position() time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.at
}

func (in *inbox) ring() { signal(in.news) }

func (in *inbox) pollNow() { signal(in.poll) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Position is how far changes were handed on; zero where that is not known yet.
func (f *Follower) Position() time.Time { return f.position() }

package notifier

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"carillon/internal/await"
	"carillon/payload"
)

// Times of a channel's loop.
const (
	// clockPatience is how long a wait for the clock may be before the operator
	// hears of it.
	clockPatience = time.Second
	// clockStep is how often a waiting channel looks at the clock, which may
	// be set forward any time.
	clockStep = time.Second
)

// channel makes and publishes the notifications of one set.
type channel struct {
	n       *Notifier
	set     string
	up      string // URI of the Capability List
	log     *slog.Logger
	metrics *setMetrics
	header  http.Header // of every POST
	hidden  bool        // the Capability List does not name the channel
	lists   *changeLists

	resources *resourceLists
	archives  *archives // nil where the set has none

	companions []Companion // set before Run

	// state and open belong to the goroutine of run.
	state Channel
	stale bool  // state must be read again
	open  batch // what the next notification will have

	wake chan struct{} // holds one token: there is something new

	mu       sync.Mutex
	since    time.Time     // guarded by mu: the first arrival that the batch does not know of
	draining []drainer     // guarded by mu
	accepted *Notification // guarded by mu: what the topic URI serves
}

func newChannel(n *Notifier, set string, state Channel) *channel {
	ch := &channel{
		n: n, set: set, up: n.uris.capabilityList(set), state: state, accepted: state.Accepted,
		log: n.log.With("set", set), metrics: n.metrics.of(set), wake: make(chan struct{}, 1),
		hidden: slices.Contains(n.cfg.HideChannels, set),
		header: http.Header{
			"Content-Type": {"application/xml"}, // CN §4.1, without parameters
			"Link":         {n.uris.links(set)},
			"User-Agent":   {n.cfg.UserAgent},
		},
	}
	ch.open = newBatch(ch)
	ch.lists = newChangeLists(ch)
	return ch
}

// carryOn makes a channel begin with what an earlier run has left, which has
// waited long enough.
func (ch *channel) carryOn(ctx context.Context) error {
	for _, err := range ch.n.cfg.Journal.Events(ctx, ch.set, ch.state.Next) {
		if err != nil {
			return err
		}
		ch.since = time.Now().Add(-ch.n.cfg.MaxWait)
		break
	}
	await.Wake(ch.wake)
	return nil
}

// came reports new events in the journal.
func (ch *channel) came(events int) {
	ch.metrics.events.Add(float64(events))
	ch.arrived()
	ch.resources.arrived(events)
	for _, c := range ch.companions {
		c.Arrived(events)
	}
}

// arrived signals the channel that the journal has a new event.
func (ch *channel) arrived() {
	ch.mu.Lock()
	if ch.since.IsZero() {
		ch.since = time.Now()
	}
	ch.mu.Unlock()
	await.Wake(ch.wake)
	await.Wake(ch.lists.wake)
}

// drainer waits until every event up to a datetime is accepted.
type drainer struct {
	upTo time.Time
	done chan struct{}
}

// drain asks for word when every event dated upTo or before is accepted, and
// ends waiting for the batches that have such events.
func (ch *channel) drain(upTo time.Time) <-chan struct{} {
	done := make(chan struct{})
	ch.mu.Lock()
	ch.draining = append(ch.draining, drainer{upTo, done})
	ch.mu.Unlock()
	await.Wake(ch.wake)
	return done
}

// run publishes until ctx ends.
func (ch *channel) run(ctx context.Context) {
	pause := newBackOff()
	for ctx.Err() == nil {
		err := ch.step(ctx)
		if err == nil {
			pause.Reset()
			continue
		}
		ch.stale = true
		if ctx.Err() != nil {
			return
		}
		ch.n.metrics.journalErrors.Inc()
		wait := min(pause.NextBackOff(), longestRetry)
		ch.log.Error("trouble with the journal; publishing will go on", "error", err, "retry_in", wait.String())
		await.For(ctx, wait)
	}
}

// step does the next thing: publish the notification that is outstanding, or
// fill and seal one. Its errors are the journal's.
func (ch *channel) step(ctx context.Context) error {
	if ch.stale {
		state, err := ch.n.cfg.Journal.Open(ctx, ch.set, ch.n.clock.Now())
		if err != nil {
			return err
		}
		ch.state, ch.stale, ch.open = state, false, newBatch(ch)
		ch.setAccepted(state.Accepted)
	}
	if ch.state.Sealed != nil {
		return ch.publish(ctx, *ch.state.Sealed)
	}
	if err := ch.fill(ctx); err != nil {
		return err
	}
	if ch.open.entries == 0 { // ctx has ended
		return nil
	}
	return ch.seal(ctx)
}

// fill waits until the open batch is closed by count, by size or by time, or because a Drain waits for
// its events.
func (ch *channel) fill(ctx context.Context) error {
	for {
		draining := ch.takeArrival()
		if err := ch.open.read(ctx); err != nil {
			return err
		}
		hurry := ch.finish(draining)
		if ch.open.entries > 0 && (ch.open.full || hurry) {
			return nil
		}
		if closed := ch.await(ctx); closed || ctx.Err() != nil {
			return nil
		}
	}
}

// await waits for news, or until the open batch is closed by time.
func (ch *channel) await(ctx context.Context) (closed bool) {
	var over <-chan time.Time
	if ch.open.entries > 0 {
		timer := time.NewTimer(time.Until(ch.open.since.Add(ch.n.cfg.MaxWait)))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-ch.wake:
	case <-over:
		return true
	}
	return false
}

// takeArrival sets when the batch's first event arrived; it is called before the journal is read, so
// that no arrival is forgotten. It returns how many Drains wait.
func (ch *channel) takeArrival() (draining int) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.since.IsZero() {
		ch.open.arrival(ch.since)
		ch.since = time.Time{}
	}
	return len(ch.draining)
}

// finish ends those of the first waiting Drains whose events are all before the open batch; hurry is
// whether others are left. Nothing is outstanding when it is called, and Drains that came after the
// journal was read are for the next time.
func (ch *channel) finish(waiting int) (hurry bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	var left []drainer
	for i, d := range ch.draining {
		if i < waiting && (ch.open.entries == 0 || ch.open.first.After(d.upTo)) {
			close(d.done)
			continue
		}
		hurry = hurry || i < waiting
		left = append(left, d)
	}
	ch.draining = left
	return hurry
}

// seal makes the open batch the outstanding notification.
func (ch *channel) seal(ctx context.Context) error {
	note := Notification{
		Set: ch.set, From: ch.state.Next, Until: nextMicro(ch.open.last), Entries: ch.open.entries,
	}
	if err := ch.awaitClock(ctx, note.Until); err != nil {
		return nil // ctx has ended; the next start carries on
	}
	var scratch []byte
	select {
	case scratch = <-ch.n.builders:
	case <-ctx.Done():
		return nil
	}
	body, err := ch.build(ctx, scratch, note)
	if err == nil {
		note.Size = int64(len(body))
		err = ch.n.cfg.Journal.Seal(ctx, note, body)
	}
	const keptScratch = 4 << 20 // a rare big notification does not hold its memory
	if cap(body) > keptScratch {
		body = nil
	}
	ch.n.builders <- body[:0]
	if err != nil {
		return err
	}
	ch.state.Sealed, ch.state.Next = &note, note.Until
	ch.open = ch.open.following()
	return nil
}

// build writes the notification's document into the memory of scratch, if that
// is enough.
func (ch *channel) build(ctx context.Context, scratch []byte, note Notification) ([]byte, error) {
	doc := bytes.NewBuffer(scratch[:0])
	doc.Grow(ch.open.bytes)
	w, err := payload.NewNotificationWriter(doc, payload.Interval{From: note.From, Until: note.Until}, ch.up)
	if err != nil {
		return scratch, err
	}
	entries := 0
	for event, err := range ch.n.cfg.Journal.Events(ctx, ch.set, note.From) {
		if err != nil {
			return doc.Bytes(), err
		}
		if !event.Datetime.Before(note.Until) {
			break
		}
		complete(&ch.n.cfg, &event)
		if err := w.Write(&event.Entry); err != nil {
			return doc.Bytes(), err
		}
		entries++
	}
	if err := w.Close(); err != nil {
		return doc.Bytes(), err
	}
	if entries != note.Entries {
		return doc.Bytes(), errChanged
	}
	return doc.Bytes(), nil
}

// awaitClock waits until the clock has reached until: a notification must not
// promise completeness for a time that is yet to come. The journal's datetimes are
// ahead of the clock only where events came faster than one in a microsecond, or
// the clock was set back.
func (ch *channel) awaitClock(ctx context.Context, until time.Time) error {
	for warned := false; ; {
		ahead := until.Sub(ch.n.clock.Now())
		ch.metrics.clock.Set(max(ahead, 0).Seconds())
		if ahead <= 0 {
			return ctx.Err()
		}
		if ahead > clockPatience && !warned {
			warned = true
			ch.log.Warn("the clock was set back; publishing waits until it has caught up with the journal",
				"behind", ahead.String())
		}
		if err := await.For(ctx, min(ahead, clockStep)); err != nil {
			return err
		}
	}
}

// setAccepted makes n the served notification of the topic URI. It never goes back: the hub has taken
// n, even if the journal could not record it.
func (ch *channel) setAccepted(n *Notification) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if n != nil && (ch.accepted == nil || n.Until.After(ch.accepted.Until)) {
		ch.accepted = n
	}
}

// latest is the notification that the hub accepted last; nil without one.
func (ch *channel) latest() *Notification {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.accepted
}

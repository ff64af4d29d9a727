package follow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Follower follows one Source. It takes notifications at any time; Run hands
// them on.
type Follower struct {
	*catchup

	// The fields below belong to Run's goroutine, as the catchup and its handover do.
	complete time.Time // when it was known last that nothing is missing
	gap      gap
	unread   bool // no list could be read, the last time, and that may pass
	// freshUntil is until when the first look may say what "now" is.
	freshUntil time.Time
	lastPush   time.Time // the latest push, or the start
	// unpushed is a position from which on nothing was pushed: it lies before the subscription began.
	// Changes missing from there do not come by push. Zero: no such position.
	unpushed time.Time
	glanced  time.Time // where the notification began for which a seam was looked at
	// unproven is an until that was not believed: the next notification proves it by beginning there.
	unproven time.Time
	dropped  string // the damaged notification that was dropped last
	// rebased is how long to wait before another baseline, since one was taken because of a
	// gap; nil: none was. rested: that was waited for.
	rebased *backoff.ExponentialBackOff
	rested  bool
	spread  float64 // by how much this time's interval between looks is longer
}

// New checks the Config.
func New(cfg Config) (*Follower, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	in := &inbox{
		cfg: cfg.withDefaults(), news: make(chan struct{}, 1), poll: make(chan struct{}, 1),
	}
	return &Follower{
		catchup: &catchup{handover: &handover{inbox: in}, notBefore: map[Via]time.Time{}},
	}, nil
}

// Run hands changes on until ctx ends, and returns nil then. Only ErrGap ends it otherwise, where
// Config has it so. Everything that may pass is tried again, for ever.
func (f *Follower) Run(ctx context.Context) error {
	err := f.begin(ctx)
	for err == nil {
		err = f.step(ctx)
	}
	if ctx.Err() != nil {
		f.cfg.Logger.Info("stopped", "handed_on", f.count, "position", shown(f.position()))
		return nil
	}
	return err
}

// begin reads the position, or makes one.
func (f *Follower) begin(ctx context.Context) error {
	p, err := tried(ctx, f.handover, "the position cannot be read; trying again", f.cfg.Store.Position)
	if err != nil {
		return err
	}
	f.progress, f.complete = newProgress(p), time.Now()
	f.mu.Lock()
	f.at = sourceTime(p)
	f.mu.Unlock()
	f.lastPush = time.Now()
	if !p.At.IsZero() {
		f.cfg.Logger.Info("going on", "position", shown(p.At))
		if !f.cfg.Locator.Pushed() || f.cfg.Start == StartAt && p.At.Equal(f.cfg.StartTime) {
			f.unpushed = p.At
		}
		f.complete = time.Time{} // changes missed meanwhile are looked for at once
		return nil
	}
	switch f.cfg.Start {
	case StartBaseline:
		return f.baseline(ctx)
	case StartAt:
		f.progress.reach(f.cfg.StartTime)
		f.complete, f.unpushed = time.Time{}, f.cfg.StartTime
		return f.save(ctx)
	}
	f.complete = time.Time{}
	f.progress, f.freshUntil = newProgress(f.assume()), time.Now().Add(f.cfg.PollGone)
	return f.save(ctx) // whatever becomes of this process, it is from here on
}

// step does the next thing there is to do, or waits for one.
func (f *Follower) step(ctx context.Context) error {
	p, err := f.cfg.Store.First(ctx)
	if errors.Is(err, ErrNothing) {
		f.gap = gap{}
		return f.idle(ctx)
	}
	if damaged := (*DamagedError)(nil); errors.As(err, &damaged) && damaged.ID != f.dropped {
		f.cfg.Logger.Error("a notification in the inbox cannot be read back, and is dropped; its changes are looked for in the lists",
			"id", damaged.ID, "error", err)
		f.complete, f.dropped = time.Time{}, damaged.ID
		return f.save(ctx, damaged.ID)
	}
	if err != nil {
		if ctx.Err() == nil {
			f.cfg.Logger.Error("the inbox cannot be read; trying again", "error", err)
		}
		return f.wait(ctx, f.cfg.RetryFirst, nil)
	}
	switch {
	case p.Until.IsZero(): // all that came before it was handed on
		return f.apply(ctx, p)
	case f.progress.assumed && (f.fresh() || !p.From.After(f.progress.at)):
		return f.first(ctx, p)
	case p.Until.Before(f.progress.at) && !p.Until.After(f.progress.recent.floor):
		f.cfg.Logger.Debug(
			"a notification has only known changes", "id", p.ID, "until", shown(p.Until),
			"position", shown(f.progress.at),
		)
		return f.save(ctx, p.ID)
	case !f.unproven.IsZero() && p.From.Equal(f.unproven):
		f.progress.reach(p.From)
		return f.apply(ctx, p)
	case !p.From.After(f.progress.at):
		return f.apply(ctx, p)
	}
	return f.missing(ctx, p)
}

// first makes the first notification the position, when nothing before it came for
// a while.
func (f *Follower) first(ctx context.Context, p Pushed) error {
	if wait := f.gap.settle(p.From, f.cfg.Settle); wait > 0 {
		return f.wait(ctx, wait, f.news)
	}
	f.gap = gap{}
	f.progress = newProgress(Position{At: p.From})
	f.cfg.Logger.Info("beginning with the first notification", "position", shown(p.From))
	return f.save(ctx)
}

// apply hands on what a notification has from the position on.
func (f *Follower) apply(ctx context.Context, p Pushed) error {
	f.gap, f.lastPush, f.unproven = gap{}, time.Now(), time.Time{}
	f.helped()
	changes, err := f.read(p)
	if err != nil {
		// It was read when it came. Its interval stays to be covered by the lists.
		f.cfg.Logger.Error("a notification in the inbox cannot be read, and is dropped", "id", p.ID, "error", err)
		f.pollNow()
		return f.save(ctx, p.ID)
	}
	limit := f.limit(p.From)
	b := batch{f: f.handover, limit: p.Until}
	if p.Until.After(limit) {
		b.limit = limit
	}
	repeated := 0
	for _, c := range changes {
		past := f.progress.past(&c.Entry, c.Key)
		missed := past && f.progress.missed(&c.Entry, c.Key)
		late := past && !missed && f.late(&c, p)
		if late && f.progress.recent.reached(&c.Entry) {
			repeated, late = repeated+1, false
		}
		if b.has(c.Key) || past && !missed && !late {
			continue
		}
		if missed {
			f.cfg.Logger.Warn(
				"a change comes after later ones, as a list lacked it; it is handed on late",
				"key", c.Key, "id", p.ID,
			)
		}
		if err := b.add(ctx, c); err != nil {
			return err
		}
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	if repeated > 0 {
		f.cfg.Logger.Warn("a notification has changes from before its interval (CN §3); those that were handed on, or come behind a later change of their resource, are passed over",
			"id", p.ID, "passed_over", repeated)
	}
	if f.reached(p, limit) && !p.Until.Before(f.progress.at) && !f.complete.IsZero() { // else what was missed while this process was away is to be looked for
		f.complete = time.Now()
	}
	return f.save(ctx, p.ID)
}

// reached moves the position to the end of a notification; not where that lies in the future: all
// that comes until then would count as past.
func (f *Follower) reached(p Pushed, limit time.Time) bool {
	if !p.Until.After(limit) {
		f.progress.reach(p.Until)
		return true
	}
	f.cfg.Logger.Warn("the interval of a notification ends in the future (CN §3), which is not believed: its until is wrong, or this machine's clock",
		"id", p.ID, "until", shown(p.Until), "position", shown(f.progress.at))
	f.unproven, f.complete = p.Until, time.Time{}
	return false
}

// late reports whether a change is older than the interval of a notification that was not seen before.
// A Source that breaks the rule that entries lie in the interval (CN §3) may not have announced it
// earlier.
func (h *handover) late(c *Change, p Pushed) bool {
	if c.Datetime.IsZero() || !c.Datetime.Before(p.From) || h.progress.at.After(p.From) {
		return false
	}
	_, known := h.progress.known[c.Key]
	return !known
}

// idle waits for news, and looks at the lists when it is time.
func (f *Follower) idle(ctx context.Context) error {
	if due := f.due(); due > 0 {
		return f.wait(ctx, due, f.news)
	}
	f.complete, f.spread = time.Now(), rand.Float64()*pollJitter
	return f.checkLists(ctx) // which may ask for another look
}

// due is how long it is until the lists are to be looked at. Where nothing may be
// pushed that is sooner; as this may change any time it is looked at often.
func (f *Follower) due() time.Duration {
	interval := f.cfg.Poll
	if !f.cfg.Locator.Pushed() || f.hubAway || f.unread {
		interval = f.cfg.PollGone
	}
	if f.fresh() {
		interval = f.cfg.RetryFirst
	}
	if f.complete.IsZero() {
		return 0
	}
	interval += time.Duration(f.spread * float64(interval))
	return min(time.Until(f.complete.Add(interval)), f.cfg.PollGone)
}

// wait returns after the time, or when there are news; an error is the end of ctx.
func (f *Follower) wait(ctx context.Context, long time.Duration, news <-chan struct{}) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-news:
	case <-f.poll:
		f.complete = time.Time{}
	case <-timer.C:
	}
	return nil
}

// gapError is ErrGap with its place.
func gapError(from, until time.Time, reason error) error {
	if until.IsZero() {
		return fmt.Errorf("%w: what changed since %s: %w", ErrGap, shown(from), reason)
	}
	return fmt.Errorf("%w: what changed from %s to %s: %w", ErrGap, shown(from), shown(until), reason)
}

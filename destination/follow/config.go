package follow

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"
)

// Defaults of Config.
const (
	DefaultPoll        = 15 * time.Minute
	DefaultPollGone    = time.Minute
	DefaultSettle      = 2 * time.Second
	DefaultRetryFirst  = time.Second
	DefaultRetryMax    = 5 * time.Minute
	DefaultInbox       = 10_000
	DefaultInboxBytes  = 1 << 30
	DefaultSkew        = 10 * time.Minute
	DefaultGapAttempts = 5
	maxBatch           = 500       // changes that are given to a Taker at a time
	maxBatchBytes      = 1 << 20   // and about how much they may take
	maxUndated         = 20_000    // keys of changes without a datetime that are remembered
	maxDated           = 60_000    // keys of changes at the position, or said to be in the future: more than one document has
	pollJitter         = 0.1       // polls of many Destinations spread by this share
	maxBusy            = time.Hour // how far a server's Retry-After is heeded
	// storeWithin is how long the Store may take to write where no caller's end stops it: a disk that
	// hangs must hold up neither the hub that delivers nor the end of Run.
	storeWithin = 5 * time.Second
)

// Start says where a Destination begins that has no position yet.
type Start string

// The beginnings.
const (
	// StartNow: with what changes from now on.
	StartNow Start = "now"
	// StartBaseline: with the Source's state, and what changes from its moment on.
	StartBaseline Start = "baseline"
	// StartAt: with what changed from Config.StartTime on.
	StartAt Start = "at"
)

// OnGap decides what happens where missing changes are kept nowhere.
type OnGap string

// The choices.
const (
	// GapStop: Run ends with ErrGap.
	GapStop OnGap = "stop"
	// GapBaseline: the Source's state is taken anew, and what changes from its moment on.
	GapBaseline OnGap = "baseline"
	// GapGoOn: the gap is reported, and the changes after it are handed on.
	GapGoOn OnGap = "go-on"
)

// Places are where changes can be read again, and whether they are pushed. Its
// methods may be called at any time.
type Locator interface {
	// ChangeMemory is the address of the hub's change memory; empty while it is unknown.
	ChangeMemory(ctx context.Context) (uri string, err error)
	// ChangeList is the Source's; empty: it has none.
	ChangeList(ctx context.Context) (uri string, err error)
	// Pushed reports whether notifications can be expected: there is a subscription, and a
	// hub that is there.
	Pushed() bool
}

// Baseliner takes the Source's state as a whole.
type Baseliner interface {
	// Baseline brings the receiver of the changes to the Source's state, and returns the moment from which
	// on changes are to be handed on; zero where the Source does not give it: from the first of its Change
	// Lists.
	Baseline(ctx context.Context) (at time.Time, err error)
}

// Config says whom to follow, and how.
type Config struct {
	Store   Store
	Handler Handler
	Lists   Lists
	Locator Locator
	// Baseline is for StartBaseline and GapBaseline; may be nil without them.
	Baseline Baseliner
	// Start is where to begin without a position; default StartNow. StartTime belongs
	// to StartAt.
	Start     Start
	StartTime time.Time
	// OnGap: default GapStop.
	OnGap OnGap
	// Logger reports what happens. Default: nowhere.
	Logger *slog.Logger

	// Poll is after how long without push the lists are looked at; default 15 m.
	Poll time.Duration
	// PollGone is the same while nothing can be expected by push; default 1 m, and
	// Poll at most.
	PollGone time.Duration
	// Settle is how long to wait for what was overtaken before a gap is believed;
	// default 2 s.
	Settle time.Duration
	// RetryFirst and RetryMax bound the wait after what failed: the Taker, the Store,
	// a list; default 1 s and 5 m.
	RetryFirst, RetryMax time.Duration
	// Inbox and InboxBytes bound what waits: beyond them the hub is asked to come
	// again; default 10,000 notifications and 1 GiB.
	Inbox      int
	InboxBytes int64
	// Skew is how far this clock and the Source's may be apart; default 10 m.
	Skew time.Duration
	// GapAttempts is how often who may have what is missing is asked, and cannot be
	// read, or has less, before that counts as a no; default 5.
	GapAttempts int
}

// Validate names what is wrong.
func (c *Config) Validate() error {
	switch {
	case c.Store == nil || c.Handler == nil || c.Lists == nil || c.Locator == nil:
		return errors.New("a store, a taker, lists and places are needed")
	case c.Start != "" && c.Start != StartNow && c.Start != StartBaseline && c.Start != StartAt:
		return errors.New("start: must be now, baseline or a datetime")
	case c.Start == StartAt && c.StartTime.IsZero():
		return errors.New("start: there is no datetime")
	case c.OnGap != "" && c.OnGap != GapStop && c.OnGap != GapBaseline && c.OnGap != GapGoOn:
		return errors.New("on-gap: must be stop, baseline or go-on")
	case (c.Start == StartBaseline || c.OnGap == GapBaseline) && c.Baseline == nil:
		return errors.New("there is nothing that takes a baseline")
	case c.Poll < 0 || c.PollGone < 0 || c.Settle < 0 || c.RetryFirst < 0 || c.RetryMax < 0 || c.Skew < 0 ||
		c.Inbox < 0 || c.InboxBytes < 0 || c.GapAttempts < 0:
		return errors.New("a limit is negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.PollGone = cmp.Or(c.PollGone, min(DefaultPollGone, c.Poll))
	c.Settle = cmp.Or(c.Settle, DefaultSettle)
	c.RetryFirst = cmp.Or(c.RetryFirst, DefaultRetryFirst)
	c.RetryMax = cmp.Or(c.RetryMax, DefaultRetryMax)
	c.Skew = cmp.Or(c.Skew, DefaultSkew)
	c.Start = cmp.Or(c.Start, StartNow)
	c.OnGap = cmp.Or(c.OnGap, GapStop)
	c.Inbox = cmp.Or(c.Inbox, DefaultInbox)
	c.InboxBytes = cmp.Or(c.InboxBytes, DefaultInboxBytes)
	c.GapAttempts = cmp.Or(c.GapAttempts, DefaultGapAttempts)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"carillon/delivery/retain"
	"carillon/internal/wallclock"
	"carillon/subscription"
)

// Limits that are the same for everyone.
const (
	// loadTimeout bounds what goes through much of a store at once: the members
	// of a shard that is gained, the logs that are trimmed.
	loadTimeout = 5 * time.Minute
	// engineTimeout is the deadline of every other call to an engine but Append,
	// so that one that hangs is noticed and tried again. It binds engines that
	// look at their context; where a disk does not answer, a call lasts as long
	// as that, and what needs it waits.
	engineTimeout = 30 * time.Second
	// lastSaves is the time for the positions when Run has ended all attempts.
	lastSaves = 5 * time.Second
	// headBatch is how many heads are read in one call.
	headBatch = 1000
	// DefaultMaxBytes is what the bodies of attempts may take, DefaultCacheBytes what is
	// held of what was read.
	DefaultMaxBytes   = 256 << 20
	DefaultCacheBytes = 64 << 20
	// DefaultRememberBytes bounds all logs together: beyond it, notifications that no subscription needs
	// go.
	DefaultRememberBytes = 1 << 30
	// DefaultKeepBytes is what all logs together may take.
	DefaultKeepBytes = 10 << 30
	// keepLonger is by how much what is kept may outlive Config.RetryFor.
	keepLonger = 24 * time.Hour
	// engineRetryFirst and engineRetryMax are the pauses while an engine is away.
	engineRetryFirst = 100 * time.Millisecond
	engineRetryMax   = 5 * time.Second
)

// Config is how a Dispatcher works. The zero value of a field stands for its
// default.
type Config struct {
	// MaxInFlight bounds the delivery attempts under way that are not slow.
	// Default 512.
	MaxInFlight int
	// MaxPerHost bounds those to one host (scheme, name and port of the
	// callback). Within it the bound adapts: a host whose attempts fail, time
	// out or turn slow gets half as many at a time, down to one, and each
	// success allows one more. Default 64, and never over MaxInFlight.
	MaxPerHost int
	// SlowAfter is when an attempt gives its slot back for another and goes on
	// as a slow one, so that callbacks which hang until the deadline do not
	// hold what healthy ones need. Default 250 ms.
	SlowAfter time.Duration
	// MaxSlow bounds the slow attempts, which come on top of MaxInFlight. A host gets a quarter of them,
	// on top of MaxPerHost; ConnsPerHost returns the connections that the Sender's transport must allow.
	// Default four times MaxInFlight; negative: no slow attempts, every attempt keeps its slot.
	MaxSlow int

	// MaxBytes bounds the bodies that attempts under way hold. A body counts once, however many attempts
	// it has. Bodies of at most 64 KiB do not count and never wait. Beyond the bound a body waits until
	// others are released, except that one larger than the whole bound may go at a time. Retries, and
	// attempts to hosts with slow attempts, get half. The cache (CacheBytes) and up to eight bodies that
	// are being read come on top. Default 256 MiB.
	MaxBytes int64

	// RetryFirst is the mean delay before the first retry; it doubles with
	// every failure in a row, with full jitter (uniform from 0 to twice the
	// mean). Default 5 s.
	RetryFirst time.Duration
	// RetryMax is the longest delay between two attempts; a Retry-After
	// beyond it is cut to it. Default 1 h.
	RetryMax time.Duration
	// RetryFor is how long after its acceptance a notification is still tried again. If it is older when
	// an attempt fails, it is given up and recorded as a gap (WebSub §7). That needs ten failures in a
	// row, or as many as RetryFor has room for the pauses between. Default 72 h.
	RetryFor time.Duration

	// FlushInterval is how long a change of position waits to be written with
	// others. Default 250 ms.
	FlushInterval time.Duration
	// FlushCount bounds the outcomes that are not written yet: at half of it
	// they are written without waiting for the interval, and at the whole no
	// attempt starts before they are. Default 65536, at least 2.
	FlushCount int

	// PublishTimeout is how long Publish waits for an append, which goes on
	// when its caller hangs up. An engine that does not look at its context
	// may go on with it for longer; Publish returns all the same. Default 30 s.
	PublishTimeout time.Duration
	// Surety says until when each shard is surely this process's. No attempt of a shard starts
	// after that. Nil: for ever.
	Surety *subscription.Surety
	// DrainTimeout is how long the end of Run waits for the attempts under
	// way before it breaks them off. Default 10 s. Saving their positions has
	// up to 5 s more.
	DrainTimeout time.Duration

	// HandoverTimeout is how long Lost waits for the attempts under way of the shard, and then for the
	// positions to be saved. Of shards that are lost one right after the other only the first have that
	// long. Once it has passed since the first Lost, an attempt is waited for no longer than SlowAfter, so
	// that callbacks which hang do not keep the shards from their next owners. All their saves together
	// have that long, so that an engine which hangs holds up the end of the process once, and not for
	// every shard. An attempt that is not waited for may come twice. Default 5 s.
	HandoverTimeout time.Duration

	// TrimInterval is how often the logs are trimmed. Default a fifth of
	// KeepAtLeast, from 1 s to 1 min.
	TrimInterval time.Duration
	// KeepAtLeast is the age before which no notification is trimmed, so that a
	// subscription which is still being verified loses nothing; but see KeepBytes for
	// a site that takes more than its share. Default 5 min.
	// Where several processes share an engine it must be at least four times
	// TrimInterval, as what the others tell of their cursors is up to three old.
	KeepAtLeast time.Duration
	// KeepFor is the age beyond which a notification is trimmed although a subscription still needs it,
	// which then has a gap. It bounds logs that nothing else would shorten: their subscriptions are in
	// shards without a process, or get less than is published. Default a day more than RetryFor, so that
	// giving up comes first, which also looks at age but tries up to ten times more. After a start, or
	// after the engine was away, nothing goes by age before RetryMax is over: every subscription has an
	// attempt first. At least KeepAtLeast; negative: no bound by age.
	KeepFor time.Duration
	// KeepBytes bounds the size of all logs together (TopicState.Bytes). Without it, subscriptions that do
	// not keep up could fill the engine, which would then refuse every publication. Beyond it the largest
	// sites of topics (topic.Site) are cut, all to the same size, and within each its largest topics,
	// oldest notifications first. So a small site does not pay for a huge one, nor a small topic for a
	// huge one. Notifications younger than KeepAtLeast stay at a site within its share. Where only one
	// site has any, they stay as well, on top of the bound. Default 10 GiB; negative: no bound.
	KeepBytes int64

	// RememberFor is the age up to which a notification stays that no subscription needs any
	// more, for who asks for it later: a Destination that was away, or for which it was given
	// up. 0, the default: KeepAtLeast. What KeepFor and KeepBytes say comes first.
	RememberFor time.Duration
	// RememberBytes is what all logs together may take before what is remembered goes, though it is
	// younger: of the sites and topics that take most, as KeepBytes has it, but never what a
	// subscription needs, nor what is younger than KeepAtLeast. So what is only remembered takes not
	// more than that. Default 1 GiB; negative: no bound but KeepBytes.
	RememberBytes int64

	// Clock returns the wall clock's time, by which leases end and notifications grow old. It may jump
	// both ways; a jump forward is believed after the longer of RetryMax and KeepAtLeast. Nil: the
	// system's clock.
	Clock func() time.Time

	// CacheBytes is how much of what was read from the logs is held in memory
	// for the next reader, beyond what attempts under way hold anyway.
	// Default 64 MiB; negative: nothing.
	CacheBytes int64
}

// ConnsPerHost returns how many attempts to one host may be under way, slow ones
// included. A transport that allows fewer connections has healthy callbacks wait
// for those of their host that hang.
func (c Config) ConnsPerHost() int {
	c = c.withDefaults()
	if c.MaxSlow == 0 {
		return c.MaxPerHost
	}
	return c.MaxPerHost + c.slowPerHost()
}

// slowPerHost is how many slow attempts one host may have, if there are any.
func (c Config) slowPerHost() int { return max(1, c.MaxSlow/4) }

// withDefaults returns the configuration with every default filled in.
func (c Config) withDefaults() Config {
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 512)
	c.MaxPerHost = min(cmp.Or(c.MaxPerHost, 64), c.MaxInFlight)
	c.SlowAfter = cmp.Or(c.SlowAfter, 250*time.Millisecond)
	c.MaxSlow = max(cmp.Or(c.MaxSlow, 4*c.MaxInFlight), 0)
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	c.RetryFirst = cmp.Or(c.RetryFirst, 5*time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, time.Hour)
	c.RetryFor = cmp.Or(c.RetryFor, 72*time.Hour)
	c.FlushInterval = cmp.Or(c.FlushInterval, 250*time.Millisecond)
	c.FlushCount = cmp.Or(c.FlushCount, 65536)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, 30*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	c.HandoverTimeout = cmp.Or(c.HandoverTimeout, 5*time.Second)
	c.KeepAtLeast = cmp.Or(c.KeepAtLeast, 5*time.Minute)
	c.KeepFor = max(cmp.Or(c.KeepFor, max(c.KeepAtLeast, c.RetryFor+min(keepLonger, math.MaxInt64-c.RetryFor))), 0)
	c.KeepBytes = max(cmp.Or(c.KeepBytes, DefaultKeepBytes), 0)
	c.RememberBytes = max(cmp.Or(c.RememberBytes, DefaultRememberBytes), 0)
	c.TrimInterval = cmp.Or(c.TrimInterval, min(max(c.KeepAtLeast/5, time.Second), time.Minute))
	c.CacheBytes = max(cmp.Or(c.CacheBytes, DefaultCacheBytes), 0)
	return c
}

// validate names every field that is out of range, defaults being filled in.
// An engine with Marks is one that several processes share.
func (c Config) validate(marks bool) error {
	var errs []error
	positive := func(name string, v time.Duration) {
		if v <= 0 {
			errs = append(errs, fmt.Errorf("field %s is %s: it must be more than 0", name, v))
		}
	}
	positive("SlowAfter", c.SlowAfter)
	positive("RetryFirst", c.RetryFirst)
	positive("RetryMax", c.RetryMax)
	positive("RetryFor", c.RetryFor)
	positive("FlushInterval", c.FlushInterval)
	positive("PublishTimeout", c.PublishTimeout)
	positive("DrainTimeout", c.DrainTimeout)
	positive("HandoverTimeout", c.HandoverTimeout)
	positive("TrimInterval", c.TrimInterval)
	positive("KeepAtLeast", c.KeepAtLeast)
	if c.RememberFor < 0 {
		errs = append(errs, fmt.Errorf("field RememberFor is %s: it must not be negative", c.RememberFor))
	}
	if c.MaxInFlight < 1 {
		errs = append(errs, fmt.Errorf("field MaxInFlight is %d: it must be at least 1", c.MaxInFlight))
	} else if c.MaxPerHost < 1 {
		errs = append(errs, fmt.Errorf("field MaxPerHost is %d: it must be at least 1", c.MaxPerHost))
	}
	if c.MaxBytes < 1 {
		errs = append(errs, fmt.Errorf("field MaxBytes is %d: it must be at least 1", c.MaxBytes))
	}
	if c.FlushCount < 2 {
		errs = append(errs, fmt.Errorf("field FlushCount is %d: it must be at least 2", c.FlushCount))
	}
	if c.KeepFor > 0 && c.KeepFor < c.KeepAtLeast {
		errs = append(
			errs,
			fmt.Errorf("field KeepFor is %s: it must not be shorter than KeepAtLeast (%s)", c.KeepFor, c.KeepAtLeast),
		)
	}
	if marks && c.KeepAtLeast/(retain.MarkLife+1) < c.TrimInterval {
		errs = append(errs, fmt.Errorf(
			"field KeepAtLeast is %s: it must be at least %d times TrimInterval (%s), as the engine is shared",
			c.KeepAtLeast, retain.MarkLife+1, c.TrimInterval))
	}
	if c.RetryFirst > c.RetryMax {
		errs = append(
			errs,
			fmt.Errorf("field RetryFirst is %s: it must not be longer than RetryMax (%s)", c.RetryFirst, c.RetryMax),
		)
	}
	return errors.Join(errs...)
}

// retention is what the Trimmer goes by.
func (c Config) retention() retain.Config {
	return retain.Config{
		Interval: c.TrimInterval, KeepAtLeast: c.KeepAtLeast, KeepFor: c.KeepFor, KeepBytes: c.KeepBytes,
		RememberFor: c.RememberFor, RememberBytes: c.RememberBytes, RetryMax: c.RetryMax,
	}
}

// newClock returns the clock of a Dispatcher. It doubts for so long that nothing is younger than
// KeepAtLeast that was there before, and everybody has had an attempt for it.
func newClock(cfg Config) *wallclock.Clock {
	return wallclock.New(wallclock.Config{Wall: cfg.Clock, DoubtFor: max(cfg.KeepAtLeast, cfg.RetryMax)})
}

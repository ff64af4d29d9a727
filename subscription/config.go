package subscription

import (
	"fmt"
	"time"

	"carillon/internal/standing"
)

// Config holds the limits of a Service. A field that is zero takes its default.
type Config struct {
	// Lease bounds the leases that are granted.
	Lease LeaseRules

	// Concurrency is how many requests are worked on at once: topic checks,
	// verifications and denials together. Default 256.
	Concurrency int
	// PerHost is how many of them may wait for one site, so that a host that hangs does not hold every
	// place. All names in one registered domain are one site (see topic.Site). At most Concurrency;
	// default 4.
	PerHost int
	// SlowAfter is when a request that still waits for its answer gives its place back and goes on beside
	// the others; MaxSlow is how many may do so. A request to a site that did not answer the last time, or
	// that makes others wait, begins as one of these, of which the site may take a quarter. So a thousand
	// hosts that hang do not hold up those that answer. Default 1 s and 1,024.
	SlowAfter time.Duration
	MaxSlow   int
	// MaxPending is how many requests may be unsettled before Submit answers
	// ErrBusy. It bounds memory, a few hundred bytes each. A tenth of it is for
	// requests whose subscription stands. Default 100,000.
	MaxPending int

	// MaxPendingPerHost is how many requests may wait for one site before Submit answers
	// ErrHostBusy: for that of the topic until it is checked, and then for that of
	// the callback. MaxPendingTopics is how many topics of one site may wait for their
	// check; requests for the same topic are bounded by MaxPendingPerHost alone. MaxPendingPerClient
	// is how many of one client (Wish.Client) may be unsettled before it answers
	// ErrClientBusy; a /48 network of IPv6 may have four times as many. Default 10,000,
	// 2,000 and 2,000.
	MaxPendingPerHost   int
	MaxPendingTopics    int
	MaxPendingPerClient int
	// BadAfter is how many requests in a row a site has refused, or not answered, when
	// it comes into bad standing: callbacks that did not confirm, topics that do not name
	// the hub. It is then asked once in BadEvery, and no more than MaxPendingBad
	// requests may wait for it; one success ends that. BadSites is how many sites that
	// failed are remembered, some 200 bytes each, and forgotten with the process. Default
	// 20, 1 s, 100 and 16,384.
	BadAfter      int
	BadEvery      time.Duration
	MaxPendingBad int
	BadSites      int

	// AskTimeout ends a topic check, a verification request or a denial that
	// takes longer; it counts as no answer. Default 15 s.
	AskTimeout time.Duration
	// Retries is how often a topic check, verification or denial is repeated
	// when there is no answer, 1 to 100; default 3.
	Retries int
	// RetryFirst is the pause before the first of them, which then doubles up
	// to RetryMax; each pause varies by a tenth. Defaults 8 s and 40 s: three
	// repetitions within a minute.
	RetryFirst time.Duration
	RetryMax   time.Duration
	// TopicFor bounds a topic check with its repetitions and the pauses between them, but not the wait for
	// its turn: the subscriber to a topic that hangs soon gets its denial. Default 30 s.
	TopicFor time.Duration

	// StoreTimeout ends a call of the store that takes longer; it counts as
	// store trouble. Default 5 s.
	StoreTimeout time.Duration

	// SweepInterval is the pause between two searches for subscriptions whose
	// lease is over: how long after its end one may last. Default 10 s. One whose
	// renewal is under way lasts until that is settled, at most
	// 2 × (Retries+1) × (AskTimeout + RetryMax) beyond its lease: 440 s with the
	// defaults. Nothing is delivered meanwhile.
	SweepInterval time.Duration
	// SweepPortion is how many of them are read at a time. Default 500.
	SweepPortion int

	// Clock returns the wall clock's time, by which leases end. Where it is set forward while Run runs, no
	// subscription ends for an hour, as it may be set back again; nothing is delivered meanwhile to those
	// whose lease is over. Nil: the system's clock.
	Clock func() time.Time

	// Surety says until when each shard is surely this process's. After that no subscription
	// is ended, by a sweep, Remove or Deny. Requests are carried on: they are settled by their
	// tokens, so a late outcome changes nothing. Nil: for ever.
	Surety *Surety

	// DrainTimeout is how long Run waits at its end for requests in flight. Default 10 s.
	DrainTimeout time.Duration
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (c Config) withDefaults() Config {
	c.Lease = c.Lease.withDefaults()
	orDefault(&c.Concurrency, 256)
	orDefault(&c.PerHost, min(4, c.Concurrency))
	orDefault(&c.SlowAfter, time.Second)
	orDefault(&c.MaxSlow, 1024)
	orDefault(&c.MaxPending, 100_000)
	orDefault(&c.MaxPendingPerHost, 10_000)
	orDefault(&c.MaxPendingTopics, 2000)
	orDefault(&c.MaxPendingPerClient, 2000)
	orDefault(&c.BadAfter, standing.DefaultFailures)
	orDefault(&c.BadEvery, standing.DefaultEvery)
	orDefault(&c.MaxPendingBad, 100)
	orDefault(&c.BadSites, standing.DefaultSites)
	orDefault(&c.AskTimeout, 15*time.Second)
	orDefault(&c.Retries, 3)
	orDefault(&c.RetryFirst, 8*time.Second)
	orDefault(&c.RetryMax, max(40*time.Second, c.RetryFirst))
	orDefault(&c.TopicFor, 30*time.Second)
	orDefault(&c.StoreTimeout, 5*time.Second)
	orDefault(&c.SweepInterval, 10*time.Second)
	orDefault(&c.SweepPortion, 500)
	orDefault(&c.DrainTimeout, 10*time.Second)
	return c
}

// renewalTime is how long a renewal may be under way: as long as a topic check and
// a verification with all their repetitions.
func (c Config) renewalTime() time.Duration {
	return 2 * time.Duration(c.Retries+1) * (c.AskTimeout + c.RetryMax)
}

// Validate reports whether a Service can work with these limits.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := c.Lease.Validate(); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Concurrency", c.Concurrency},
		{"PerHost", c.PerHost},
		{"MaxSlow", c.MaxSlow},
		{"MaxPending", c.MaxPending},
		{"MaxPendingPerHost", c.MaxPendingPerHost},
		{"MaxPendingTopics", c.MaxPendingTopics},
		{"MaxPendingPerClient", c.MaxPendingPerClient},
		{"BadAfter", c.BadAfter},
		{"MaxPendingBad", c.MaxPendingBad},
		{"BadSites", c.BadSites},
		{"Retries", c.Retries},
		{"SweepPortion", c.SweepPortion},
	} {
		if f.value < 1 {
			return fmt.Errorf("the limit %s must be at least 1, not %d", f.name, f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"SlowAfter", c.SlowAfter},
		{"BadEvery", c.BadEvery},
		{"AskTimeout", c.AskTimeout},
		{"RetryFirst", c.RetryFirst},
		{"RetryMax", c.RetryMax},
		{"TopicFor", c.TopicFor},
		{"StoreTimeout", c.StoreTimeout},
		{"SweepInterval", c.SweepInterval},
		{"DrainTimeout", c.DrainTimeout},
	} {
		if f.value <= 0 {
			return fmt.Errorf("the limit %s must be more than 0, not %v", f.name, f.value)
		}
	}
	switch {
	case c.PerHost > c.Concurrency:
		return fmt.Errorf("the limit PerHost must be at most Concurrency (%d), not %d", c.Concurrency, c.PerHost)
	case c.Retries > 100:
		return fmt.Errorf("the limit Retries must be at most 100, not %d", c.Retries)
	case c.RetryMax < c.RetryFirst:
		return fmt.Errorf("the limit RetryMax must be at least RetryFirst (%v), not %v", c.RetryFirst, c.RetryMax)
	}
	return nil
}

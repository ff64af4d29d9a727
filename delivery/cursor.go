package delivery

import (
	"context"
	"fmt"
	"iter"
	"time"

	"carillon/subscription"
)

// Position is where a subscription stands in its topic's log, and what it owes
// besides.
type Position struct {
	// Settled is the cursor: everything up to it is delivered, or given up
	// and recorded as a gap.
	Settled Seq
	// Failures counts the failed attempts in a row; 0: the last one succeeded.
	Failures uint32
	// NextAttempt is when the next attempt is due; zero: at once.
	NextAttempt time.Time
	// LastFailure is the class of the last failed attempt, and LastStatus the
	// status code it got, 0 if it got none. Both are zero where Failures is 0.
	LastFailure Class
	LastStatus  uint16
	// ReplayNext to ReplayLast is a stretch of the log that is delivered once more
	// while the cursor rests; ReplayNext is the first of it that is still to be
	// settled. Both are 0 without one.
	ReplayNext, ReplayLast Seq
}

// Gap is a stretch of a topic's log that a subscription will not get.
type Gap struct {
	Subscription subscription.ID
	// First and Last are the sequence numbers of the stretch, both included.
	First, Last Seq
	Reason      GapReason
	// Failure is the class of the attempt that ended it, where one did.
	Failure Class
	At      time.Time
	// Replayed is when all of the stretch that the log still had was delivered after
	// all; zero: it was not.
	Replayed time.Time
}

// GapReason gives the reason why a stretch was passed over.
type GapReason uint8

// The reasons for a gap. The numbers are stored and never change.
const (
	// GapGivenUp: the retry limits were reached (WebSub §7).
	GapGivenUp GapReason = 1
	// GapTrimmed: the log no longer had it.
	GapTrimmed GapReason = 2
)

// Tenure proves that this process owns a shard: the epoch rises with every
// change of owner, and an engine refuses cursor writes under an old one.
type Tenure struct {
	Shard subscription.Shard
	Epoch uint64
}

// Member is a subscription with its position, as a start finds it.
type Member struct {
	subscription.Subscription
	Position
}

// Advance is the change of one subscription's position.
type Advance struct {
	Subscription subscription.ID
	Position     Position
}

// Batch is a set of changes in one shard, written together or not at all. Every
// subscription in it is of that shard.
type Batch struct {
	Tenure   Tenure
	Advances []Advance
	Gaps     []Gap
}

// CheckBatches refuses batches with a subscription of another shard: engines call it before they write
// anything.
func CheckBatches(batches []Batch) error {
	for _, b := range batches {
		if b.Tenure.Shard >= subscription.Shards {
			return fmt.Errorf("there is no shard %d", b.Tenure.Shard)
		}
		for _, a := range b.Advances {
			if subscription.ShardOf(a.Subscription) != b.Tenure.Shard {
				return fmt.Errorf("subscription %s is not in shard %d", a.Subscription, b.Tenure.Shard)
			}
		}
		for _, g := range b.Gaps {
			if subscription.ShardOf(g.Subscription) != b.Tenure.Shard {
				return fmt.Errorf("subscription %s is not in shard %d", g.Subscription, b.Tenure.Shard)
			}
		}
	}
	return nil
}

// Cursors keeps the positions of subscriptions and their gaps. All methods may
// be called from any goroutine; trouble with the engine itself is wrapped as
// ErrUnavailable.
type Cursors interface {
	// Members gives every subscription of the shard with its position, in one
	// scan. A subscription without a stored position, or with one before
	// its Start, stands at its Start. Positions whose subscription is gone are not given.
	Members(ctx context.Context, s subscription.Shard) iter.Seq2[Member, error]

	// Save writes the batches, each whole or not at all. It is durable when it
	// returns nil. No cursor moves back: a position whose Settled lies before
	// the stored one is left out, as that of a call which arrives late; a replay may
	// move either way, and ends with a position that has none. A batch under an old epoch is refused: the error then is
	// a *FencedError that names the shards, and the other batches are
	// written. A position or a gap for a subscription that is gone is left
	// out. Where a part of the engine is away it is a *SaveError that names the
	// shards there, perhaps beside a *FencedError, and the other batches are
	// written. A gap takes the place of one with the same First. Subscriptions
	// outside the batch's shard are an error, and nothing is written.
	Save(ctx context.Context, batches []Batch) error

	// Gaps returns the latest gaps of a subscription, newest first, at most
	// limit. The latest 100 are kept at least.
	Gaps(ctx context.Context, id subscription.ID, limit int) ([]Gap, error)

	// Gapped gives every subscription of the shard that has a gap, kept and not
	// Replayed, once each.
	Gapped(ctx context.Context, s subscription.Shard) iter.Seq2[subscription.ID, error]
}

// Holder is who works on the shards that a process owns.
type Holder interface {
	// Gained takes over a shard: when it returns nil, the work on it has begun. It
	// is broken off when ctx ends.
	Gained(ctx context.Context, t Tenure) error
	// Lost ends the work on a shard. The work under way is finished, within a bound, and saved if the
	// engine still takes it under the old epoch. It is called once for every Gained, also for one that
	// failed.
	Lost(s subscription.Shard)
	// Sure sets the time until which no other process can own the gained and not lost shards; the time of
	// the doubted shards stays as it was. Nothing new is begun after that, until a later call. By the
	// monotonic clock; never called: for ever.
	Sure(until time.Time, doubted ...subscription.Shard)
}

// Shards is how a process comes to own shards and learns that it lost them.
type Shards interface {
	// Run takes shards, this process's fair part of them where several share
	// an engine, and keeps them until ctx ends. It calls Gained when a shard is
	// this process's, before the shard's members are read, and Lost when it
	// no longer is, or shall be another's: one of the two at a time. Where
	// Gained fails with ErrUnavailable or ErrFenced, Run gives the shard back
	// and takes it again later; with any other error it ends. When Run
	// returns, every shard was handed back, after Lost; it returns nil when
	// ctx ended.
	//
	// An engine that is away is waited for where processes share it, and ends
	// Run with ErrUnavailable where this one has it to itself.
	Run(ctx context.Context, h Holder) error
}

// Marks gives the processes that share an engine the position of the slowest subscription to each
// topic, so that a log can be trimmed below all of them. An engine of one process has no Marks. All
// methods may be called from any goroutine; trouble with the engine itself is wrapped as
// ErrUnavailable.
type Marks interface {
	// Mark records the lowest saved cursor of every topic, by key, that has
	// subscriptions in the shard; it takes the place of what was noted for
	// the shard before. Under an old epoch it is a *FencedError.
	Mark(ctx context.Context, t Tenure, lowest map[string]Seq) error

	// Lowest returns the lowest mark of each topic over all shards. It is not
	// ok where a shard was not marked since the time given.
	Lowest(ctx context.Context, since time.Time) (lowest map[string]Seq, ok bool, err error)
}

package report

import (
	"slices"
	"sort"

	"carillon/delivery"
	"carillon/subscription"
)

// Fate is the outcome of a notification for one subscription that was to get it.
type Fate uint8

// The fates.
const (
	FateDelivered Fate = iota // also one that was replayed
	FatePending               // still to come, and the last attempt did not fail
	FateFailing               // still to come, and the last attempt failed
	FateGivenUp               // the retry limits were reached (WebSub §7)
	FateTrimmed               // the log no longer had it
)

var fateNames = [...]string{"delivered", "pending", "failing", "given_up", "trimmed"}

// String returns the fate's name.
func (f Fate) String() string {
	if int(f) < len(fateNames) {
		return fateNames[f]
	}
	return "unknown"
}

// Tally gives the outcome of a notification, over the subscriptions that there are now and
// that began before it. Subscribers = Delivered + Pending + GivenUp + Trimmed.
type Tally struct {
	Seq         delivery.Seq
	Subscribers int
	Delivered   int
	Pending     int
	Failing     int // of those pending
	GivenUp     int
	Trimmed     int
}

// Look is what is seen of a subscription to gives the outcome of notifications.
type Look struct {
	ID             subscription.ID
	Start, Settled delivery.Seq
	Next, Last     delivery.Seq // of its replay, 0: none
	Gapped         bool         // it has a gap that was not replayed
	Failing        bool         // the last attempt failed
}

// fate reports the outcome of a notification after the start, given the gaps.
func (l *Look) fate(seq delivery.Seq, gaps []delivery.Gap) Fate {
	if seq <= l.Settled {
		i := slices.IndexFunc(
			gaps, func(g delivery.Gap) bool { return g.Replayed.IsZero() && g.First <= seq && seq <= g.Last },
		)
		switch {
		case i < 0:
			return FateDelivered
		case l.Next <= seq && seq <= l.Last:
			// A replay comes to it.
		case seq < l.Next && l.Next <= gaps[i].Last:
			return FateDelivered // a replay is in the midst of the gap, and past this
		case gaps[i].Reason == delivery.GapTrimmed:
			return FateTrimmed
		default:
			return FateGivenUp
		}
	}
	if l.Failing {
		return FateFailing
	}
	return FatePending
}

// counting is a walk that counts: while it goes on, tallies hold by how much more there
// is of each than of the one before.
type counting struct {
	seqs    []delivery.Seq // in order, each once
	tallies []Tally
}

// count counts a subscription, unless it may have a gap among what it has settled of seqs.
func (c *counting) count(l *Look) (gapped bool) {
	first := sort.Search(len(c.seqs), func(i int) bool { return c.seqs[i] > l.Start })
	ahead := first + sort.Search(len(c.seqs)-first, func(i int) bool { return c.seqs[first+i] > l.Settled })
	if gapped = l.Gapped && first < ahead; !gapped && first < len(c.seqs) {
		c.tallies[first].Delivered++
		if ahead < len(c.seqs) {
			c.tallies[ahead].Delivered--
		}
	}
	if ahead < len(c.seqs) {
		c.tallies[ahead].Pending++
		if l.Failing {
			c.tallies[ahead].Failing++
		}
	}
	return gapped
}

// sum ends the walk.
func (c *counting) sum() {
	for i := range c.tallies {
		t := &c.tallies[i]
		if i > 0 {
			before := &c.tallies[i-1]
			t.Delivered += before.Delivered
			t.Pending += before.Pending
			t.Failing += before.Failing
		}
		t.Subscribers = t.Delivered + t.Pending
	}
}

// countGapped counts what a subscription with gaps has settled.
func (c *counting) countGapped(l *Look, gaps []delivery.Gap) {
	for i, seq := range c.seqs {
		if seq <= l.Start || seq > l.Settled {
			continue
		}
		t := &c.tallies[i]
		t.Subscribers++
		switch l.fate(seq, gaps) {
		case FateDelivered:
			t.Delivered++
		case FateGivenUp:
			t.GivenUp++
		case FateTrimmed:
			t.Trimmed++
		case FateFailing:
			t.Failing++
			t.Pending++
		case FatePending:
			t.Pending++
		}
	}
}

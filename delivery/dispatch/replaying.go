package dispatch

import (
	"cmp"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
)

// A replay delivers a stretch of the log to one subscription once more (decision 28):
//
//	log      1 2 3 4 5 6 7 8 9
//	               ▲   ▲ ▲   ▲
//	            next last│   head     first 4 and 5 again, then what is behind the cursor
//	                  settled
//
// It is a part of the position: it is saved with it and goes on where it was after a
// restart, or in another process. While there is one the cursor rests.
//
// Gaps that it fills are marked as Replayed one by one, in the batch that moves next past
// their end. So that this is right also for who comes to a replay half way through, a gap
// is cut in two where the replay begins, where it had to pass something over and where
// it ends. What holds at any time: of a gap that is not Replayed and that next is in the
// midst of, everything before next was delivered again.

// replayTries is how often each notification of a replay is tried.
const replayTries = 10

// replay is one that is under way. While there is a flight for its entry only that one's
// landing changes it. Guarded by table.mu otherwise.
type replay struct {
	next, last delivery.Seq
	// gaps are those from next to last that were not replayed, by their First; known:
	// they were read. others: there are more that were not.
	gaps          []delivery.Gap
	known, others bool
	told          replayTold
}

// replayTold is what the log line at the end of a replay counts. It begins anew where another process,
// or this one after a restart, goes on with it.
type replayTold struct {
	first                  delivery.Seq // where it began
	sent, givenUp, untried int          // numbers: delivered, failed to the last try, never tried
	missed                 delivery.Seq // the first that was not delivered, 0: none
	early                  bool
}

// take takes over the gaps of the subscription, as they were read.
func (r *replay) take(gaps []delivery.Gap) {
	r.known = true
	r.others = r.others || len(gaps) == report.MaxGaps // there may be more
	for _, g := range gaps {
		switch {
		case !g.Replayed.IsZero():
		case g.Last < r.next, g.First > r.last:
			r.others = true
		default:
			r.gaps = append(r.gaps, g)
		}
	}
	slices.SortFunc(r.gaps, func(a, b delivery.Gap) int { return cmp.Compare(a.First, b.First) })
}

// deliver records that everything from next to a number was delivered again, and returns the gaps to
// be stored.
func (r *replay) deliver(to delivery.Seq, at time.Time) (changed []delivery.Gap) {
	to = min(to, r.last)
	for len(r.gaps) > 0 && r.gaps[0].First <= to {
		g := r.gaps[0]
		if rest := g; g.Last > to {
			if to < r.last {
				break // not yet
			}
			rest.First, g.Last = to+1, to
			changed = append(changed, rest)
			r.others = true
		}
		g.Replayed = at
		changed = append(changed, g)
		r.gaps = r.gaps[1:]
	}
	r.next = max(r.next, to+1)
	return changed
}

// pass records that everything from next to a number was not delivered, and returns the gaps to be
// stored.
func (r *replay) pass(to delivery.Seq) (changed []delivery.Gap) {
	var left []delivery.Gap
	for _, g := range r.gaps {
		if g.First > to {
			left = append(left, g)
			continue
		}
		whole := g
		if g.First < r.next {
			before := g
			before.Last, before.Replayed = r.next-1, time.Now()
			g.First = r.next
			changed = append(changed, before)
		}
		if g.Last > to {
			rest := g
			g.Last, rest.First = to, to+1
			if changed = append(changed, rest); rest.First <= r.last {
				left = append(left, rest)
			}
		}
		if g != whole && g.First <= g.Last {
			changed = append(changed, g)
		}
		r.others = true
	}
	r.gaps = left
	r.next = max(r.next, to+1)
	return changed
}

// miss counts what is passed over, for the log; tried: one of it was, to the last try.
func (r *replay) miss(to delivery.Seq, tried bool) {
	if r.told.missed == 0 {
		r.told.missed = r.next
	}
	r.told.untried += int(min(to, r.last) - r.next + 1)
	if tried {
		r.told.untried--
		r.told.givenUp++
	}
}

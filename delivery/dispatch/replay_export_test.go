package dispatch

import (
	"time"

	"carillon/delivery"
)

// ReplayTries is how often each notification of a replay is tried.
const ReplayTries = replayTries

// Replaying is the bookkeeping of a replay, for tests against a model.
type Replaying struct{ r replay }

// NewReplaying is a replay that begins at a place, and how the gaps are to be stored then.
func NewReplaying(from, last delivery.Seq, gaps []delivery.Gap) (*Replaying, []delivery.Gap) {
	p := &Replaying{replay{next: 1, last: last}}
	p.r.take(gaps)
	return p, p.r.pass(from - 1)
}

// Resumed is a replay that goes on with what is stored.
func Resumed(next, last delivery.Seq, gaps []delivery.Gap) *Replaying {
	p := &Replaying{replay{next: next, last: last}}
	p.r.take(gaps)
	return p
}

// Next is the place that comes next.
func (p *Replaying) Next() delivery.Seq { return p.r.next }

// Deliver and Pass move on up to a place.
func (p *Replaying) Deliver(to delivery.Seq, at time.Time) []delivery.Gap { return p.r.deliver(to, at) }
func (p *Replaying) Pass(to delivery.Seq) []delivery.Gap                  { return p.r.pass(to) }

// Gapped reports whether gaps are left, at the end.
func (p *Replaying) Gapped() bool { return p.r.others }

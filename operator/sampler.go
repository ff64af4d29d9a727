package operator

import (
	"context"
	"slices"
	"sync"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
)

// The last minutes are remembered in steps. Steps end at whole multiples of stepTime of the
// wall clock, so that those of several processes can be added up.
const (
	stepTime = 5 * time.Second
	steps    = 120
)

// sample is a step of one process, with what percentiles of several are made of.
type sample struct {
	End       int64          `json:"end"` // Unix seconds
	Seconds   float64        `json:"seconds"`
	Published uint64         `json:"published,omitempty"`
	Delivered uint64         `json:"delivered,omitempty"`
	Failed    map[string]int `json:"failed,omitempty"`
	// Latency counts attempts by bucket of a report.Latency, those buckets that have any.
	Latency map[int]uint64 `json:"latency,omitempty"`
	Behind  int            `json:"behind,omitempty"`
}

// sampler remembers the latest steps.
type sampler struct {
	mu   sync.Mutex
	ring []sample // the oldest first. Owned by mu.
}

// run takes a sample at the end of each step until ctx ends.
func (s *sampler) run(ctx context.Context, totals func() report.Totals) {
	before, began := totals(), time.Now()
	for {
		now := time.Now()
		end := now.Truncate(stepTime).Add(stepTime)
		timer := time.NewTimer(end.Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		after, ended := totals(), time.Now()
		s.add(sampleOf(end, ended.Sub(began), before, after))
		before, began = after, ended
	}
}

// add remembers a step, in the place of the oldest.
func (s *sampler) add(one sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) == steps {
		s.ring = slices.Delete(s.ring, 0, 1)
	}
	s.ring = append(s.ring, one)
}

func (s *sampler) all() []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ring)
}

// sampleOf is what happened between two looks.
func sampleOf(end time.Time, took time.Duration, before, after report.Totals) sample {
	one := sample{
		End: end.Unix(), Seconds: took.Seconds(), Published: after.Published - before.Published, Behind: after.Behind,
	}
	for c := range after.Attempts {
		n := after.Attempts[c] - before.Attempts[c]
		switch class := delivery.Class(c); {
		case n == 0 || class == delivery.ClassNone:
		case class == delivery.ClassDelivered:
			one.Delivered = n
		default:
			if one.Failed == nil {
				one.Failed = map[string]int{}
			}
			one.Failed[class.String()] = int(n)
		}
	}
	for i, n := range after.Latency.Minus(before.Latency) {
		if n > 0 {
			if one.Latency == nil {
				one.Latency = map[int]uint64{}
			}
			one.Latency[i] = n
		}
	}
	return one
}

// series adds up the steps of several processes. Their length is that of the longest: a process that
// was held up reports more at once.
func series(all [][]sample) []Step {
	byEnd := map[int64]*Step{}
	latency := map[int64]report.Latency{}
	for _, samples := range all {
		for _, one := range samples {
			step := byEnd[one.End]
			if step == nil {
				step = &Step{At: time.Unix(one.End, 0).UTC(), Failed: map[string]int{}}
				byEnd[one.End] = step
			}
			step.Seconds = max(step.Seconds, one.Seconds)
			step.Published += int(one.Published)
			step.Delivered += int(one.Delivered)
			step.Behind += one.Behind
			for class, n := range one.Failed {
				step.Failed[class] += n
			}
			sum := latency[one.End]
			for bucket, n := range one.Latency {
				if bucket >= 0 && bucket < len(sum) {
					sum[bucket] += n
				}
			}
			latency[one.End] = sum
		}
	}
	out := make([]Step, 0, len(byEnd))
	for end, step := range byEnd {
		l := latency[end]
		step.P50, step.P90, step.P99 = l.Quantile(.5).Seconds(), l.Quantile(.9).Seconds(), l.Quantile(.99).Seconds()
		out = append(out, *step)
	}
	slices.SortFunc(out, func(a, b Step) int { return a.At.Compare(b.At) })
	if len(out) > steps {
		out = out[len(out)-steps:]
	}
	return out
}

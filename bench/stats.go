package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// quantile returns the exact quantile of the figures, which it sorts; NaN for no figures.
func quantile(of []float64, q float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	slices.Sort(of)
	return of[max(0, int(math.Ceil(q*float64(len(of))))-1)]
}

// median is the median of one figure of each.
func median[T any](of []T, figure func(T) float64) float64 {
	figures := make([]float64, len(of))
	for i, x := range of {
		figures[i] = figure(x)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func ms(f float64) string { return fmt.Sprintf("%.2f ms", f) }

// usage is what one contestant needed for the deliveries of a round.
type usage struct {
	Deliveries int
	Wall, CPU  time.Duration
	// Commands is what the hub's Redis carried out for it, beyond what it does at rest.
	Commands float64
}

func (u usage) perSecond() float64    { return float64(u.Deliveries) / u.Wall.Seconds() }
func (u usage) commandsEach() float64 { return u.Commands / float64(u.Deliveries) }
func (u usage) cpuEach() float64      { return float64(u.CPU) / float64(u.Deliveries) }

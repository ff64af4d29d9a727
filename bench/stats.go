package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// quantile returns the exact quantile of the figures, which it sorts; NaN where there are none.
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
	slices.SortFunc(figures, cmp.Compare[float64])
	return figures[len(figures)/2]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package retain_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"carillon/delivery"
	"carillon/delivery/retain"

	"pgregory.net/rapid"
)

const (
	huge   = "https://example.com/huge/"
	middle = "https://example.com/middle/"
	small  = "https://example.com/small/"
	idle   = "https://example.com/idle/"
)

// The memory for losses until the next line is bounded; the sums are right, and the topic that lost
// most is named.
func TestLossesAreBounded(t *testing.T) {
	l := &retain.Loss{}
	l.Add(middle, delivery.Trimmed{Notifications: 5, Bytes: 5})
	l.Add(middle, delivery.Trimmed{Notifications: 4, Bytes: 4})
	l.Add(huge, delivery.Trimmed{Notifications: 8, Bytes: 8})
	l.Add(idle, delivery.Trimmed{})
	for i := range 10_000 {
		l.Add(fmt.Sprintf("%s%d", small, i), delivery.Trimmed{Notifications: 1, Bytes: 1})
		if kept := l.Kept(); kept > retain.MaxLossTopics {
			t.Fatalf("%d topics are remembered", kept)
		}
	}
	topics, worst := l.Summary()
	equal(t, "topics", topics, 10_002)
	equal(t, "that lost most", worst, middle)
	equal(t, "in all", l.Trimmed, delivery.Trimmed{Notifications: 10_017, Bytes: 10_017})
}

// The level is the highest under which all keep to the bound.
func TestWaterLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOf(rapid.Int64Range(1, 1000)).Draw(t, "sizes")
		bound := rapid.Int64Range(0, 5000).Draw(t, "bound")
		under := func(level int64) (sum int64) {
			for _, size := range sizes {
				sum += min(size, level)
			}
			return sum
		}
		level := retain.WaterLevel(sizes, bound)
		if under(level) > bound {
			t.Fatalf("under %d all take %d", level, under(level))
		}
		if level < math.MaxInt64 && under(level+1) <= bound {
			t.Fatalf("%d is not the highest: under one more all take %d", level, under(level+1))
		}
	})
}

// Whatever the logs are: all keep to the bound, a site that takes less than an equal
// part loses nothing, what a site has does not depend on how many topics it is
// spread over, and a single one is cut by its topics alone.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 1000), 1, 40).Draw(t, "sizes")
		sites := rapid.SliceOfN(rapid.IntRange(0, rapid.IntRange(0, 6).Draw(t, "most")), len(sizes), len(sizes)).Draw(t, "sites")
		bound := rapid.Int64Range(0, 5000).Draw(t, "bound")
		had, has, kept := map[int]int64{}, map[int]int64{}, int64(0)
		left, alone := retain.ShareOut(sites, sizes, bound)
		for i, site := range sites {
			had[site] += sizes[i]
			has[site] += left[i]
			kept += left[i]
		}
		if kept > bound {
			t.Fatalf("%d are kept", kept)
		}
		var totals []int64
		for _, total := range had {
			totals = append(totals, total)
		}
		level := retain.WaterLevel(totals, bound)
		for site := range had {
			if had[site] <= max(level, bound/int64(len(had))) && has[site] != had[site] {
				t.Fatalf("site %d had %d, within its share, and has %d", site, had[site], has[site])
			}
			if has[site] > level {
				t.Fatalf("site %d has %d of %d", site, has[site], level)
			}
		}
		if alone != (len(had) == 1) {
			t.Fatalf("%d sites, alone: %v", len(had), alone)
		}
		if alone {
			level := retain.WaterLevel(slices.Clone(sizes), bound)
			for i, size := range sizes {
				if left[i] != min(size, level) {
					t.Fatalf("%d is left of %d, with a level of %d", left[i], size, level)
				}
			}
		}
	})
}

// The sites of topics are computed once, in bounded memory, and looked up without taking any.
func TestSitesOfTopics(t *testing.T) {
	s := retain.NewSites()
	name := func(i int) string { return fmt.Sprintf("https://a%d.stranger.com/%d", i, i) }
	site := s.Of(name(0))
	for i := range retain.MaxKnownSites + 100 {
		if s.Of(name(i)) != site {
			t.Fatalf("%s is another site", name(i))
		}
	}
	equal(t, "remembered", s.Known(), retain.MaxKnownSites)
	if s.Of("https://honest.com/") == site {
		t.Error("two sites are one")
	}
	topic := name(7)
	equal(t, "allocations", testing.AllocsPerRun(100, func() { s.Of(topic) }), 0)
	s.Tidy(retain.MaxKnownSites / 2)
	equal(t, "remembered while it is of use", s.Known(), retain.MaxKnownSites)
	s.Tidy(10)
	equal(t, "remembered of what is gone", s.Known(), 0)
	equal(t, "told anew", s.Of(topic), site)
	equal(t, "none without a host", s.Of("x"), s.Of(""))
	if left, _ := retain.ShareOut(nil, nil, math.MaxInt64); left != nil {
		t.Error("something is left of nothing")
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

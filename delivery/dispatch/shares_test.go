package dispatch_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery/dispatch"

	"pgregory.net/rapid"
)

// A stranger who floods topics of his own, under as many names as he likes and without
// a subscription, pays for that himself, also with what is young: an honest
// subscriber who was away gets what waited for it.
func TestFloodPaysForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const good = "https://news.honest.com/good"
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{KeepBytes: 1000, CacheBytes: -1}, s)
		waits := d.listen(good, refuses)
		d.fill(good, 3)
		time.Sleep(20 * time.Minute) // it is old by now
		for range 5 {
			for i := range 8 {
				d.fill(fmt.Sprintf("https://a%d.stranger.com/%d", i, i), 5)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			n, _ := e.keeps(good)
			equal(t, "kept of the honest one", n, 3)
			if bytes := d.metric("log_bytes", ""); bytes > 1000 {
				t.Errorf("the logs take %v bytes", bytes)
			}
		}
		s.setAnswer(nil)
		s.take()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		sameSeqs(t, "delivered", s.seqs(), 1, 2, 3)
		wantGaps(t, "the honest one", e.gapsOf(waits.ID))
	})
}

// What is young goes by size only from a site that is above its share.
func TestYoungStaysWithinTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const one, two = "https://one.com/", "https://two.com/"
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{KeepBytes: 1000, CacheBytes: -1}, s)
		d.listen(one, refuses)
		d.listen(two, refuses)
		d.fill(one, 5)
		d.fill(two, 30)
		time.Sleep(time.Minute)
		synctest.Wait()
		n, _ := e.keeps(one)
		equal(t, "kept of the one within its share", n, 5)
		n, first := e.keeps(two)
		equal(t, "kept of the other", n, 5)
		equal(t, "the first of it", first, 26)
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
		left, alone := dispatch.ShareOut(sites, sizes, bound)
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
		level := dispatch.WaterLevel(totals, bound)
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
			level := dispatch.WaterLevel(slices.Clone(sizes), bound)
			for i, size := range sizes {
				if left[i] != min(size, level) {
					t.Fatalf("%d is left of %d, with a level of %d", left[i], size, level)
				}
			}
		}
	})
}

// The sites of topics are told once, in bounded memory, and looked up without
// taking any.
func TestSitesOfTopics(t *testing.T) {
	s := dispatch.NewSites()
	name := func(i int) string { return fmt.Sprintf("https://a%d.stranger.com/%d", i, i) }
	site := s.Of(name(0))
	for i := range dispatch.MaxKnownSites + 100 {
		if s.Of(name(i)) != site {
			t.Fatalf("%s is another site", name(i))
		}
	}
	equal(t, "remembered", s.Known(), dispatch.MaxKnownSites)
	if s.Of("https://honest.com/") == site {
		t.Error("two sites are one")
	}
	topic := name(7)
	equal(t, "allocations", testing.AllocsPerRun(100, func() { s.Of(topic) }), 0)
	s.Tidy(dispatch.MaxKnownSites / 2)
	equal(t, "remembered while it is of use", s.Known(), dispatch.MaxKnownSites)
	s.Tidy(10)
	equal(t, "remembered of what is gone", s.Known(), 0)
	equal(t, "told anew", s.Of(topic), site)
	equal(t, "none without a host", s.Of("x"), s.Of(""))
	if left, _ := dispatch.ShareOut(nil, nil, math.MaxInt64); left != nil {
		t.Error("something is left of nothing")
	}
}

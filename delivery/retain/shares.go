package retain

import (
	"cmp"
	"hash/maphash"
	"iter"
	"slices"

	"carillon/topic"
)

// maxKnownSites bounds the topics whose sites are remembered, some 40 bytes each. The sites of more
// are computed anew in each sweep, a microsecond or two each.
const maxKnownSites = 1 << 18

// siteID stands for a site (topic.Site). A stranger cannot choose two sites with one, as its seed is
// the process's own.
type siteID uint64

// sites finds the sites of topics. It belongs to trimLoop.
type sites struct {
	seed  maphash.Seed
	known map[uint64]siteID // by the topic's hash
}

func newSites() *sites { return &sites{maphash.MakeSeed(), map[uint64]siteID{}} }

// of returns the site of a topic.
func (s *sites) of(key string) siteID {
	at := maphash.String(s.seed, key)
	site, found := s.known[at]
	if !found {
		site = siteID(maphash.String(s.seed, topic.Site(key)))
		if len(s.known) < maxKnownSites {
			s.known[at] = site
		}
	}
	return site
}

// tidy forgets all where most of it may be of logs that are empty by now; topics is
// how many are not.
func (s *sites) tidy(topics int) {
	const few = 1024
	if len(s.known) > 2*topics+few {
		s.known = map[uint64]siteID{}
	}
}

// holding is what one log takes.
type holding struct {
	site  siteID
	bytes int64
}

// shares are what the logs may take where all together take too much.
type shares struct {
	levels map[siteID]int64 // what each log of a site may take; only of those that pay
	alone  bool             // there is one site only
}

// shareOut returns the shares by which all logs keep to the bound. Sites have their
// levels as logs have: those that take less than the level pay nothing, and the
// others are cut to it, each by a level for its own logs. So who has many topics
// has no more than who has one. logs are put in order.
func shareOut(logs []holding, bound int64) shares {
	slices.SortFunc(logs, func(a, b holding) int { return cmp.Compare(a.site, b.site) })
	var totals []int64
	for site := range bySite(logs) {
		totals = append(totals, total(site))
	}
	all := shares{levels: map[siteID]int64{}, alone: len(totals) == 1}
	level := waterLevel(totals, bound)
	var sizes []int64
	for site := range bySite(logs) {
		if total(site) <= level {
			continue
		}
		sizes = sizes[:0]
		for _, log := range site {
			sizes = append(sizes, log.bytes)
		}
		all.levels[site[0].site] = waterLevel(sizes, level)
	}
	return all
}

// bySite gives the logs of each site; they are in order.
func bySite(logs []holding) iter.Seq[[]holding] {
	return func(yield func([]holding) bool) {
		for len(logs) > 0 {
			n := 1
			for n < len(logs) && logs[n].site == logs[0].site {
				n++
			}
			if !yield(logs[:n]) {
				return
			}
			logs = logs[n:]
		}
	}
}

func total(logs []holding) (bytes int64) {
	for _, log := range logs {
		bytes += log.bytes
	}
	return bytes
}

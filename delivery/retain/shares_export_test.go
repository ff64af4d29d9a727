package retain

// MaxKnownSites bounds the topics whose sites are remembered.
const MaxKnownSites = maxKnownSites

// ShareOut reports what is left of logs, given by their sites and sizes, and whether there
// is one site only.
func ShareOut(of []int, sizes []int64, bound int64) (left []int64, alone bool) {
	var logs []holding
	for i, size := range sizes {
		logs = append(logs, holding{siteID(of[i]), size})
	}
	all := shareOut(logs, bound)
	for i, size := range sizes {
		if level, pays := all.levels[siteID(of[i])]; pays {
			size = min(size, level)
		}
		left = append(left, size)
	}
	return left, all.alone
}

// Sites finds the sites of topics.
type Sites struct{ *sites }

func NewSites() Sites { return Sites{newSites()} }

func (s Sites) Of(topic string) uint64 { return uint64(s.of(topic)) }
func (s Sites) Tidy(topics int)        { s.tidy(topics) }
func (s Sites) Known() int             { return len(s.known) }

package hub

// recentMost is how many pings each half of a recent remembers.
const recentMost = 2048

// recent remembers the pings that were carried out last, some thousands of them. The process that
// records a ping also gets the report of it, perhaps after it has fetched the topic, and must not
// fetch it twice. Its owner guards it with a mutex.
type recent struct {
	// keep: nothing is forgotten for now.
	keep        bool
	young, aged map[string]uint64 // by key: the Count
}

// add remembers a ping.
func (r *recent) add(key string, count uint64) {
	if r.young == nil || len(r.young) >= recentMost && !r.keep {
		r.young, r.aged = make(map[string]uint64), r.young
	}
	r.young[key] = max(count, r.count(key))
}

// count returns the highest Count of the key's pings that is remembered, or 0.
func (r *recent) count(key string) uint64 { return max(r.young[key], r.aged[key]) }

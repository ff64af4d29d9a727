package hub

import (
	"sync"
	"time"

	"carillon/topic"
)

// Bounds of the log lines about topics: any client may ping anything.
const (
	// noticeEvery is how often one topic is in such a line at most.
	noticeEvery = time.Hour
	// noticeMost bounds the lines of a minute for all topics.
	noticeMost = 20
	// noticeTopics is how many topics each half of the notices remembers.
	noticeTopics = 2048
)

// notices bounds the log lines of one kind: so many for each topic, and in all. Its methods may be
// called from any goroutine.
type notices struct {
	mu          sync.Mutex
	young, aged map[string]*notice // by the topic's key. Owned by mu.
	minute      time.Time          // in which lines were written. Owned by mu.
	lines       int                // of that minute. Owned by mu.
}

// notice is the latest line about a topic.
type notice struct {
	said   time.Time // zero: there was no room for a line
	untold int
}

// tell reports whether a line is to be written about the topic, and how many cases since its last line
// had none.
func (n *notices) tell(at topic.Address) (tell bool, untold int) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.of(at.Key())
	if !of.said.IsZero() && now.Sub(of.said) < noticeEvery || !n.room(now) {
		of.untold++
		return false, 0
	}
	untold = of.untold
	*of = notice{said: now}
	return true, untold
}

// of returns what is remembered of a topic. The caller holds mu.
func (n *notices) of(key string) *notice {
	if found := n.young[key]; found != nil {
		return found
	}
	found := n.aged[key]
	if found == nil {
		found = &notice{}
	}
	if n.young == nil || len(n.young) >= noticeTopics {
		n.young, n.aged = make(map[string]*notice), n.young
	}
	n.young[key] = found
	return found
}

// room takes one of the lines of this minute. The caller holds mu.
func (n *notices) room(now time.Time) bool {
	if now.Sub(n.minute) >= time.Minute {
		n.minute, n.lines = now, 0
	}
	n.lines++
	return n.lines <= noticeMost
}

package subscription

import "carillon/internal/standing"

// waits counts what is unsettled by whom it concerns: a request that waits for the check
// of its topic by the topic's site alone, as that site decides how long it waits, and from then
// on by its callback's. Its owner guards it.
type waits struct {
	sites    map[laneKey]int
	topics   map[string]int // requests that wait for the check of one topic
	distinct map[string]int // of those topics, how many are at one site
	clients  map[string]int // with the networks around them
}

func newWaits() waits {
	return waits{
		sites: make(map[laneKey]int), topics: make(map[string]int),
		distinct: make(map[string]int), clients: make(map[string]int),
	}
}

// waitsFor is who keeps a request waiting at its step.
func waitsFor(r Request, at step) laneKey {
	if at == stepValidate {
		return topicLane(r.Topic)
	}
	return callbackLane(r.Callback)
}

// add counts a job; those that the store holds no request of are not counted.
func (w waits) add(j *job) {
	if !j.bare {
		j.counted = waitsFor(j.req, j.step)
		w.count(j.counted, j.req.Topic, j.client, 1)
	}
}

// remove takes a job out that add has counted.
func (w waits) remove(j *job) {
	if j.counted != (laneKey{}) {
		w.count(j.counted, j.req.Topic, j.client, -1)
		j.counted = laneKey{}
	}
}

// moved counts a job by whom it waits for now.
func (w waits) moved(j *job) {
	if j.counted.peer == peerTopic && j.step != stepValidate {
		w.remove(j)
		w.add(j)
	}
}

func (w waits) count(at laneKey, topic, client string, n int) {
	change(w.sites, at, n)
	if at.peer == peerTopic {
		before := w.topics[topic]
		change(w.topics, topic, n)
		switch {
		case before == 0:
			change(w.distinct, at.site, 1)
		case before+n == 0:
			change(w.distinct, at.site, -1)
		}
	}
	if client != "" {
		change(w.clients, client, n)
	}
	if around := standing.Around(client); around != "" {
		change(w.clients, around, n)
	}
}

func change[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

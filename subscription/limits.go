package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/internal/standing"
)

// Later says that the same call may succeed after a while.
type Later struct {
	Err   error
	After time.Duration
}

// Error tells what is in the way.
func (l *Later) Error() string { return l.Err.Error() }

// Unwrap returns Err.
func (l *Later) Unwrap() error { return l.Err }

// later returns how long an error says to wait, or the pause where it does not say.
func later(err error, pause time.Duration) time.Duration {
	if l := (*Later)(nil); errors.As(err, &l) && l.After > 0 {
		return l.After
	}
	return pause
}

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

// admit takes a place among the pending for a request, until release is called.
func (s *Service) admit(ctx context.Context, r Request, client string) (release func(), err error) {
	release, err = s.enter(r, client, false)
	if err == nil {
		return release, nil
	}
	// Only where a bound is met, as it costs a look at the store.
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	if sub, lookErr := s.books.store.Get(ctx, r.ID); lookErr == nil && renews(r, sub) {
		return s.enter(r, client, true)
	}
	return nil, err
}

// enter is admit without a look at the store. Known: the subscription stands.
func (s *Service) enter(r Request, client string, known bool) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := waitsFor(r, firstStep(r.Mode))
	// One that replaces another needs no room, nor does a request of another
	// process's shard, which is not kept here, in all.
	if s.jobs[r.ID] == nil {
		if s.shards[ShardOf(r.ID)] != nil && s.full(known) {
			return nil, ErrBusy
		}
		if err := s.crowded(r, at, client); err != nil && !known {
			return nil, err
		}
	}
	s.reserved++
	s.waits.count(at, r.Topic, client, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reserved--
		s.waits.count(at, r.Topic, client, -1)
	}, nil
}

// renewalShare is which part of MaxPending is kept for those whose subscription stands.
const renewalShare = 10

// full tells whether there is no room for one more. The caller holds mu.
func (s *Service) full(known bool) bool {
	room := s.cfg.MaxPending
	if !known {
		room -= room / renewalShare
	}
	return len(s.jobs)+s.reserved >= room
}

// aroundFactor is how many times as much as one client the /48 network of IPv6 around it
// may have: a provider may give all of it to one customer.
const aroundFactor = 4

// crowded tells whether there is no room for one more of the client or for the sites;
// at is whom the request would wait for first. The caller holds mu.
func (s *Service) crowded(r Request, at laneKey, client string) error {
	if client != "" && s.waits.clients[client] >= s.cfg.MaxPendingPerClient ||
		s.waits.clients[standing.Around(client)] >= s.cfg.MaxPendingPerClient*aroundFactor {
		return &Later{ErrClientBusy, s.cfg.RetryFirst}
	}
	asked := []laneKey{callbackLane(r.Callback)}
	if at.peer == peerTopic {
		asked = append(asked, at)
		if s.waits.topics[r.Topic] == 0 && s.waits.distinct[at.site] >= s.cfg.MaxPendingTopics {
			return &Later{ErrHostBusy, s.cfg.RetryFirst}
		}
	}
	for _, site := range asked {
		switch waiting := s.waits.sites[site]; {
		case waiting >= s.cfg.MaxPendingPerHost:
			return &Later{ErrHostBusy, s.cfg.RetryFirst}
		case s.queue.bad(site) && waiting >= s.cfg.MaxPendingBad:
			// One place comes free in BadEvery, and others wait for it too.
			return &Later{errBad, time.Duration(s.cfg.MaxPendingBad/4+1) * s.cfg.BadEvery}
		}
	}
	return nil
}

// errBad is the ErrHostBusy of a site in bad standing.
var errBad = fmt.Errorf("%w, which refuses or does not answer", ErrHostBusy)

// reserve takes a place among the pending for a notice, unless they are too many.
func (s *Service) reserve(id ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[id] == nil && s.full(false) {
		return false
	}
	s.reserved++
	return true
}

func (s *Service) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved--
}

// note keeps how a site answered.
func (s *Service) note(site laneKey, a attitude) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.note(site, a, time.Now())
}

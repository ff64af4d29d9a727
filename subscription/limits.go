package subscription

import (
	"context"
	"errors"
	"time"
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

// waits counts what is unsettled by whom it concerns. Its owner guards it.
type waits struct {
	sites   map[laneKey]int
	clients map[string]int
}

func newWaits() waits {
	return waits{sites: make(map[laneKey]int), clients: make(map[string]int)}
}

// add counts a job n times; those that the store holds no request of are not counted.
func (w waits) add(j *job, n int) {
	if !j.bare {
		w.count(j.req, j.client, n)
	}
}

func (w waits) count(r Request, client string, n int) {
	change(w.sites, callbackLane(r.Callback), n)
	if r.Mode == ModeSubscribe {
		change(w.sites, topicLane(r.Topic), n)
	}
	if client != "" {
		change(w.clients, client, n)
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
	if !errors.Is(err, errBad) {
		return release, err
	}
	// Only for those in bad standing, as it costs a look at the store.
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
	// One that replaces another needs no room, nor does a request of another
	// process's shard, which is not kept here, in all.
	if s.jobs[r.ID] == nil {
		if s.shards[ShardOf(r.ID)] != nil && len(s.jobs)+s.reserved >= s.cfg.MaxPending {
			return nil, ErrBusy
		}
		if err := s.crowded(r, client, known); err != nil {
			return nil, err
		}
	}
	s.reserved++
	s.waits.count(r, client, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reserved--
		s.waits.count(r, client, -1)
	}, nil
}

// errBad is the ErrHostBusy of a site in bad standing.
var errBad = &hostBusy{}

type hostBusy struct{}

func (*hostBusy) Error() string { return ErrHostBusy.Error() + ", which refuses or does not answer" }
func (*hostBusy) Unwrap() error { return ErrHostBusy }

// crowded tells whether there is no room for one more of the client or for the sites.
// The caller holds mu.
func (s *Service) crowded(r Request, client string, known bool) error {
	if client != "" && s.waits.clients[client] >= s.cfg.MaxPendingPerClient {
		return &Later{ErrClientBusy, s.cfg.RetryFirst}
	}
	callback := callbackLane(r.Callback)
	if s.waits.sites[callback] >= s.cfg.MaxPendingPerHost {
		return &Later{ErrHostBusy, s.cfg.RetryFirst}
	}
	if known {
		return nil
	}
	asked := []laneKey{callback}
	if r.Mode == ModeSubscribe {
		asked = append(asked, topicLane(r.Topic))
	}
	for _, site := range asked {
		if s.queue.bad(site) && s.waits.sites[site] >= s.cfg.MaxPendingBad {
			// One place comes free in BadEvery, and others wait for it too.
			return &Later{errBad, time.Duration(s.cfg.MaxPendingBad/4+1) * s.cfg.BadEvery}
		}
	}
	return nil
}

// reserve takes a place among the pending for a notice, unless they are too many.
func (s *Service) reserve(id ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[id] == nil && len(s.jobs)+s.reserved >= s.cfg.MaxPending {
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

// brokenOff notes that a callback was asked and had no time to answer because a later
// request took the job's place: who sends many of those is not to have
// it asked without pause. It counts for nothing where the process stops or has lost the shard.
func (s *Service) brokenOff(j *job, site laneKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := s.jobs[j.req.ID]; current != nil && current != j {
		s.queue.note(site, unmoved, time.Now())
	}
}

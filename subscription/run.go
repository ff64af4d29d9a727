package subscription

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// drainGrace is how long Run waits for calls to return after it cancelled them.
const drainGrace = 2 * time.Second

// Run carries requests on until ctx ends, beginning with those that the store
// holds from before. It then waits for what is in flight, at most
// Config.DrainTimeout, and returns nil; what is unfinished stays in the store and
// is carried on by the next Run. It returns an error only if something that it
// called does not return. It is not to be called twice at once.
func (s *Service) Run(ctx context.Context) error {
	// What is in flight outlives ctx, to be finished within DrainTimeout.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var sweeper sync.WaitGroup
	defer sweeper.Wait()

	if s.carryOn(ctx) {
		// Not before it is known which renewals are under way.
		sweeper.Go(func() { s.sweepLoop(ctx) })
		s.dispatch(ctx, work)
	}
	return s.drain(stop)
}

// carryOn takes over the requests of the store, for as long as it takes. It
// returns false when ctx ends first.
func (s *Service) carryOn(ctx context.Context) bool {
	pauses := newStoreBackOff()
	for {
		n, err := s.readRequests(ctx)
		if err == nil {
			s.storeWorks()
			s.logger.Info("carrying on with requests from before", "count", n)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		s.storeFailed("reading the requests", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pauses.NextBackOff()):
		}
	}
}

// readRequests queues every request of the store.
func (s *Service) readRequests(ctx context.Context) (n int, err error) {
	for shard := range Shard(Shards) {
		for r, err := range s.books.store.Requests(ctx, shard) {
			if err != nil {
				return n, err
			}
			// A Submit that is under way for this ID comes to its end first.
			unlock, err := s.books.lock(ctx, r.ID)
			if err != nil {
				return n, err
			}
			if s.adopt(r) {
				n++
			}
			unlock()
		}
	}
	return n, ctx.Err()
}

// Gained takes over the requests and the leases of a shard.
func (s *Service) Gained(ctx context.Context, shard Shard) error { return nil }

// Lost ends the work on a shard: its requests are left to its next owner.
func (s *Service) Lost(shard Shard) {}

// Requested tells that another process has accepted a request.
func (s *Service) Requested(id ID) {}

// Refresh has the requests of all shards that are owned read again.
func (s *Service) Refresh() {}

// adopt queues a request that was read from the store. Where a request with its
// ID is queued already that one is later, or the same: nothing runs yet, so that
// none can have been settled in between. The caller holds the lock of the books.
func (s *Service) adopt(r Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := newJob(r)
	j.class = backlog
	if old := s.jobs[r.ID]; old != nil {
		if !old.bare || old.stray != nil && old.stray.Token == r.Token {
			return false
		}
		s.queue.remove(old)
		j.stray = old.stray
	}
	s.put(j)
	return true
}

// dispatch starts jobs as they become ready, until ctx ends.
func (s *Service) dispatch(ctx, work context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if next, any := s.start(work); any {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// start gives every job that may run a goroutine, and tells when the next one
// that waits is due.
func (s *Service) start(work context.Context) (next time.Time, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, any = s.queue.promote(time.Now())
	for len(s.running) < s.cfg.Concurrency {
		j := s.queue.pop()
		if j == nil {
			break
		}
		var ctx context.Context
		ctx, j.cancel = context.WithCancel(work)
		s.running[j.req.ID] = j
		go func() {
			defer j.cancel()
			s.finish(j, s.advance(ctx, j))
		}()
	}
	return next, any
}

// finish puts back a job whose goroutine ends, or the one that replaced it.
func (s *Service) finish(j *job, m move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, j.req.ID)
	s.queue.done(j)
	switch current := s.jobs[j.req.ID]; {
	case current == nil:
	case current != j:
		s.queue.push(current)
	case m.end:
		delete(s.jobs, j.req.ID)
	case m.pause > 0:
		s.queue.wait(j, time.Now().Add(m.pause))
	default:
		s.queue.push(j)
	}
	s.signal()
}

// counts tells whether the job is the one that counts for its ID. Under the lock
// of the books that stays so.
func (s *Service) counts(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[j.req.ID] == j
}

func (s *Service) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// drain waits for the jobs that run, cancels them when it takes too long, and
// waits a little more.
func (s *Service) drain(cancel context.CancelFunc) error {
	if s.idleWithin(s.cfg.DrainTimeout) {
		return nil
	}
	s.logger.Warn("stopping with requests unfinished; the next start carries on with them", "in_flight", s.inFlight())
	cancel()
	if s.idleWithin(drainGrace) {
		return nil
	}
	return fmt.Errorf("subscription: %d calls did not return when they were cancelled", s.inFlight())
}

// idleWithin waits until no job runs, and returns false when it takes longer than d.
func (s *Service) idleWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for s.inFlight() > 0 {
		select {
		case <-s.wake:
		case <-timer.C:
			return s.inFlight() == 0
		}
	}
	return true
}

// storeFailed notes trouble with the store: in the log when it begins, so that
// it is not there once for every request that waits, and in the metrics always.
func (s *Service) storeFailed(doing string, err error) {
	s.metrics.storeErrors.Inc()
	// An unknown kind of trouble may not pass by itself and is always shown.
	if s.storeTrouble.CompareAndSwap(false, true) || !errors.Is(err, ErrUnavailable) {
		s.logger.Warn("the store has trouble; trying again until it works", "doing", doing, "error", err)
	}
}

// storeWorks notes that the store works.
func (s *Service) storeWorks() {
	if s.storeTrouble.Load() && s.storeTrouble.CompareAndSwap(true, false) {
		s.logger.Info("the store works again")
	}
}

package subscription

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// drainGrace is how long Run waits for calls to return after it cancelled them.
	drainGrace = 2 * time.Second
	// lostGrace is how long Lost waits for what is being written, and then once
	// more after it has cancelled it.
	lostGrace = time.Second
)

// Gained takes over a shard: its requests, which are read from the store, and the
// leases of its subscriptions. When it returns nil they are carried on while Run
// runs. With an error the shard is not this process's; one that wraps
// ErrUnavailable may be gone when it is tried again.
//
// The roster hears of what changes from now on. It reads by itself what was there
// before, best after Gained, so that it cannot miss what a former owner that
// comes late still settles; but it may do so before.
func (s *Service) Gained(ctx context.Context, shard Shard) error {
	if shard >= Shards {
		return fmt.Errorf("subscription: shard %d: there are %d", shard, Shards)
	}
	s.Lost(shard)
	t := s.docket.gain(shard) // before the reading, so that a Submit in between is not missed
	n, err := s.listener.readRequests(ctx, shard, t)
	if err != nil {
		s.Lost(shard)
		return fmt.Errorf("reading the requests of shard %d: %w", shard, err)
	}
	s.logger.Debug("carrying on with the requests of a shard", "shard", shard, "requests", n)
	return nil
}

// Lost ends the work on a shard, within a small bound. No further step of its requests begins. The
// next owner asks the callbacks and topics of the steps under way again, and writes under way are
// finished. The requests stay in the store. A denial under way is sent to its end once. One that waits
// for its first or next attempt is dropped, as only this process knew of it.
func (s *Service) Lost(shard Shard) {
	if shard >= Shards {
		return
	}
	running, untold := s.docket.leave(shard)
	if untold > 0 {
		s.logger.Warn(
			"a shard was lost with callbacks that were not told of their denial", "shard", shard, "callbacks", untold,
		)
	}
	if !allDone(running, lostGrace) {
		for _, j := range running {
			j.cancel()
		}
		if !allDone(running, lostGrace) {
			s.logger.Warn("a shard was lost with calls that do not return", "shard", shard)
		}
	}
	s.books.forget(shard)
}

// allDone waits for the jobs' goroutines, and returns false when it takes longer than d.
func allDone(jobs []*job, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, j := range jobs {
		select {
		case <-j.done:
		case <-timer.C:
			return false
		}
	}
	return true
}

// Requested reports that a request was submitted, perhaps to another process that shares the store.
// Where the shard is this process's the request is read soon, and takes the place of the one that is
// worked on. It does not block.
func (s *Service) Requested(id ID) { s.listener.requested(id) }

// Refresh reports that the news of some requests may have been missed. Those of all shards of this
// process are read again soon, and the roster is brought level with the store where that is in doubt.
// It does not block.
func (s *Service) Refresh() { ring(s.listener.stale) }

// Run carries on the requests of the shards that are gained, before it begins or later, until ctx
// ends. It then waits for requests in flight, at most Config.DrainTimeout, and returns nil; unfinished
// requests stay in the store for the next owner of the shard. It returns an error only if something
// that it called does not return. It must not be called twice at once.
func (s *Service) Run(ctx context.Context) error {
	// The work in flight outlives ctx, to be finished within DrainTimeout.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() { s.sweeper.sweepLoop(ctx) })
	loops.Go(func() { s.listener.hearLoop(ctx) })
	loops.Go(func() { s.listener.refreshLoop(ctx) })

	s.dispatch(ctx, work)
	return s.drain(stop)
}

// dispatch starts jobs as they become ready, until ctx ends.
func (s *Service) dispatch(ctx, work context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if next, any := s.docket.start(work, s.asker.advance); any {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
		case <-s.docket.wake:
		case <-timer.C:
		}
	}
}

// drain waits for the jobs that run, cancels them when it takes too long, and
// waits a little more.
func (s *Service) drain(cancel context.CancelFunc) error {
	if s.idleWithin(s.cfg.DrainTimeout) {
		return nil
	}
	s.logger.Warn(
		"stopping with requests unfinished; the next owner of their shards carries on with them",
		"in_flight", s.docket.inFlight(),
	)
	cancel()
	if s.idleWithin(drainGrace) {
		return nil
	}
	return fmt.Errorf("subscription: %d calls did not return when they were cancelled", s.docket.inFlight())
}

// idleWithin waits until no job runs, and returns false when it takes longer than d.
func (s *Service) idleWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for s.docket.inFlight() > 0 {
		select {
		case <-s.docket.wake:
		case <-timer.C:
			return s.docket.inFlight() == 0
		}
	}
	return true
}

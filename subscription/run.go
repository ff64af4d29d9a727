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

// Run carries on the requests of the shards that are gained, before it begins or
// later, until ctx ends. It then waits for what is in flight, at most
// Config.DrainTimeout, and returns nil; what is unfinished stays in the store and
// is carried on by who gains its shard next. It returns an error only if
// something that it called does not return. It is not to be called twice at once.
func (s *Service) Run(ctx context.Context) error {
	// What is in flight outlives ctx, to be finished within DrainTimeout.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() { s.sweepLoop(ctx) })
	loops.Go(func() { s.hearLoop(ctx) })
	loops.Go(func() { s.refreshLoop(ctx) })

	s.dispatch(ctx, work)
	return s.drain(stop)
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

// start gives every job that may run a goroutine, and tells when there may be another.
func (s *Service) start(work context.Context) (next time.Time, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next, any = s.queue.promote(now)
	if slow, more := s.letSlowOnesGo(now); more && (!any || slow.Before(next)) {
		next, any = slow, true
	}
	for s.young.Len() < s.cfg.Concurrency {
		j := s.queue.pop(prompt, now)
		if j == nil {
			break
		}
		j.young = s.young.PushBack(j)
		s.launch(work, j, now)
		if !any || now.Add(s.cfg.SlowAfter).Before(next) {
			next, any = now.Add(s.cfg.SlowAfter), true
		}
	}
	// The rest is for those of the others that turn out to be slow.
	for s.slow < s.cfg.MaxSlow && s.beside < max(1, s.cfg.MaxSlow/4) {
		j := s.queue.pop(beside, now)
		if j == nil {
			break
		}
		s.slow++
		s.beside++
		j.beside = true
		s.launch(work, j, now)
	}
	return s.queue.rested(next, any)
}

// launch runs the job in a goroutine. The caller holds mu.
func (s *Service) launch(work context.Context, j *job, now time.Time) {
	var ctx context.Context
	ctx, j.cancel = context.WithCancel(work)
	j.done, j.started, j.began = make(chan struct{}), now, j.step
	s.running[j.req.ID] = j
	go func() {
		defer close(j.done)
		defer j.cancel()
		s.finish(j, s.advance(ctx, j))
	}()
}

// letSlowOnesGo lets the jobs that take long go on beside the others, as far as they
// may, and tells when there may be another one. The caller holds mu.
func (s *Service) letSlowOnesGo(now time.Time) (next time.Time, any bool) {
	for e := s.young.Front(); e != nil && s.slow < s.cfg.MaxSlow; e = s.young.Front() {
		j := e.Value.(*job)
		if slow := j.started.Add(s.cfg.SlowAfter); slow.After(now) {
			return slow, true
		}
		s.young.Remove(e)
		j.young = nil
		s.slow++
		s.queue.turnedSlow(j)
	}
	return time.Time{}, false
}

// finish puts back a job whose goroutine ends, or the one that replaced it. One
// whose shard was lost is forgotten already.
func (s *Service) finish(j *job, m move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, j.req.ID)
	j.writing = false
	if j.young != nil {
		s.young.Remove(j.young)
		j.young = nil
		s.queue.done(j, false)
	} else {
		s.slow--
		if j.beside {
			s.beside--
			j.beside = false
		}
		s.queue.done(j, true)
	}
	switch current := s.jobs[j.req.ID]; {
	case current == nil:
	case current != j:
		s.waits.moved(current)
		s.queue.push(current)
	case m.end:
		s.forget(j)
		if t := s.shards[ShardOf(j.req.ID)]; t != nil && t.ended != nil {
			t.ended[j.req.ID] = struct{}{}
		}
	case m.pause > 0:
		s.waits.moved(j)
		s.queue.wait(j, time.Now().Add(m.pause))
	default:
		s.waits.moved(j)
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

// mayWrite tells whether the job counts, and if so that it is being written: it is
// not cancelled then because its shard is lost.
func (s *Service) mayWrite(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.writing = s.jobs[j.req.ID] == j
	return j.writing
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
	s.logger.Warn("stopping with requests unfinished; the next owner of their shards carries on with them", "in_flight", s.inFlight())
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

package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// readTimeout ends the reading of a shard's requests that takes longer; it
	// counts as trouble with the store.
	readTimeout = time.Minute
	// lostGrace is how long Lost waits for what is being written, and then once
	// more after it has cancelled it.
	lostGrace = time.Second
	// maxHeard is how many requests that were heard of may wait to be read; if
	// there are more, everything is read again instead.
	maxHeard = 4096
	// hearAtOnce is how many of them are read at the same time.
	hearAtOnce = 16
)

// tenancy is one stay of a shard with this process. Its fields are owned by
// Service.mu.
type tenancy struct {
	// read: all requests that the store held at the beginning are known, and so
	// which renewals are under way.
	read bool
	// ended holds the IDs whose job came to its end while requests are being
	// read: what is read of them may be older than that. It is nil otherwise.
	ended map[ID]struct{}
}

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
	t := &tenancy{}
	// Before the reading, so that a Submit in between is not missed.
	s.mu.Lock()
	s.shards[shard] = t
	s.mu.Unlock()
	n, err := s.readRequests(ctx, shard, t)
	if err != nil {
		s.Lost(shard)
		return fmt.Errorf("reading the requests of shard %d: %w", shard, err)
	}
	s.mu.Lock()
	t.read = true
	s.mu.Unlock()
	s.logger.Debug("carrying on with the requests of a shard", "shard", shard, "requests", n)
	return nil
}

// Lost ends the work on a shard, within a small bound: no further step of its
// requests begins, callbacks and topics that are being asked are asked again by
// the next owner, and what is being written is finished. The requests stay in the
// store. A denial that is being told is told to its end once; one that waits to be
// told, again or at all, is not told any more, as nothing but this process knew
// of it.
func (s *Service) Lost(shard Shard) {
	if shard >= Shards {
		return
	}
	running, untold := s.leave(shard)
	if untold > 0 {
		s.logger.Warn("a shard was lost with callbacks that were not told of their denial", "shard", shard, "callbacks", untold)
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

// leave forgets the shard and its jobs, and cancels those that ask somebody. It
// returns those to wait for, and how many denials nobody will be told of.
func (s *Service) leave(shard Shard) (running []*job, untold int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards[shard] == nil {
		return nil, 0
	}
	s.shards[shard] = nil
	for id, j := range s.jobs {
		if ShardOf(id) != shard {
			continue
		}
		if s.running[id] != j {
			s.queue.remove(j)
			if j.bare && j.step == stepDeny {
				untold++
			}
		}
		s.forget(j)
	}
	for id, j := range s.running {
		if ShardOf(id) != shard || j.bare {
			continue
		}
		if !j.writing {
			j.cancel()
		}
		running = append(running, j)
	}
	return running, untold
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

// errUnsure: whether a subscription is to end is for its owner to say.
var errUnsure = fmt.Errorf("%w: another process may own the shard by now", ErrUnavailable)

// Sure tells until when nobody else can own the shards of this process, by the
// monotonic clock; of the doubted ones that stays as it was. After that no subscription is
// ended, by a sweep, Remove or Deny,
// until a later time is told; never called: for ever. Requests are carried on:
// what comes of them is settled by their tokens, so a late outcome changes nothing.
func (s *Service) Sure(until time.Time, doubted ...Shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sure.Vouch(until, doubted...)
}

// isSure reports whether no other process can own the shard, which is one of this process.
func (s *Service) isSure(shard Shard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sure.Of(shard, time.Now())
}

// Requested tells that a request was submitted, perhaps to another process that
// shares the store. Where the shard is this process's the request is read soon,
// and takes the place of the one that is worked on. It does not block.
func (s *Service) Requested(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shards[ShardOf(id)] == nil:
		return
	case len(s.heard) >= maxHeard:
		s.Refresh()
		return
	}
	s.heard[id] = struct{}{}
	ring(s.news)
}

// Refresh tells that requests may have been submitted that nobody told of. Those
// of all shards of this process are read again soon, and the roster is brought
// level with the store where that is in doubt. It does not block.
func (s *Service) Refresh() { ring(s.stale) }

// ring puts a token into a channel that has room for one.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// hearLoop reads the requests that were heard of, until ctx ends.
func (s *Service) hearLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.news:
		}
		var group errgroup.Group
		group.SetLimit(hearAtOnce)
		for id := range s.takeHeard() {
			group.Go(func() error { return s.hear(ctx, id) })
		}
		if err := group.Wait(); err != nil && ctx.Err() == nil {
			s.storeFailed("reading a request", err)
			s.Refresh() // which goes on until it succeeds
		}
	}
}

func (s *Service) takeHeard() map[ID]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	heard := s.heard
	s.heard = make(map[ID]struct{})
	return heard
}

func (s *Service) hear(ctx context.Context, id ID) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	unlock, err := s.books.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	return s.catchUp(ctx, id)
}

// refreshLoop makes one refresh after the other, as often as one is asked for,
// each until it has succeeded, until ctx ends.
func (s *Service) refreshLoop(ctx context.Context) {
	pauses := newStoreBackOff()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.stale:
		}
		err := s.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.storeWorks()
			pauses.Reset()
			continue
		}
		s.storeFailed("reading the requests again", err)
		s.Refresh()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pauses.NextBackOff()):
		}
	}
}

func (s *Service) refresh(ctx context.Context) error {
	for shard, t := range s.tenancies() {
		if _, err := s.readRequests(ctx, shard, t); err != nil {
			return err
		}
	}
	return s.books.reconcile(ctx, s.cfg.StoreTimeout)
}

// tenancies returns the shards of this process whose requests were read.
func (s *Service) tenancies() map[Shard]*tenancy {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[Shard]*tenancy)
	for shard, t := range s.shards {
		if t != nil && t.read {
			all[Shard(shard)] = t
		}
	}
	return all
}

// stays tells whether the shard has been this process's ever since.
func (s *Service) stays(shard Shard, t *tenancy) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards[shard] == t
}

// readRequests queues the requests of a shard that are not known yet, and tells
// how many. It stops where the shard is lost meanwhile.
func (s *Service) readRequests(ctx context.Context, shard Shard, t *tenancy) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s.mu.Lock()
	t.ended = make(map[ID]struct{})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.ended = nil
	}()
	for r, err := range s.books.store.Requests(ctx, shard) {
		if err != nil {
			return n, trouble(err)
		}
		if !s.stays(shard, t) {
			return n, nil
		}
		taken, err := s.takeListed(ctx, t, r)
		if err != nil {
			return n, err
		}
		if taken {
			n++
		}
	}
	return n, trouble(ctx.Err())
}

// takeListed takes up a request that was read a while ago. Where something has
// happened for its ID, or is happening, the store is asked what holds.
func (s *Service) takeListed(ctx context.Context, t *tenancy, r Request) (taken bool, err error) {
	// A Submit that is under way for this ID comes to its end first.
	unlock, err := s.books.lock(ctx, r.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	s.mu.Lock()
	old := s.jobs[r.ID]
	_, ended := t.ended[r.ID]
	s.mu.Unlock()
	switch {
	case old == nil && !ended:
		return s.take(r, backlog, ""), nil
	case old != nil && old.knows(r.Token):
		return false, nil
	}
	now, err := s.books.store.Request(ctx, r.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, trouble(err)
	case old != nil && old.bare && old.knows(now.Token):
		now = r // a stray took the place of what was listed
	}
	return s.take(now, backlog, ""), nil
}

// catchUp takes up the request that the store holds for an ID. A job whose request
// is gone finds out by itself. The caller holds the lock of the books for it.
func (s *Service) catchUp(ctx context.Context, id ID) error {
	r, err := s.books.store.Request(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return trouble(err)
	}
	s.take(r, fresh, "")
	return nil
}

// take makes a request that the store holds the job that counts, unless it does
// already or the shard is not this process's. Client is who sent it, empty where that
// is not known. The caller holds the lock of the
// books for it.
func (s *Service) take(r Request, c class, client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.jobs[r.ID]
	if s.shards[ShardOf(r.ID)] == nil || old != nil && old.knows(r.Token) {
		return false
	}
	j := newJob(r)
	j.class, j.client = c, client
	if old != nil {
		j.strays = old.strays // they may come late
	}
	s.replace(j)
	return true
}

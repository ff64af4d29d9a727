package subscription

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/internal/turns"
)

const (
	// readTimeout ends the reading of a shard's requests that takes longer; it
	// counts as trouble with the store.
	readTimeout = time.Minute
	// maxHeard is how many requests that were heard of may wait to be read; if
	// there are more, everything is read again instead.
	maxHeard = 4096
	// hearAtOnce is how many of them are read at the same time.
	hearAtOnce = 16
)

// listener reads from the store which requests there are, at the start of a tenancy and
// where other processes took some.
type listener struct {
	cfg    Config
	books  *books
	docket *docket
	health *health

	// These hold one token each: heard changed, everything is to be read again.
	news, stale chan struct{}

	mu    sync.Mutex
	heard map[ID]struct{} // whose request is to be read. Owned by mu.
}

func newListener(cfg Config, b *books, d *docket, h *health) *listener {
	return &listener{
		cfg: cfg, books: b, docket: d, health: h,
		news: make(chan struct{}, 1), stale: make(chan struct{}, 1), heard: make(map[ID]struct{}),
	}
}

// requested has the request of an ID read soon, where the shard is this process's.
func (l *listener) requested(id ID) {
	if !l.docket.owns(ShardOf(id)) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.heard) >= maxHeard {
		ring(l.stale)
		return
	}
	l.heard[id] = struct{}{}
	ring(l.news)
}

// hearLoop reads the requests that were heard of, until ctx ends.
func (l *listener) hearLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.news:
		}
		var group errgroup.Group
		group.SetLimit(hearAtOnce)
		for id := range l.takeHeard() {
			group.Go(func() error { return l.hear(ctx, id) })
		}
		if err := group.Wait(); err != nil && ctx.Err() == nil {
			l.health.failed("reading a request", err)
			ring(l.stale) // which goes on until it succeeds
		}
	}
}

func (l *listener) takeHeard() map[ID]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard
	l.heard = make(map[ID]struct{})
	return heard
}

func (l *listener) hear(ctx context.Context, id ID) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.StoreTimeout)
	defer cancel()
	unlock, err := l.books.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	return l.catchUp(ctx, id)
}

// catchUp takes up the request that the store holds for an ID. A job whose request
// is gone finds out by itself. The caller holds the lock of the books for it.
func (l *listener) catchUp(ctx context.Context, id ID) error {
	r, err := l.books.store.Request(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return trouble(err)
	}
	l.docket.take(r, turns.Fresh, "")
	return nil
}

// refreshLoop makes one refresh after the other, as often as one is asked for,
// each until it has succeeded, until ctx ends.
func (l *listener) refreshLoop(ctx context.Context) {
	pauses := newStoreBackOff()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.stale:
		}
		err := l.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			l.health.works()
			pauses.Reset()
			continue
		}
		l.health.failed("reading the requests again", err)
		ring(l.stale)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pauses.NextBackOff()):
		}
	}
}

func (l *listener) refresh(ctx context.Context) error {
	for shard, t := range l.docket.tenancies() {
		if _, err := l.readRequests(ctx, shard, t); err != nil {
			return err
		}
	}
	return l.books.reconcile(ctx, l.cfg.StoreTimeout)
}

// readRequests queues the requests of a shard that are not known yet, and returns how many. It stops
// where the shard is lost meanwhile.
func (l *listener) readRequests(ctx context.Context, shard Shard, t *tenancy) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	done := l.docket.reading(t)
	defer func() { done(err == nil) }()
	for r, err := range l.books.store.Requests(ctx, shard) {
		if err != nil {
			return n, trouble(err)
		}
		if !l.docket.stays(shard, t) {
			return n, nil
		}
		taken, err := l.takeListed(ctx, t, r)
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
func (l *listener) takeListed(ctx context.Context, t *tenancy, r Request) (taken bool, err error) {
	// A Submit that is under way for this ID comes to its end first.
	unlock, err := l.books.lock(ctx, r.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	old, ended := l.docket.known(t, r.ID)
	switch {
	case old == nil && !ended:
		return l.docket.take(r, turns.Backlog, ""), nil
	case old != nil && old.knows(r.Token):
		return false, nil
	}
	now, err := l.books.store.Request(ctx, r.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, trouble(err)
	case old != nil && old.bare && old.knows(now.Token):
		now = r // a stray took the place of what was listed
	}
	return l.docket.take(now, turns.Backlog, ""), nil
}

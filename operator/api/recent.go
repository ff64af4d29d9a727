package api

import (
	"context"
	"sync"
	"time"
)

// recentFor is for how long an answer of Recent holds.
const recentFor = time.Second

// Recent shares the answer of a check among all that ask. /readyz answers strangers, so a check
// that costs something must not run for each request. The zero value is ready for use.
type Recent struct {
	mu   sync.Mutex
	last *answer // guarded by mu; nil: there was no question yet
}

// answer is what one run of a check returned.
type answer struct {
	began time.Time
	ended chan struct{} // closed when err is set
	err   error
}

// Ask returns what ready returned within the last second, or runs it. Never do two runs overlap,
// and never does one begin within a second of the one before. A run belongs to no single request: it goes on,
// for checkTimeout, when a caller leaves.
func (r *Recent) Ask(ctx context.Context, ready func(context.Context) error) error {
	a := r.answer(ctx, ready)
	select {
	case <-a.ended:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer returns the answer that holds, or one that is being found.
func (r *Recent) answer(ctx context.Context, ready func(context.Context) error) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.holds() {
		return r.last
	}
	a := &answer{began: time.Now(), ended: make(chan struct{})}
	r.last = a
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	go func() {
		defer cancel()
		a.err = ready(ctx)
		close(a.ended)
	}()
	return a
}

// holds reports whether there is an answer of the last second, or will be one.
func (a *answer) holds() bool {
	if a == nil {
		return false
	}
	select {
	case <-a.ended:
		return time.Since(a.began) < recentFor
	default:
		return true
	}
}

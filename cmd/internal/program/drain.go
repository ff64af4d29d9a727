package program

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// asked is the cause with which Main ends the context of a command: the operator's signal.
type asked struct {
	os.Signal

	mu    sync.Mutex
	hurry func() bool // ends the drain under way and returns whether there was one; guarded by mu
}

func (a *asked) Error() string { return "signal: " + a.String() }

// Is makes the cause a context.Canceled, for callers that compare the errors of requests.
func (a *asked) Is(target error) bool { return target == context.Canceled }

// again ends the drain at a second signal. It returns false if no drain is under way.
func (a *asked) again() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hurry != nil && a.hurry()
}

// Drain returns a context for the parts of a command that accept requests. SIGTERM ends it
// after within, so that a load balancer can learn meanwhile that no more requests may be
// sent. A second signal ends it before. SIGINT and every other end of ctx end it at once:
// the operator at a terminal waits for nothing. The caller must call the function when it
// returns.
func Drain(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		why, ok := errors.AsType[*asked](context.Cause(ctx))
		if !ok || why.Signal != syscall.SIGTERM || within <= 0 {
			end()
			return
		}
		over := time.AfterFunc(within, end)
		context.AfterFunc(serving, func() { over.Stop() })
		why.mu.Lock()
		defer why.mu.Unlock()
		why.hurry = func() bool {
			under := serving.Err() == nil
			end()
			return under
		}
	})
	return serving, func() { stop(); end() }
}

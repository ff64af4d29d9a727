package api

import (
	"context"
	"sync"
	"time"

	"carillon/operator"
)

// Latest is the overview that was asked for last. However many streams and pages are open, a Desk is
// asked once in a while. The zero value is ready for use.
type Latest struct {
	mu  sync.Mutex
	at  time.Time // guarded by mu, as all is
	o   operator.Overview
	err error
}

// Ask asks the Desk, within a time, where what there is is older than that.
func (l *Latest) Ask(ctx context.Context, desk HubService, older, within time.Duration) (operator.Overview, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Since(l.at) < older {
		return l.o, l.err
	}
	// The others get this one, too: it must not end because this one's client goes.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	l.o, l.err = desk.Overview(ctx)
	l.at = time.Now()
	return l.o, l.err
}

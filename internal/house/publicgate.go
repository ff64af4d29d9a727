package house

import (
	"context"
	"time"
)

// openWithin is when the public port opens although the store is not there. A balancer that
// asks /readyz every 2 s has noticed by then that this process takes no requests. Everybody
// else learns from the 503 what the hub waits for.
const openWithin = 5 * time.Second

// publicGate opens the public port when the store is attached. While the port is closed, a
// balancer gives its requests to another process, also those of which it does not know
// yet that this process has just restarted.
type publicGate struct {
	late           time.Duration // when it opens without the store
	attached, open chan struct{} // closed when it is so
}

func newPublicGate(late time.Duration) publicGate {
	return publicGate{late, make(chan struct{}), make(chan struct{})}
}

// pass reports that the store is attached and waits until the port is open, so that a process
// without its port takes no shards. It returns false if ctx ended before.
func (d publicGate) pass(ctx context.Context) bool {
	close(d.attached)
	select {
	case <-d.open:
		return true
	case <-ctx.Done():
		return false
	}
}

// servePublic opens the public port when it is time, and answers requests until ctx ends. A program
// that listens and serves by itself is asked for neither.
func (h *House) servePublic(ctx context.Context) error {
	if h.cfg.Listen != nil {
		late := time.NewTimer(h.gate.late)
		defer late.Stop()
		select {
		case <-h.gate.attached:
		case <-late.C:
		case <-ctx.Done():
			return nil
		}
		if err := h.cfg.Listen(ctx); err != nil {
			return err
		}
	}
	close(h.gate.open)
	if h.cfg.Serve == nil {
		return nil
	}
	return h.cfg.Serve(ctx, h.public)
}

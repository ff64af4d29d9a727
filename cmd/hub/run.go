package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/cmd/internal/program"
	"carillon/delivery"
	"carillon/subscription"
)

// run serves until ctx ends or a part fails, then ends in order: first the intake, after its
// drain, then the deliveries, then the shards are handed back. The operator can look on until
// then. Until the store is there requests are refused and nothing is delivered; then ready is
// called.
func (h *house) run(ctx context.Context, ready func()) error {
	serving, endDrain := program.Drain(ctx, h.drain)
	defer endDrain()
	intake, intakeCtx := errgroup.WithContext(serving)
	commands, endCommands := context.WithCancel(intakeCtx)
	defer endCommands()
	defer context.AfterFunc(ctx, func() {
		h.public.CloseEach()
		h.stopping.Store(true)
		endCommands()
		if h.missing.Load() != nil {
			endDrain() // no balancer sends requests here
		}
		h.logger.Info("stopping: what is under way is finished first")
	})()
	operator, closeOperator := context.WithCancel(context.WithoutCancel(ctx))
	defer closeOperator()
	w := newWorks(context.WithoutCancel(ctx))
	defer w.release()

	var looking errgroup.Group
	looking.Go(func() error {
		err := program.Serve(operator, h.operator, h.admin(ctx.Done()), h.logger)
		w.failed <- err
		return err
	})
	d := newDoor()
	intake.Go(func() error { return h.servePublic(intakeCtx, d) })
	intake.Go(func() error { return h.serveControl(commands) })
	intake.Go(func() error { return h.reload(intakeCtx) })
	intake.Go(func() error {
		if err := h.awaitStore(intakeCtx); err != nil || intakeCtx.Err() != nil {
			return err
		}
		if !d.pass(intakeCtx) {
			return nil
		}
		h.start(w)
		intake.Go(func() error { h.showLoading(intakeCtx); return nil })
		h.readSources(intakeCtx)
		intake.Go(func() error { return h.runSources(intakeCtx) })
		intake.Go(func() error { return h.hub.Run(intakeCtx) })
		intake.Go(func() error { return h.service.Run(intakeCtx) })
		ready()
		if h.back != nil {
			intake.Go(func() error { h.back.run(intakeCtx, h.logger); return nil })
		}
		return nil
	})
	intake.Go(func() error {
		select {
		case <-intakeCtx.Done():
			return nil
		case err := <-w.failed:
			return fmt.Errorf("a part of the hub ended: %w", err)
		}
	})
	err := intake.Wait()
	w.stop()
	err = errors.Join(err, w.group.Wait())
	closeOperator()
	return errors.Join(err, looking.Wait())
}

// works are the parts that go on while the intake ends.
type works struct {
	group   errgroup.Group
	deliver context.Context // of the deliveries and of what wakes them
	stop    context.CancelFunc
	own     context.Context // of the ownership of shards; deliver ends with it
	release context.CancelFunc
	failed  chan error // of each that ended; the first stops the intake
}

func newWorks(ctx context.Context) *works {
	w := &works{failed: make(chan error, 5)}
	w.own, w.release = context.WithCancel(ctx)
	w.deliver, w.stop = context.WithCancel(w.own)
	return w
}

// begin runs a part.
func (w *works) begin(part func() error) {
	w.group.Go(func() error {
		err := part()
		w.failed <- err
		return err
	})
}

// start begins the deliveries, takes shards and listens to other processes.
func (h *house) start(w *works) {
	w.begin(func() error {
		defer w.release()
		return h.dispatcher.Run(w.deliver)
	})
	w.begin(func() error { return h.store.Shards.Run(w.own, h.holder) })
	w.group.Go(func() error { h.keepMemory(w.deliver); return nil })
	w.group.Go(func() error { return h.desk.Run(w.deliver) })
	if h.store.Listen == nil {
		return
	}
	w.begin(func() error { h.watchStore(w.deliver); return nil })
	w.begin(func() error {
		if err := h.store.Listen(w.deliver, listener{h}); w.deliver.Err() == nil {
			return fmt.Errorf("listening to the other processes: %w", err)
		}
		return nil
	})
}

// Waiting for the store.
const (
	askWithin = 10 * time.Second // one try to reach it
	askEvery  = time.Second      // pause between two
	lookEvery = time.Minute      // pause between two looks at a store that was there
)

// errNotReached is why the store is not ready before the first try has ended.
var errNotReached = fmt.Errorf("%w: it was not reached yet", subscription.ErrUnavailable)

// awaitStore returns nil when the store is there and prepared, or when ctx ended;
// an error is one that waiting does not mend.
func (h *house) awaitStore(ctx context.Context) error {
	for tries := 0; ; tries++ {
		err := h.reachStore(ctx)
		switch {
		case err == nil:
			h.missing.Store(nil)
			if tries > 0 {
				h.logger.Info("the store is there")
			}
			return nil
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, subscription.ErrUnavailable):
			return err
		}
		h.missing.Store(&err)
		if tries == 0 {
			h.logger.Warn("waiting for the store; until it is there what needs it is answered with 503", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askEvery):
		}
	}
}

// reachStore tries once to reach the store.
func (h *house) reachStore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err := h.store.Ready(ctx)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return fmt.Errorf("%w: no answer within %s: %w", subscription.ErrUnavailable, askWithin, err)
	}
	return err
}

// watchStore looks now and then whether the store is still set up as at the start,
// until ctx ends: settings are changed while a hub runs, and another server may
// take the place of the one before.
func (h *house) watchStore(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		if err := h.reachStore(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, subscription.ErrUnavailable) {
			h.logger.Error("the store would be refused at a start; the hub goes on", "error", err)
		}
	}
}

// listener tells the rooms what other processes did.
type listener struct{ h *house }

var _ ear = listener{}

func (l listener) Published(topic string, head delivery.Seq) { l.h.dispatcher.Published(topic, head) }
func (l listener) Requested(id subscription.ID)              { l.h.service.Requested(id) }
func (l listener) Pinged(p delivery.Ping)                    { l.h.hub.Pinged(p) }

// Refresh has everything looked at again.
func (l listener) Refresh() {
	l.h.dispatcher.Refresh()
	l.h.service.Refresh()
	l.h.hub.Refresh()
}

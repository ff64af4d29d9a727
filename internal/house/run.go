package house

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/internal/await"
	"carillon/internal/engine"
	"carillon/internal/machine"
	"carillon/internal/release"
	"carillon/operator/api"
	"carillon/subscription"
)

// Run works until ctx ends or a part fails, then ends in order: first the requests, then the
// deliveries, then the shards are handed back and the store is closed. Operators can look on until
// then.
func (h *House) Run(ctx context.Context) error {
	switch {
	case h.phase.CompareAndSwap(idle, ran):
	case h.phase.Load() == closed:
		return ErrClosed
	default:
		return ErrRan
	}
	err := h.work(ctx)
	late, cancel := h.stage(ctx)
	defer cancel()
	if !h.operators.close(late) {
		h.logger.Warn("requests of operators are under way although the store closes")
	}
	if err := h.close(); err != nil {
		h.logger.Error("closing the store", "error", err)
	}
	return err
}

// stage returns the context of a stage of the end.
func (h *House) stage(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), h.cfg.stageWithin())
}

// work is Run without its end, when the store is closed.
func (h *House) work(ctx context.Context) error {
	intake, intakeCtx := errgroup.WithContext(ctx)
	defer await.AfterFunc(intakeCtx, h.Retire)()
	commands, endCommands := context.WithCancel(intakeCtx)
	defer endCommands()
	w := newWorks(context.WithoutCancel(ctx))
	defer w.release()

	intake.Go(func() error { return h.servePublic(intakeCtx) })
	intake.Go(func() error { return h.serveControl(commands) })
	intake.Go(func() error { <-h.stopping; endCommands(); return nil })
	intake.Go(func() error { return h.begin(intakeCtx, intake, w) })
	intake.Go(func() error {
		select {
		case <-intakeCtx.Done():
			return nil
		case err := <-w.failed:
			return fmt.Errorf("a part of the hub ended: %w", err)
		}
	})
	err := intake.Wait()
	late, cancel := h.stage(ctx)
	defer cancel()
	if !h.public.close(late) {
		h.logger.Warn("requests are under way although deliveries end")
	}
	w.stop()
	return errors.Join(err, w.group.Wait())
}

// begin has the parts begin in their order, once the store is there.
func (h *House) begin(ctx context.Context, intake *errgroup.Group, w *works) error {
	if err := h.store.await(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if !h.gate.pass(ctx) {
		return nil
	}
	h.start(w)
	h.publishers.read(ctx)
	intake.Go(func() error { return h.publishers.run(ctx) })
	intake.Go(func() error { return h.hub.Run(ctx) })
	intake.Go(func() error { return h.service.Run(ctx) })
	close(h.ready)
	if h.selfCheck != nil {
		intake.Go(func() error { h.selfCheck.run(ctx, h.logger); return nil })
	}
	return nil
}

// serveControl answers commands until ctx ends, then finishes what is under way.
func (h *House) serveControl(ctx context.Context) error {
	if h.control == nil {
		return nil
	}
	return h.control.Serve(ctx, api.API(api.Config{
		Service: h.operatorService, Version: release.Version, Publishers: h.publishers.mode(), Level: h.cfg.Level, Stopping: h.stopping, Backup: h.store.HoldBackup, Logger: h.logger,
	}), h.logger)
}

// start begins the deliveries, takes shards and listens to other processes.
func (h *House) start(w *works) {
	w.begin(func() error {
		defer w.release()
		return h.dispatcher.Run(w.deliver)
	})
	w.begin(func() error { return h.store.Shards.Run(w.own, h.holder) })
	w.group.Go(func() error { return h.operatorService.Run(w.deliver) })
	if h.cfg.OwnProcess {
		w.group.Go(func() error { machine.KeepMemory(w.deliver, h.table); return nil })
	}
	if !h.store.shared() {
		return
	}
	w.begin(func() error { h.store.watch(w.deliver); return nil })
	w.begin(func() error {
		if err := h.store.Listen(w.deliver, listener{h}); w.deliver.Err() == nil {
			return fmt.Errorf("listening to the other processes: %w", err)
		}
		return nil
	})
}

// table returns how many subscriptions the dispatcher has, once they are loaded.
func (h *House) table() (n int, loaded bool) {
	now := h.dispatcher.Stats()
	return now.Subscriptions, now.Loading == 0
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

// listener passes the wake-ups of other processes to the parts of the hub.
type listener struct{ h *House }

var _ engine.Ear = listener{}

func (l listener) Published(topic string, head delivery.Seq) { l.h.dispatcher.Published(topic, head) }
func (l listener) Requested(id subscription.ID)              { l.h.service.Requested(id) }
func (l listener) Pinged(p delivery.Ping)                    { l.h.hub.Pinged(p) }

// Refresh has everything looked at again.
func (l listener) Refresh() {
	l.h.dispatcher.Refresh()
	l.h.service.Refresh()
	l.h.hub.Refresh()
}

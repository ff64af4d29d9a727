package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"

	"carillon/cmd/internal/program"
	"carillon/destination"
	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/payload"
	"carillon/store/pebblestore"
)

const (
	// refusedAgain is when a hub that refused is asked for a subscription again, where the
	// Source can be followed without.
	refusedAgain = time.Hour
	// discoverFirst is the first wait before a Source that cannot be asked is asked again; discoverSoon the longest.
	discoverFirst = time.Second
)

// outlet is who gets the changes.
type outlet struct {
	handler  follow.Handler
	anew     bool // earlier changes went to another receiver
	baseline follow.Baseliner
	before   func(ctx context.Context)       // runs before changes are handed on; may be nil
	run      func(ctx context.Context) error // runs beside; may be nil
	close    func() error                    // nil: nothing
}

// following are the parts that run.
type following struct {
	*followCommand
	surroundings
	locator     *locator
	topic       string // empty: the Source has none
	store       *pebblestore.Destination
	settled     *settling
	out         outlet
	follower    *follow.Follower
	destination *destination.Destination // nil without a topic
	ln          *program.Listener        // likewise
}

// run follows until ctx ends.
func (f *followCommand) run(ctx context.Context, in surroundings) (err error) {
	h := &following{followCommand: f, surroundings: in}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	h.ready(h.stdout, h.ln, h.Exec == "" && h.Mirror == "")
	if h.destination == nil {
		return h.serve(ctx)
	}
	return serveCallback(ctx, h.ln, h.destination, program.NewReloader(h.again), h.serve)
}

// open opens all parts; close closes the opened ones, also after an error.
func (h *following) open(ctx context.Context) (err error) {
	client, err := h.client(h.logger)
	if err != nil {
		return err
	}
	h.locator = &locator{
		changeMemory: h.ChangeMemory, changeList: h.ChangeList, client: client, logger: h.logger,
		start: h.Source, topic: h.Topic,
	}
	if h.topic = h.Topic; h.Source == "" {
		h.locator.start = h.Topic
	}
	// The store is taken first: data of another process is not disturbed.
	if h.store, err = openStore(h.Data, uint64(h.MinFree), h.logger); err != nil {
		return err
	}
	if h.topic == "" {
		if err := h.discover(ctx); err != nil {
			return err
		}
	}
	if err := h.claim(ctx); err != nil {
		return err
	}
	if h.out, err = h.outlet(ctx); err != nil {
		return err
	}
	if h.follower, err = follow.New(h.config(client)); err != nil {
		return flagError(err)
	}
	if h.topic == "" {
		return nil
	}
	return h.subscribe(ctx)
}

// discover finds the topic of the Source. One that is away is asked until it is there.
func (h *following) discover(ctx context.Context) error {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(discoverFirst),
		backoff.WithMaxInterval(discoverSoon), backoff.WithMaxElapsedTime(0))
	for {
		set, err := discover(ctx, h.locator.client, h.Source, "")
		if err == nil {
			h.locator.found = &set
			h.topic, h.locator.topic = set.Topic, set.Topic
			if h.topic == "" && set.ChangeList == "" && h.ChangeList == auto {
				return fmt.Errorf(
					"--source %s: the Source has neither a topic nor a Change List: there is nothing to follow",
					h.Source,
				)
			}
			return nil
		}
		if errors.Is(err, lists.ErrNone) || errors.Is(err, lists.ErrAnswer) || errors.Is(err, errWhichSet) || errors.Is(err, lists.ErrOtherHost) {
			return fmt.Errorf("--source: %w", err)
		}
		wait := retry.NextBackOff()
		h.logger.Warn(
			"the Source cannot be asked yet; trying again", "error", err, "in", wait.Round(time.Millisecond).String(),
		)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// claim sees to it that the store is this Source's.
func (h *following) claim(ctx context.Context) error {
	h.settled = &settling{store: h.store.Following()}
	start, at, _ := h.begin() // Validate has read it
	b := pebblestore.Belonging{Begin: string(start)}
	if start == follow.StartAt {
		b.Begin = payload.FormatDatetime(at)
	}
	if h.topic != "" {
		b.Names = []string{h.topic}
	}
	if h.locator.found != nil {
		b.Names = append(b.Names, addresses(h.locator.found)...)
	}
	o, err := claim(ctx, h.store, h.Data, b, func() []string {
		set, err := h.locator.set(ctx)
		if err != nil {
			return nil
		}
		return addresses(&set)
	})
	if err != nil {
		return err
	}
	h.settled.done.Store(o.Settled)
	from, err := h.store.Following().Position(ctx)
	if err != nil {
		return err
	}
	if o.Settled && h.Start != auto && !from.At.IsZero() {
		h.logger.Info(
			"--start counts the first time only; going on from where the last run has ended", "start", h.Start,
		)
	}
	h.locator.learn = func(ctx context.Context, set *lists.Set) {
		b := pebblestore.Belonging{Names: append(slices.Clone(b.Names), addresses(set)...), Begin: b.Begin}
		if _, err := h.store.Following().Belong(ctx, b); err != nil {
			h.logger.Warn("what the Source offers cannot be noted", "error", err)
		}
	}
	return nil
}

// outlet is chosen by the flags.
func (h *following) outlet(ctx context.Context) (outlet, error) {
	if h.Mirror != "" {
		return h.mirrored(ctx)
	}
	var handler follow.Handler = &lines{w: h.stdout, topic: h.topic}
	if h.Exec != "" {
		handler = &runner{
			command: h.Exec, topic: h.topic, timeout: h.ExecTimeout, stdout: h.stdout,
			stderr: h.stderr, logger: h.logger,
		}
	}
	handler = settlingHandler{handler, h.settled}
	return outlet{handler: handler, baseline: &follow.Listed{
		Lists: settlingLists{h.locator.client, h.settled}, Handler: handler, ResourceList: h.locator.ResourceList, Logger: h.logger,
	}}, nil
}

// config is what the flags say of following.
func (h *following) config(client *lists.Client) follow.Config {
	start, at, _ := h.begin() // Validate has read it
	store := follow.Store(h.store.Following())
	if h.out.anew {
		store = anew{h.store.Following()}
	}
	return follow.Config{
		Store: store, Handler: h.out.handler, Lists: settlingLists{client, h.settled}, Locator: h.locator, Baseline: h.out.baseline,
		Start: start, StartTime: at, OnGap: h.onGap(), Poll: h.Poll, Settle: h.Settle, Logger: h.logger,
	}
}

// subscribe opens the listener and the room.
func (h *following) subscribe(ctx context.Context) (err error) {
	if h.ln, err = h.listen(ctx, h.logger); err != nil {
		return err
	}
	if h.destination, err = destination.New(h.followCommand.subscriptionConfig(h.topic, h.follower, h.logger)); err != nil {
		return flagError(err)
	}
	h.locator.destination = h.destination
	return nil
}

// serve runs the parts until ctx ends or one of them fails.
func (h *following) serve(ctx context.Context) error {
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error {
		if h.out.before != nil {
			h.out.before(running)
		}
		return h.advised(h.follower.Run(running))
	})
	if h.out.run != nil {
		g.Go(func() error { return h.out.run(running) })
	}
	if h.destination != nil {
		g.Go(func() error { return h.push(running) })
	}
	return g.Wait()
}

// advised adds the remedy for changes that are kept nowhere.
func (h *following) advised(err error) error {
	if !errors.Is(err, follow.ErrGap) || h.settled.done.Load() {
		return err
	}
	return fmt.Errorf("%w; nothing was handed on yet: begin elsewhere, by --start", err)
}

// push holds the subscription. Where the hub says no, and the Source can be followed by its
// lists, it is asked again later.
func (h *following) push(ctx context.Context) error {
	for {
		err := h.destination.Run(ctx)
		if ctx.Err() != nil || !errors.Is(err, destination.ErrDenied) && !errors.Is(err, destination.ErrRefused) {
			return err
		}
		if uri, _ := h.locator.ChangeList(ctx); uri == "" {
			return err
		}
		h.logger.Error(
			"there is no push; the Source is followed by its Change List, and the hub asked again",
			"error", err, "in", refusedAgain.String(),
		)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(refusedAgain):
		}
	}
}

// close closes what was opened.
func (h *following) close() error {
	var all []error
	if h.destination != nil {
		all = append(all, h.destination.Close())
	}
	if h.ln != nil && h.destination == nil {
		_ = h.ln.Close() // nothing was served on it
	}
	if h.out.close != nil {
		all = append(all, h.out.close())
	}
	if h.store != nil {
		all = append(all, h.store.Close())
	}
	return errors.Join(all...)
}

var _ command = (*followCommand)(nil)

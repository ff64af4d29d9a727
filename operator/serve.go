package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// serveAgain is the pause before the others are answered again, after a failure.
const serveAgain = time.Second

// Run answers the other processes, and counts events for Overview.Series, until ctx ends; listeners
// then get the end. It is called once, and returns nil.
func (d *Service) Run(ctx context.Context) error {
	defer close(d.stopped)
	var parts errgroup.Group
	if d.cfg.Deliveries != nil {
		parts.Go(func() error { d.samples.run(ctx, d.cfg.Deliveries.Totals); return nil })
	}
	parts.Go(func() error { d.serve(ctx); return nil })
	<-ctx.Done()
	return parts.Wait()
}

// serve answers the others until ctx ends, also after the engine was away.
func (d *Service) serve(ctx context.Context) {
	if d.cfg.Peers == nil {
		return
	}
	for away := false; ctx.Err() == nil; {
		err := d.cfg.Peers.Serve(ctx, d.replyTo)
		if ctx.Err() != nil {
			return
		}
		if !away {
			d.log.Warn(
				"the questions of other hub processes cannot be answered; trying again until they can", "error", err,
			)
		}
		away = true
		_ = pause(ctx, serveAgain) // the loop sees the end of ctx
	}
}

// replyTo is what this process answers to a question of another, as text.
func (h *local) replyTo(ctx context.Context, text []byte) []byte {
	r := reply{Version: h.cfg.Version}
	fail := func(err error) []byte {
		r.Fault, r.Answer, r.Shards = faultOf(err), nil, nil
		out, _ := encode(r) // texts and numbers: it cannot fail
		return out
	}
	select {
	case h.answering <- struct{}{}:
		defer func() { <-h.answering }()
	case <-ctx.Done():
		return fail(fmt.Errorf("%w: too many questions at a time", ErrUnavailable))
	}
	var q question
	if err := json.Unmarshal(text, &q); err != nil {
		return fail(fmt.Errorf("%w: the question is not understood: %w", ErrInvalid, err))
	}
	answer, known := responders[q.Ask]
	if !known {
		return fail(
			fmt.Errorf(
				"%w: it is of version %s, which does not know the question %.80q: all processes should have the same version",
				ErrConflict, h.cfg.Version, q.Ask,
			),
		)
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if err := answer(ctx, h, q.Args, &r); err != nil {
		return fail(err)
	}
	out, err := encode(r)
	if err == nil && len(out) > MaxReply {
		err = fmt.Errorf(
			"%w: the answer would have %d bytes, and at most %d may go from one process to another: ask for less at a time",
			ErrConflict, len(out), MaxReply,
		)
	}
	if err != nil {
		return fail(err)
	}
	return out
}

// responder answers a question of another process.
type responder func(ctx context.Context, h *local, args json.RawMessage, r *reply) error

// responders are what other processes can ask for.
var responders = map[string]responder{
	overviews.name: responderFor(overviews), topicSets.name: responderFor(topicSets),
	topicKeys.name: responderFor(topicKeys), topicCounts.name: responderFor(topicCounts),
	tallies.name: responderFor(tallies), undelivered.name: responderFor(undelivered),
	subscriptionRows.name: responderFor(subscriptionRows), subscriptionDetail.name: responderFor(subscriptionDetail),
	retrying.name: responderFor(retrying), replaying.name: responderFor(replaying), removing.name: responderFor(removing),
	trimming.name: responderFor(trimming),
}

// responderFor makes a kind one that others can ask for.
func responderFor[Q, A any](k kind[Q, A]) responder {
	return func(ctx context.Context, h *local, args json.RawMessage, r *reply) error {
		var q Q
		if err := json.Unmarshal(args, &q); err != nil {
			return fmt.Errorf("%w: the question %s is not understood: %w", ErrInvalid, k.name, err)
		}
		p := ownPart(ctx, h, k, q, true)
		if p.err != nil {
			return p.err
		}
		r.Shards, r.Loading = p.shards, p.loading
		var err error
		r.Answer, err = encode(p.result)
		return err
	}
}

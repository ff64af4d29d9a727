package subscription

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"carillon/internal/wallclock"
)

// unreachableReason is the hub.reason where the topic's server could not be asked.
const unreachableReason = "the server of the topic did not answer when the hub checked the topic"

// asker carries a request through its steps.
type asker struct {
	cfg       Config
	validator Validator
	confirmer Confirmer
	books     *books
	docket    *docket
	settler   *settler
	health    *health
	clock     *wallclock.Clock
	logger    *slog.Logger
}

// advance does the job's next step, and settles at once what that step decided.
// Other steps that follow ask another host and wait for their turn there.
func (a *asker) advance(ctx context.Context, j *job) move {
	var m move
	switch j.step {
	case stepValidate:
		m = a.validate(ctx, j)
	case stepVerify:
		m = a.verify(ctx, j)
	case stepDeny:
		m = a.deny(ctx, j)
	}
	if j.step == stepSettle {
		m = a.settler.settle(ctx, j)
	}
	return m
}

// validate asks whether the topic names this hub (WebSub §5.2).
func (a *asker) validate(ctx context.Context, j *job) move {
	began := time.Now()
	err := a.askWithin(ctx, min(a.cfg.AskTimeout, a.cfg.TopicFor-j.spent), func(ctx context.Context) error {
		return a.validator.Validate(ctx, j.req.Topic)
	})
	var refusal *Refusal
	switch {
	case ctx.Err() != nil: // stopped or replaced: this was no attempt
		return move{}
	case err == nil:
		a.docket.note(topicLane(j.req.Topic), well)
		j.to(stepVerify)
		return move{}
	case errors.As(err, &refusal):
		a.docket.note(topicLane(j.req.Topic), unmoved)
		j.reason = refusal.Reason
		j.to(stepDeny)
		return move{}
	}
	if errors.Is(err, ErrBusy) { // not asked yet: this was no attempt
		return move{pause: later(err, a.cfg.RetryFirst)}
	}
	a.docket.note(topicLane(j.req.Topic), silent)
	j.spent += time.Since(began)
	if pause, ok := j.again(a.cfg); ok && j.spent+pause < a.cfg.TopicFor {
		j.spent += pause
		a.logger.Debug("topic check got no answer, will be repeated", "request", j.req, "pause", pause, "error", err)
		return move{pause: pause}
	}
	return a.unreachable(ctx, j)
}

// unreachable decides about a request whose topic could not be asked. A new
// subscription is denied. A renewal goes on to be verified: its topic named this
// hub before, validation is the hub's to choose (WebSub §5.2), and a subscriber
// takes a denial as final (WebSub §5.2) though its subscription would live on.
func (a *asker) unreachable(ctx context.Context, j *job) move {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.StoreTimeout)
	defer cancel()
	sub, err := a.books.store.Get(ctx, j.req.ID)
	r := j.req
	if err == nil && !renews(r, sub) {
		// It may have replaced a renewal.
		if r, err = a.books.store.Request(ctx, j.req.ID); errors.Is(err, ErrNotFound) {
			r, err = j.req, nil
		}
	}
	switch {
	case err == nil && renews(r, sub):
		a.logger.Info("topic could not be asked, its subscriber renews all the same", "request", j.req)
		j.to(stepVerify)
	case err == nil || errors.Is(err, ErrNotFound):
		j.reason = unreachableReason
		j.to(stepDeny)
	default:
		a.health.failed("reading the subscription", err)
		return move{pause: j.storeAgain()}
	}
	return move{}
}

// verify asks the callback for its intent. The lease counts from the moment of
// asking (WebSub §5.3), and what is published since it was asked first will be delivered.
func (a *asker) verify(ctx context.Context, j *job) move {
	if j.req.Mode == ModeSubscribe && !j.kept {
		if m, ready := a.keepStart(ctx, j); !ready {
			return m
		}
	}
	j.asked = a.clock.Latest()
	err := a.ask(ctx, func(ctx context.Context) error {
		return a.confirmer.Confirm(ctx, j.req, newChallenge())
	})
	lane := callbackLane(j.req.Callback)
	switch {
	case err == nil:
		a.docket.note(lane, well)
		j.settled(activated)
	case ctx.Err() != nil: // stopped, or the shard is lost: this was no attempt
	case noAnswer(err):
		a.docket.note(lane, silent)
		pause, ok := j.again(a.cfg)
		if ok {
			a.logger.Debug(
				"callback did not answer, will be asked again", "request", j.req, "pause", pause, "error", err,
			)
			return move{pause: pause}
		}
		a.logger.Info("callback did not answer, request dropped", "request", j.req, "error", err)
		j.settled(unanswered)
	default:
		a.docket.note(lane, unmoved)
		a.logger.Info("callback did not confirm, request dropped", "request", j.req, "error", err)
		j.settled(noIntent)
	}
	return move{}
}

// keepStart stores from where on the subscription is owed what is published, before the
// callback is asked the first time: its answer may be lost, this process may die with it, and
// another request may take the place of this one. Whatever the subscriber confirmed first
// counts (decision 5). ready says that the callback may be asked now.
func (a *asker) keepStart(ctx context.Context, j *job) (m move, ready bool) {
	head, err := a.head(ctx, j.req.Topic)
	switch {
	case ctx.Err() != nil:
		return move{}, false
	case err != nil:
		a.health.failed("reading the head of the topic", err)
		return move{pause: j.storeAgain()}, false
	}
	err = a.writeStart(ctx, j, head)
	switch {
	case err == nil && j.kept:
		a.health.works()
		return move{}, true
	case err == nil: // replaced, or settled by another process
		return move{end: true}, false
	case ctx.Err() != nil:
		return move{}, false
	}
	a.health.failed("storing where a subscription starts", err)
	return move{pause: j.storeAgain()}, false
}

// writeStart stores the start with the job's request. Where that is no longer stored it
// returns nil, and j.kept is false.
func (a *asker) writeStart(ctx context.Context, j *job, start uint64) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.StoreTimeout)
	defer cancel()
	unlock, err := a.books.lock(ctx, j.req.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if !a.docket.counts(j) {
		return nil
	}
	var stored Request
	for _, r := range j.stored() {
		stored, err = a.books.store.KeepStart(ctx, r, start)
		if !errors.Is(err, ErrSuperseded) {
			break
		}
	}
	switch {
	case err == nil:
		j.req.Since, j.req.Start, j.kept = stored.Since, stored.Start, true
		return nil
	case !errors.Is(err, ErrSuperseded):
		return trouble(err)
	}
	if _, _, err := a.books.look(ctx, j.req.ID); err != nil {
		return err
	}
	return a.settler.overtaken(ctx, j)
}

// deny sends the callback hub.mode=denied with the reason (WebSub §5.2). A callback that never
// confirmed anything may be a stranger's victim: a denial sent to it counts as its refusal.
func (a *asker) deny(ctx context.Context, j *job) move {
	err := a.ask(ctx, func(ctx context.Context) error {
		return a.confirmer.Deny(ctx, j.req.Topic, j.req.Callback, j.reason)
	})
	lane := callbackLane(j.req.Callback)
	switch {
	case err != nil && ctx.Err() != nil:
		return move{}
	case noAnswer(err):
		a.docket.note(lane, silent)
		if pause, ok := j.again(a.cfg); ok {
			a.logger.Debug(
				"callback did not take the denial, will be told again", "request", j.req,
				"pause", pause, "error", err,
			)
			return move{pause: pause}
		}
		a.logger.Info("callback could not be told of its denial", "request", j.req, "error", err)
	case !j.bare:
		a.docket.note(lane, unmoved)
	}
	j.settled(denied)
	return move{}
}

// askWithin bounds a call of the Validator or the Confirmer in time.
func (a *asker) askWithin(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

// ask bounds a call of the Confirmer in time.
func (a *asker) ask(ctx context.Context, call func(context.Context) error) error {
	return a.askWithin(ctx, a.cfg.AskTimeout, call)
}

func (a *asker) head(ctx context.Context, topic string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.StoreTimeout)
	defer cancel()
	return a.books.roster.Head(ctx, topic)
}

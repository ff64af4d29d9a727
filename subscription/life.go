package subscription

import (
	"context"
	"errors"
	"time"
)

// unreachableReason is the hub.reason where the topic's server could not be asked.
const unreachableReason = "the server of the topic did not answer when the hub checked the topic"

// move says what becomes of a job when its goroutine ends: it is ready again at
// once, or after a pause, or it has come to its end.
type move struct {
	pause time.Duration
	end   bool
}

// advance does the job's next step, and settles at once what that step decided.
// Other steps that follow ask another host and wait for their turn there.
func (s *Service) advance(ctx context.Context, j *job) move {
	var m move
	switch j.step {
	case stepValidate:
		m = s.validate(ctx, j)
	case stepVerify:
		m = s.verify(ctx, j)
	case stepDeny:
		m = s.deny(ctx, j)
	}
	if j.step == stepSettle {
		m = s.settle(ctx, j)
	}
	return m
}

// validate asks whether the topic names this hub (WebSub §5.2).
func (s *Service) validate(ctx context.Context, j *job) move {
	began := time.Now()
	err := s.askWithin(ctx, min(s.cfg.AskTimeout, s.cfg.TopicFor-j.spent), func(ctx context.Context) error {
		return s.validator.Validate(ctx, j.req.Topic)
	})
	var refusal *Refusal
	switch {
	case ctx.Err() != nil: // stopped or replaced: this was no attempt
		return move{}
	case err == nil:
		s.note(topicLane(j.req.Topic), well)
		j.to(stepVerify)
		return move{}
	case errors.As(err, &refusal):
		s.note(topicLane(j.req.Topic), unmoved)
		j.reason = refusal.Reason
		j.to(stepDeny)
		return move{}
	}
	if errors.Is(err, ErrBusy) { // not asked yet: this was no attempt
		return move{pause: later(err, s.cfg.RetryFirst)}
	}
	s.note(topicLane(j.req.Topic), silent)
	j.spent += time.Since(began)
	if pause, ok := j.again(s.cfg); ok && j.spent+pause < s.cfg.TopicFor {
		j.spent += pause
		s.logger.Debug("topic check got no answer, will be repeated", "request", j.req, "pause", pause, "error", err)
		return move{pause: pause}
	}
	return s.unreachable(ctx, j)
}

// unreachable decides about a request whose topic could not be asked. A new
// subscription is denied. A renewal goes on to be verified: its topic named this
// hub before, validation is the hub's to choose (WebSub §5.2), and a subscriber
// takes a denial as final (WebSub §5.2) though its subscription would live on.
func (s *Service) unreachable(ctx context.Context, j *job) move {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	sub, err := s.books.store.Get(ctx, j.req.ID)
	r := j.req
	if err == nil && !renews(r, sub) {
		// It may have replaced a renewal.
		if r, err = s.books.store.Request(ctx, j.req.ID); errors.Is(err, ErrNotFound) {
			r, err = j.req, nil
		}
	}
	switch {
	case err == nil && renews(r, sub):
		s.logger.Info("topic could not be asked, its subscriber renews all the same", "request", j.req)
		j.to(stepVerify)
	case err == nil || errors.Is(err, ErrNotFound):
		j.reason = unreachableReason
		j.to(stepDeny)
	default:
		s.storeFailed("reading the subscription", err)
		return move{pause: j.storeAgain()}
	}
	return move{}
}

// verify asks the callback for its intent. The lease counts from the moment of
// asking (WebSub §5.3), and what is published since it was asked first will be delivered.
func (s *Service) verify(ctx context.Context, j *job) move {
	if j.req.Mode == ModeSubscribe && !j.kept {
		if m, ready := s.keepStart(ctx, j); !ready {
			return m
		}
	}
	j.asked = s.clock.Latest()
	err := s.ask(ctx, func(ctx context.Context) error {
		return s.confirmer.Confirm(ctx, j.req, newChallenge())
	})
	lane := callbackLane(j.req.Callback)
	switch {
	case err == nil:
		s.note(lane, well)
		j.settled(activated)
	case ctx.Err() != nil: // stopped, or the shard is lost: this was no attempt
	case noAnswer(err):
		s.note(lane, silent)
		pause, ok := j.again(s.cfg)
		if ok {
			s.logger.Debug("callback did not answer, will be asked again", "request", j.req, "pause", pause, "error", err)
			return move{pause: pause}
		}
		s.logger.Info("callback did not answer, request dropped", "request", j.req, "error", err)
		j.settled(unanswered)
	default:
		s.note(lane, unmoved)
		s.logger.Info("callback did not confirm, request dropped", "request", j.req, "error", err)
		j.settled(noIntent)
	}
	return move{}
}

// keepStart stores from where on the subscription is owed what is published, before the
// callback is asked the first time: its answer may be lost, this process may die with it, and
// another request may take the place of this one. Whatever the subscriber confirmed first
// counts (decision 5). ready says that the callback may be asked now.
func (s *Service) keepStart(ctx context.Context, j *job) (m move, ready bool) {
	head, err := s.head(ctx, j.req.Topic)
	switch {
	case ctx.Err() != nil:
		return move{}, false
	case err != nil:
		s.storeFailed("reading the head of the topic", err)
		return move{pause: j.storeAgain()}, false
	}
	err = s.writeStart(ctx, j, head)
	switch {
	case err == nil && j.kept:
		s.storeWorks()
		return move{}, true
	case err == nil: // replaced, or settled by another process
		return move{end: true}, false
	case ctx.Err() != nil:
		return move{}, false
	}
	s.storeFailed("storing where a subscription starts", err)
	return move{pause: j.storeAgain()}, false
}

// writeStart stores the start with the job's request. Where that is no longer stored it
// returns nil, and j.kept is false.
func (s *Service) writeStart(ctx context.Context, j *job, start uint64) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	unlock, err := s.books.lock(ctx, j.req.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if !s.counts(j) {
		return nil
	}
	var stored Request
	for _, r := range j.stored() {
		stored, err = s.books.store.KeepStart(ctx, r, start)
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
	if _, _, err := s.books.look(ctx, j.req.ID); err != nil {
		return err
	}
	return s.overtaken(ctx, j)
}

// deny tells the callback hub.mode=denied with the reason (WebSub §5.2). One that never
// confirmed anything may be a stranger's victim: that it is told something counts
// as its refusal.
func (s *Service) deny(ctx context.Context, j *job) move {
	err := s.ask(ctx, func(ctx context.Context) error {
		return s.confirmer.Deny(ctx, j.req.Topic, j.req.Callback, j.reason)
	})
	lane := callbackLane(j.req.Callback)
	switch {
	case err != nil && ctx.Err() != nil:
		return move{}
	case noAnswer(err):
		s.note(lane, silent)
		if pause, ok := j.again(s.cfg); ok {
			s.logger.Debug("callback did not take the denial, will be told again", "request", j.req, "pause", pause, "error", err)
			return move{pause: pause}
		}
		s.logger.Info("callback could not be told of its denial", "request", j.req, "error", err)
	case !j.bare:
		s.note(lane, unmoved)
	}
	j.settled(denied)
	return move{}
}

// ask bounds a call of the Confirmer in time.
func (s *Service) ask(ctx context.Context, call func(context.Context) error) error {
	return s.askWithin(ctx, s.cfg.AskTimeout, call)
}

// askWithin bounds a call of the Validator or the Confirmer in time.
func (s *Service) askWithin(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

func (s *Service) head(ctx context.Context, topic string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	return s.books.roster.Head(ctx, topic)
}

// settle writes what came of the job, again and again until the store takes it.
func (s *Service) settle(ctx context.Context, j *job) move {
	err := s.write(ctx, j)
	switch {
	case err == nil:
		return move{end: true}
	case ctx.Err() != nil: // stopped, replaced, or the shard is lost
		return move{pause: storePauseFirst}
	}
	s.storeFailed("settling a request", err)
	return move{pause: j.storeAgain()}
}

// write makes the changes that the job's outcome asks for.
func (s *Service) write(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	unlock, err := s.books.lock(ctx, j.req.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if !s.mayWrite(j) {
		s.handOver(j)
		return nil // replaced while it ran, and counted then; or left to another process
	}
	o := j.result
	switch {
	case j.bare:
		return s.drop(ctx, j)
	case o == activated:
		o, err = s.confirmed(ctx, j)
	default:
		if err = s.drop(ctx, j); err == nil {
			// Another process may have settled it otherwise.
			_, _, err = s.books.look(ctx, j.req.ID)
		}
	}
	switch {
	case errors.Is(err, ErrSuperseded):
		return s.overtaken(ctx, j)
	case err != nil:
		return err
	}
	s.storeWorks()
	s.metrics.count(o)
	if o == denied {
		s.logger.Info("request settled", "request", j.req, "outcome", string(o), "reason", j.reason)
		return nil
	}
	s.logger.Info("request settled", "request", j.req, "outcome", string(o))
	return nil
}

// handOver settles the request that replaced the job's by the same answer, if the callback
// has confirmed exactly what that one asks for, too. So a subscriber that asks again and
// again, faster than its callback answers, comes to an end. The caller holds the lock of the
// books.
func (s *Service) handOver(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heir := s.jobs[j.req.ID]
	if heir == nil || heir == j || heir.bare || j.bare || j.result != activated || !heir.req.same(j.req) {
		return
	}
	heir.req, heir.kept, heir.asked = heir.req.Replacing(j.req), j.kept, j.asked
	heir.settled(activated)
}

// confirmed makes the change that the callback has confirmed, also where a stray
// is in the store in the request's place.
func (s *Service) confirmed(ctx context.Context, j *job) (o outcome, err error) {
	for _, r := range j.stored() {
		if r.Mode == ModeUnsubscribe {
			o = unsubscribed
			err = s.books.unsubscribe(ctx, r)
		} else {
			var again bool
			again, err = s.books.activate(ctx, r, j.asked)
			if o = activated; again {
				o = renewed
			}
		}
		if !errors.Is(err, ErrSuperseded) {
			break
		}
	}
	return o, err
}

// drop takes the request out of the store, with its strays.
func (s *Service) drop(ctx context.Context, j *job) error {
	for _, r := range j.stored() {
		if err := s.books.drop(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// overtaken ends a job whose request another process has settled or replaced, and
// takes up the one that took its place. The roster has heard what holds.
func (s *Service) overtaken(ctx context.Context, j *job) error {
	if err := s.catchUp(ctx, j.req.ID); err != nil {
		return err
	}
	if s.counts(j) {
		s.metrics.count(superseded)
		s.logger.Info("request settled or replaced by another process", "request", j.req)
	}
	return nil
}

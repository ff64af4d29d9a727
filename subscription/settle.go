package subscription

import (
	"context"
	"errors"
	"log/slog"
)

// settler writes the outcome of requests.
type settler struct {
	cfg      Config
	books    *books
	docket   *docket
	listener *listener
	health   *health
	metrics  *metrics
	logger   *slog.Logger
}

// settle writes the outcome of the job, again and again until the store takes it.
func (s *settler) settle(ctx context.Context, j *job) move {
	err := s.write(ctx, j)
	switch {
	case err == nil:
		return move{end: true}
	case ctx.Err() != nil: // stopped, replaced, or the shard is lost
		return move{pause: storePauseFirst}
	}
	s.health.failed("settling a request", err)
	return move{pause: j.storeAgain()}
}

// write makes the changes that the job's outcome asks for.
func (s *settler) write(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	unlock, err := s.books.lock(ctx, j.req.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if !s.docket.mayWrite(j) {
		s.docket.handOver(j)
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
	s.health.works()
	s.metrics.count(o)
	if o == denied {
		s.logger.Info("request settled", "request", j.req, "outcome", string(o), "reason", j.reason)
		return nil
	}
	s.logger.Info("request settled", "request", j.req, "outcome", string(o))
	return nil
}

// confirmed makes the change that the callback has confirmed, also where a stray
// is in the store in the request's place.
func (s *settler) confirmed(ctx context.Context, j *job) (o outcome, err error) {
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
func (s *settler) drop(ctx context.Context, j *job) error {
	for _, r := range j.stored() {
		if err := s.books.drop(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// overtaken ends a job whose request another process has settled or replaced, and
// takes up the one that took its place. The roster has heard what holds.
func (s *settler) overtaken(ctx context.Context, j *job) error {
	if err := s.listener.catchUp(ctx, j.req.ID); err != nil {
		return err
	}
	if s.docket.counts(j) {
		s.metrics.count(superseded)
		s.logger.Info("request settled or replaced by another process", "request", j.req)
	}
	return nil
}

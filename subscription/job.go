package subscription

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"

	"carillon/internal/turns"
)

// job is one request on its way, or the notice of a denial. It belongs to the
// goroutine that runs it, and to the queue's mutex while none does.
type job struct {
	// req is the request. Its Since and Start change under the lock of the books alone.
	req Request
	// client is who sent the request, as far as this process knows.
	client string
	// bare: the store holds no request of this job's own.
	bare bool
	// strays are the tokens of requests with its ID whose Submit failed: one of
	// them may be in the store in the place of this job's own. Owned by the
	// lock of the books.
	strays []uuid.UUID

	step   step
	kept   bool      // the store has the request's Start
	asked  time.Time // when the verification request was made
	reason string    // for the denial
	result outcome   // the outcome to be settled

	// attempts is the schedule of the present step, nil before the first
	// failure; storeAttempts that of the store.
	attempts      backoff.BackOff
	storeAttempts backoff.BackOff
	// spent is how long the topic check took so far, with its pauses.
	spent time.Duration

	cancel context.CancelFunc // ends the running goroutine's work
	done   chan struct{}      // closed when that has ended
	// counted is whom waits counts it for; zero: it does not. Owned by docket.mu.
	counted laneKey
	// writing: the outcome is being written. Owned by docket.mu.
	writing bool

	began  step // with which its goroutine began. Owned by docket.mu.
	class  turns.Class
	ticket *jobTicket // in the queue. Owned by docket.mu.
}

// move gives the outcome of a job when its goroutine ends: it is ready again at
// once, or after a pause, or it has come to its end.
type move struct {
	pause time.Duration
	end   bool
}

// step is what a job does next.
type step uint8

const (
	stepValidate step = iota // ask whether the topic names this hub
	stepVerify               // ask the callback for its intent
	stepDeny                 // tell the callback that it is denied
	stepSettle               // write the outcome of it
)

func newJob(r Request) *job {
	return &job{req: r, step: firstStep(r.Mode)}
}

func firstStep(m Mode) step {
	if m == ModeSubscribe {
		return stepValidate
	}
	return stepVerify // WebSub §5.2: unsubscriptions are not validated
}

// newNotice returns the job that sends a callback the end of its subscription.
func newNotice(sub Subscription, reason string) *job {
	return &job{
		req:  Request{ID: sub.ID, Topic: sub.Topic, Callback: sub.Callback},
		bare: true, step: stepDeny, reason: reason,
	}
}

// newStray returns the job that takes a request out of the store whose Submit failed.
func newStray(r Request) *job {
	return &job{req: Request{ID: r.ID}, bare: true, strays: []uuid.UUID{r.Token}, step: stepSettle}
}

// maxStrays is how many strays of one job are remembered, the latest. Of one that
// is forgotten the store thinks as of any other request.
const maxStrays = 16

// addStray records a request whose Submit failed. The caller holds the lock of the
// books, and nothing else reads strays meanwhile.
func (j *job) addStray(token uuid.UUID) {
	if len(j.strays) == maxStrays {
		j.strays = slices.Delete(j.strays, 0, 1)
	}
	j.strays = append(j.strays, token)
}

// stored are the forms in which the store may hold the job's request: as itself,
// or with the token of a stray.
func (j *job) stored() []Request {
	var all []Request
	if !j.bare {
		all = append(all, j.req)
	}
	for _, token := range j.strays {
		r := j.req
		r.Token = token
		all = append(all, r)
	}
	return all
}

// knows reports whether a request with the token is the job's own or a stray.
func (j *job) knows(token uuid.UUID) bool {
	return !j.bare && j.req.Token == token || slices.Contains(j.strays, token)
}

// asks returns the lane of the server that the job's next step asks.
func (j *job) asks() laneKey {
	switch j.step {
	case stepValidate:
		return topicLane(j.req.Topic)
	case stepVerify, stepDeny:
		return callbackLane(j.req.Callback)
	}
	return laneKey{peer: peerStore}
}

// challengeBytes is how much randomness is in a challenge.
const challengeBytes = 24

// newChallenge returns a challenge that was never used and cannot be guessed. The
// alphabet of base64url lies within the one of WebSub §5.3.
func newChallenge() string {
	var b [challengeBytes]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// to makes the step the job's next, with a schedule of its own.
func (j *job) to(s step) {
	j.step = s
	j.attempts = nil
}

// settled makes writing the outcome the job's next step.
func (j *job) settled(o outcome) {
	j.result = o
	j.to(stepSettle)
}

// again returns the pause before the present step is repeated, and false when
// it was repeated often enough.
func (j *job) again(cfg Config) (time.Duration, bool) {
	if j.attempts == nil {
		j.attempts = backoff.WithMaxRetries(backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(cfg.RetryFirst),
			backoff.WithMaxInterval(cfg.RetryMax),
			backoff.WithMultiplier(2),
			backoff.WithRandomizationFactor(0.1),
			backoff.WithMaxElapsedTime(0),
		), uint64(cfg.Retries))
	}
	pause := j.attempts.NextBackOff()
	return pause, pause != backoff.Stop
}

// The pauses between two calls of a store that has trouble. They go on without end: accepted and
// verified requests are not given up.
const (
	storePauseFirst = 100 * time.Millisecond
	storePauseMax   = 10 * time.Second
)

func newStoreBackOff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(storePauseFirst),
		backoff.WithMaxInterval(storePauseMax),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0),
	)
}

// storeAgain returns the pause before the store is called again.
func (j *job) storeAgain() time.Duration {
	if j.storeAttempts == nil {
		j.storeAttempts = newStoreBackOff()
	}
	return j.storeAttempts.NextBackOff()
}

// noAnswer reports whether the error says that the callback did not answer; one of
// an unknown kind does, so that no subscriber loses by it.
func noAnswer(err error) bool { return err != nil && !errors.Is(err, ErrNoIntent) }

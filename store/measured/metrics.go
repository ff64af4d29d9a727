package measured

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/source"
	"carillon/subscription"
)

// Calls times what is called of an engine.
type Calls struct {
	seconds *prometheus.HistogramVec
	// good are those of seconds that most calls observe, found once.
	good [operations]prometheus.Observer
}

// outcome is what came of a call, as metrics show it.
type outcome string

const (
	// ok: the engine answered, also that there is no such thing, or no room for one more.
	ok outcome = "ok"
	// unavailable: it cannot at the moment.
	unavailable outcome = "unavailable"
	// fenced: the shard belongs to another process by now.
	fenced outcome = "fenced"
	// ended: whoever called did not want it any more.
	ended outcome = "ended"
	// failed: anything else.
	failed outcome = "failed"
)

// answers are errors by which an engine answers a question.
var answers = []error{
	delivery.ErrEndOfLog, subscription.ErrNotFound, subscription.ErrSuperseded, subscription.ErrBusy,
	source.ErrNotFound, source.ErrExists,
}

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, delivery.ErrFenced):
		return fenced
	case errors.Is(err, delivery.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return unavailable
	case errors.Is(err, context.Canceled):
		return ended
	}
	for _, answer := range answers {
		if errors.Is(err, answer) {
			return ok
		}
	}
	return failed
}

// NewCalls makes the metric and registers it, if there is a Registerer.
func NewCalls(reg prometheus.Registerer) (*Calls, error) {
	c := &Calls{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "carillon", Subsystem: "store", Name: "operation_duration_seconds",
		Help: "How long calls of the store take, by operation and outcome: ok (also where it answers that there is no such thing), " +
			"unavailable, fenced (the shard has another owner), ended (nobody wanted it any more) or failed.",
		Buckets:                        []float64{.0001, .0005, .001, .005, .025, .1, .5, 2.5, 10},
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 80, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"operation", "outcome"})}
	for op := range operations {
		c.good[op] = c.seconds.WithLabelValues(op.String(), string(ok))
	}
	if reg == nil {
		return c, nil
	}
	if err := reg.Register(c.seconds); err != nil {
		return nil, fmt.Errorf("store: metrics: %w", err)
	}
	return c, nil
}

// done notes a call that has ended.
func (c *Calls) done(op operation, began time.Time, err error) {
	took := time.Since(began).Seconds()
	if what := outcomeOf(err); what != ok {
		c.seconds.WithLabelValues(op.String(), string(what)).Observe(took)
		return
	}
	c.good[op].Observe(took)
}

// sequence times the reading of a sequence, from its first to its last.
func sequence[T any](c *Calls, op operation, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		began := time.Now()
		var failure error
		defer func() { c.done(op, began, failure) }()
		all(func(one T, err error) bool {
			if err != nil {
				failure = err
			}
			return yield(one, err)
		})
	}
}

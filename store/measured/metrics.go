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

// Calls times what is called of an engine, and counts the calls that fail.
type Calls struct {
	seconds *prometheus.HistogramVec
	// errors are the calls that ended unavailable or failed. The histogram has them as well; but a
	// native histogram has no series for its count, and no histogram has a 0 before the first error.
	errors *prometheus.CounterVec
	// good are those of seconds that most calls observe, found once.
	good [operations]prometheus.Observer
}

// outcome is the outcome of a call, as metrics show it.
type outcome string

const (
	// ok: the engine answered, also that there is no such thing, or no room for one more.
	ok outcome = "ok"
	// unavailable: it cannot at the moment.
	unavailable outcome = "unavailable"
	// fenced: the shard belongs to another process by now.
	fenced outcome = "fenced"
	// ended: the caller did not want it any more.
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

// NewCalls makes the metrics and registers them, if there is a Registerer.
func NewCalls(reg prometheus.Registerer) (*Calls, error) {
	c := &Calls{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "carillon", Subsystem: "store", Name: "operation_duration_seconds",
		Help: "Duration of the store's calls by outcome: ok (also for a missing record), " +
			"unavailable, fenced (the shard has another owner), ended (the caller gave up) or failed.",
		Buckets:                        []float64{.0001, .0005, .001, .005, .025, .1, .5, 2.5, 10},
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 80, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"operation", "outcome"})}
	c.errors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "carillon", Subsystem: "store", Name: "errors_total",
		Help: "Calls of the store that ended unavailable or failed, by operation.",
	}, []string{"operation", "outcome"})
	for op := range operations {
		c.good[op] = c.seconds.WithLabelValues(op.String(), string(ok))
		c.errors.WithLabelValues(op.String(), string(unavailable))
		c.errors.WithLabelValues(op.String(), string(failed))
	}
	if reg == nil {
		return c, nil
	}
	if err := errors.Join(reg.Register(c.seconds), reg.Register(c.errors)); err != nil {
		return nil, fmt.Errorf("store: metrics: %w", err)
	}
	return c, nil
}

// done records a call that has ended, and whose error is in err.
func (c *Calls) done(op operation, began time.Time, err *error) {
	took := time.Since(began).Seconds()
	what := outcomeOf(*err)
	switch what {
	case ok:
		c.good[op].Observe(took)
		return
	case unavailable, failed:
		c.errors.WithLabelValues(op.String(), string(what)).Inc()
	}
	c.seconds.WithLabelValues(op.String(), string(what)).Observe(took)
}

// sequence times the reading of a sequence, from its first to its last.
func sequence[T any](c *Calls, op operation, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		began := time.Now()
		var failure error
		defer c.done(op, began, &failure)
		all(func(one T, err error) bool {
			if err != nil {
				failure = err
			}
			return yield(one, err)
		})
	}
}

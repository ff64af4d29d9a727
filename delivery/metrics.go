package delivery

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what an operator sees of the room. Labels come from closed sets.
type metrics struct {
	attempts  *prometheus.CounterVec // by class
	seconds   prometheus.Histogram
	gaps      *prometheus.CounterVec // by reason
	publishes *prometheus.CounterVec // by result
	breaks    prometheus.Counter
	flushes   prometheus.Counter
	failures  prometheus.Counter
	readFails prometheus.Counter
	losses    prometheus.Counter
}

// newMetrics makes the metrics and registers them; without a Registerer they
// are only counted.
func newMetrics(d *Dispatcher, reg prometheus.Registerer) (*metrics, error) {
	const ns, sub = "carillon", "delivery"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
	}
	vec := func(name, label, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, []string{label})
	}
	gauge := func(name, help string, of func(Stats) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help},
			func() float64 { return float64(of(d.Stats())) })
	}
	m := &metrics{
		attempts: vec("attempts_total", "class", "Delivery attempts by the class of their outcome."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "attempt_seconds",
			Help:    "How long delivery attempts take.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		gaps:      vec("gaps_total", "reason", "Stretches of a log that a subscription will not get."),
		publishes: vec("publishes_total", "result", "Publications handed in: accepted, repeated (accepted before) or failed."),
		breaks:    counter("continuity_breaks_total", "Accepted notifications whose from is not the until of the one before."),
		flushes:   counter("flushes_total", "Batches of positions that were saved."),
		failures:  counter("flush_failures_total", "Batches of positions that could not be saved; they are tried again."),
		readFails: counter("read_failures_total", "Reads of a log that failed; they are tried again."),
		losses:    counter("log_losses_total", "Logs that were found without their end: the engine lost what it had acknowledged."),
	}
	for c := ClassDelivered; c <= ClassProtocol; c++ {
		m.attempts.WithLabelValues(c.String())
	}
	for _, r := range []GapReason{GapGivenUp, GapTrimmed} {
		m.gaps.WithLabelValues(r.String())
	}
	for _, r := range []string{resultAccepted, resultRepeated, resultFailed} {
		m.publishes.WithLabelValues(r)
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.attempts, m.seconds, m.gaps, m.publishes, m.breaks, m.flushes, m.failures, m.readFails, m.losses,
		gauge("subscriptions", "Subscriptions in the shards of this process.", func(s Stats) int { return s.Subscriptions }),
		gauge("in_flight", "Delivery attempts under way.", func(s Stats) int { return s.InFlight }),
		gauge("slow", "Delivery attempts under way that are slow.", func(s Stats) int { return s.Slow }),
		gauge("ready", "Subscriptions that have something to send and wait for their turn.", func(s Stats) int { return s.Ready }),
		gauge("unsaved", "Outcomes whose positions are not saved yet.", func(s Stats) int { return s.Unsaved }),
		gauge("paused", "1 while no attempt starts because the engine fails, else 0.", func(s Stats) int { return one(s.Paused) }),
		gauge("unsure", "1 while no attempt starts because another process may own the shards, else 0.", func(s Stats) int { return one(s.Unsure) }),
		gauge("shards", "Shards that this process owns and has read.", func(s Stats) int { return s.Shards }),
		gauge("loading", "Shards that this process owns and is reading: their deliveries are still to begin.", func(s Stats) int { return s.Loading }),
		gauge("waiting", "Subscriptions that back off after a failure.", func(s Stats) int { return s.Waiting }),
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The results of a publication.
const (
	resultAccepted = "accepted"
	resultRepeated = "repeated"
	resultFailed   = "failed"
)

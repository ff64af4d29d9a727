package subscription

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// outcome is the outcome of a request: a closed set, the labels of a metric.
type outcome string

const (
	activated    outcome = "activated"
	renewed      outcome = "renewed"
	unsubscribed outcome = "unsubscribed"
	noIntent     outcome = "no_intent"
	unanswered   outcome = "no_answer"
	denied       outcome = "denied"
	superseded   outcome = "superseded"
)

// metrics is what an operator sees of the room. Labels come from closed sets.
type metrics struct {
	requests    *prometheus.CounterVec // by mode
	outcomes    *prometheus.CounterVec // by outcome
	expired     prometheus.Counter
	storeErrors prometheus.Counter
}

// newMetrics makes the metrics and registers them; without a Registerer they
// are only counted.
func newMetrics(reg prometheus.Registerer, pending func() int) (*metrics, error) {
	const ns, sub = "carillon", "subscription"
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "requests_total",
			Help: "Subscribe and unsubscribe requests that were accepted.",
		}, []string{"mode"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "outcomes_total",
			Help: "What became of accepted requests.",
		}, []string{"outcome"}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "expired_total",
			Help: "Subscriptions that ended with their lease.",
		}),
		storeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "store_errors_total",
			Help: "Calls of the store that failed; they are tried again, those within a request by its sender.",
		}),
	}
	for _, mode := range []Mode{ModeSubscribe, ModeUnsubscribe} {
		m.requests.WithLabelValues(string(mode))
	}
	for _, o := range []outcome{activated, renewed, unsubscribed, noIntent, unanswered, denied, superseded} {
		m.outcomes.WithLabelValues(string(o))
	}
	if reg == nil {
		return m, nil
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: ns, Subsystem: sub, Name: "pending",
		Help: "Requests and notices of denial that are not settled.",
	}, func() float64 { return float64(pending()) })
	for _, c := range []prometheus.Collector{m.requests, m.outcomes, m.expired, m.storeErrors, waiting} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) count(o outcome) { m.outcomes.WithLabelValues(string(o)).Inc() }

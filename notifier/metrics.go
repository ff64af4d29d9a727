package notifier

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an operator watches. The label set has the names of the
// configured sets, the label outcome the outcomes of a POST, the label code the
// status codes that intake answers.
type metrics struct {
	requests      *prometheus.CounterVec
	journalErrors prometheus.Counter
	sets          map[string]*setMetrics
}

// setMetrics are those of one set.
type setMetrics struct {
	events        prometheus.Counter
	notifications prometheus.Counter
	entries       prometheus.Counter
	until         prometheus.Gauge
	failures      prometheus.Gauge
	clock         prometheus.Gauge
	posts         map[outcome]prometheus.Counter
}

const metricsPrefix = "carillon_notifier_"

func newMetrics(reg prometheus.Registerer, sets []string) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricsPrefix + name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metricsPrefix + name, Help: help}, []string{"set"})
		reg.MustRegister(g)
		return g
	}
	m := &metrics{
		requests:      counter("intake_requests_total", "Requests with events, by the status code of the answer.", "code"),
		journalErrors: counter("journal_errors_total", "Calls to the journal that failed.").WithLabelValues(),
		sets:          map[string]*setMetrics{},
	}
	events := counter("events_total", "Events that are in the journal, by set.", "set")
	notifications := counter("notifications_accepted_total", "Notifications that the hub accepted.", "set")
	entries := counter("entries_accepted_total", "Entries of notifications that the hub accepted.", "set")
	posts := counter("posts_total", "POSTs to the hub, by outcome.", "set", "outcome")
	until := gauge("accepted_until_timestamp_seconds", "End of the interval that the hub has accepted, Unix time.")
	failures := gauge("publish_failures", "POSTs that failed in a row; 0 when the last one was accepted.")
	clock := gauge("clock_behind_seconds", "How long publishing waits for a clock that was set back.")
	for _, set := range sets {
		s := &setMetrics{
			events: events.WithLabelValues(set), notifications: notifications.WithLabelValues(set),
			entries: entries.WithLabelValues(set), until: until.WithLabelValues(set),
			failures: failures.WithLabelValues(set), clock: clock.WithLabelValues(set),
			posts: map[outcome]prometheus.Counter{},
		}
		for _, o := range outcomes {
			s.posts[o] = posts.WithLabelValues(set, string(o))
		}
		m.sets[set] = s
	}
	return m
}

func (m *metrics) of(set string) *setMetrics { return m.sets[set] }

// answered counts a request by its status code, which is one of the few that
// intake answers.
func (m *metrics) answered(status int) { m.requests.WithLabelValues(strconv.Itoa(status)).Inc() }

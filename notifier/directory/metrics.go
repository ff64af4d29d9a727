package directory

import (
	"github.com/prometheus/client_golang/prometheus"

	"carillon/notifier"
	"carillon/payload"
)

// metrics are what an operator watches of one set. The label set has its name, the label
// outcome one of outcomes, the label change one of the three changes.
type metrics struct {
	scans      map[outcome]prometheus.Counter
	events     map[payload.Change]prometheus.Counter
	duration   prometheus.Gauge
	scanned    prometheus.Gauge
	resources  prometheus.Gauge
	unreadable prometheus.Gauge
	folders    prometheus.Gauge
	held       prometheus.Gauge
}

// outcome is how a scan ended.
type outcome string

const (
	complete outcome = "complete"
	// waiting: the directory is not there, or has nothing of what the set has.
	waiting outcome = "held"
	// failed: the state of the set could not be read.
	failed outcome = "failed"
)

var outcomes = []outcome{complete, waiting, failed}

const metricsPrefix = "carillon_notifier_watch_"

// newMetrics registers the metrics of one set; others have them under the same names.
func newMetrics(reg prometheus.Registerer, set string) *metrics {
	reg = prometheus.WrapRegistererWith(prometheus.Labels{"set": set}, reg)
	counter := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricsPrefix + name, Help: help}, []string{label})
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: metricsPrefix + name, Help: help})
		reg.MustRegister(g)
		return g
	}
	m := &metrics{
		scans: map[outcome]prometheus.Counter{}, events: map[payload.Change]prometheus.Counter{},
		duration:  gauge("scan_duration_seconds", "How long the last scan of the directory took."),
		scanned:   gauge("scan_timestamp_seconds", "When the last complete scan began, Unix time."),
		resources: gauge("resources", "Files that the last complete scan found."),
		unreadable: gauge(
			"unreadable",
			"Files and directories that cannot be read, or cannot be resources; at most 1000 are counted.",
		),
		folders: gauge("directories", "Directories that the last complete scan found."),
		held: gauge(
			"held", "1 while nothing is announced, as the directory is not there or has nothing of what the set has.",
		),
	}
	scans := counter("scans_total", "Scans of the directory, by outcome.", "outcome")
	for _, o := range outcomes {
		m.scans[o] = scans.WithLabelValues(string(o))
	}
	events := counter("events_total", "Changes of files that are in the journal, by kind.", "change")
	for _, c := range []payload.Change{payload.Created, payload.Updated, payload.Deleted} {
		m.events[c] = events.WithLabelValues(string(c))
	}
	return m
}

func (m *metrics) announced(events []notifier.Event) {
	for i := range events {
		m.events[events[i].Change].Inc()
	}
}

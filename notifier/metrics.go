package notifier

import (
	"net/http"
	"strconv"

	"carillon/internal/readings"
	"carillon/payload"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an operator watches. The label set has the names of the
// configured sets, the label outcome the outcomes of a POST or of a request for a document, the label code the
// status codes that intake answers.
type metrics struct {
	requests      *prometheus.CounterVec
	journalErrors prometheus.Counter
	ahead         prometheus.Gauge // of the clock
	documents     *prometheus.CounterVec
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
	lists         prometheus.Gauge
	listEntries   prometheus.Gauge
	listsClosed   map[closing]prometheus.Counter

	resourceListAt       prometheus.Gauge
	resourceListEntries  prometheus.Gauge
	resourceListFailures prometheus.Counter

	archived        map[string]prometheus.Gauge // by the capability of the archive
	archiveWaiting  prometheus.Gauge
	archiveFailures prometheus.Counter
}

const metricsPrefix = "carillon_notifier_"

// newMetrics registers the metrics. Those of the documents and files that are being sent are read
// from the Readings.
func newMetrics(reg prometheus.Registerer, sets []string, sent, files *readings.Readings) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricsPrefix + name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: metricsPrefix + name, Help: help}, append([]string{"set"}, labels...),
		)
		reg.MustRegister(g)
		return g
	}
	m := &metrics{
		requests: counter(
			"intake_requests_total", "Requests with events, by the status code of the answer.", "code",
		),
		journalErrors: counter("journal_errors_total", "Calls to the journal that failed.").WithLabelValues(),
		ahead: prometheus.NewGauge(
			prometheus.GaugeOpts{
				Name: metricsPrefix + "clock_doubted_seconds",
				Help: "By how much the clock was set forward, while that is not believed; 0 otherwise.",
			},
		),
		documents: counter(
			"documents_total", "Requests for lists and indexes, by what became of them.", "document", "outcome",
		),
		sets: map[string]*setMetrics{},
	}
	reg.MustRegister(m.ahead,
		underWay("documents_under_way", "Lists and indexes that are being sent.", sent),
		underWay("files_under_way", "Files of watched directories that are being sent.", files))
	lists := gauge("change_lists", "Change Lists that are kept, with the open one.")
	listEntries := gauge("change_list_entries", "Entries of the open Change List.")
	listsClosed := counter("change_lists_closed_total", "Change Lists that were closed, by what for.", "set", "by")
	resourceListAt := gauge(
		"resource_list_at_timestamp_seconds",
		"The moment of the newest Resource List, Unix time; 0 before the first.",
	)
	resourceListEntries := gauge("resource_list_entries", "Resources of the newest Resource List.")
	resourceListFailures := counter("resource_list_failures_total", "Resource Lists that could not be made.", "set")
	archived := gauge("archived_documents", "Documents that an archive keeps.", "archive")
	archiveWaiting := gauge(
		"archive_waiting", "Closed Change Lists that are not in the archive yet; the journal keeps them.",
	)
	archiveFailures := counter("archive_failures_total", "Attempts to archive that failed.", "set")
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
			posts: map[outcome]prometheus.Counter{}, listsClosed: map[closing]prometheus.Counter{},
			lists: lists.WithLabelValues(set), listEntries: listEntries.WithLabelValues(set),
			resourceListAt: resourceListAt.WithLabelValues(set), resourceListEntries: resourceListEntries.WithLabelValues(set),
			resourceListFailures: resourceListFailures.WithLabelValues(set),
			archived:             map[string]prometheus.Gauge{}, archiveWaiting: archiveWaiting.WithLabelValues(set),
			archiveFailures: archiveFailures.WithLabelValues(set),
		}
		for _, capability := range archiveCapabilities {
			s.archived[capability] = archived.WithLabelValues(set, capability)
		}
		for _, by := range closings {
			s.listsClosed[by] = listsClosed.WithLabelValues(set, string(by))
		}
		for _, o := range outcomes {
			s.posts[o] = posts.WithLabelValues(set, string(o))
		}
		m.sets[set] = s
	}
	return m
}

// underWay returns a gauge of how many readings there are.
func underWay(name, help string, of *readings.Readings) prometheus.Collector {
	opts := prometheus.GaugeOpts{Name: metricsPrefix + name, Help: help}
	return prometheus.NewGaugeFunc(opts, func() float64 { return float64(of.Count()) })
}

func (m *metrics) of(set string) *setMetrics { return m.sets[set] }

// answered counts a request by its status code, which is one of the few that
// intake answers.
func (m *metrics) answered(status int) { m.requests.WithLabelValues(strconv.Itoa(status)).Inc() }

// outcome is the outcome of a POST: the values of a metric's label.
type outcome string

const (
	outcomeAccepted    outcome = "accepted"     // 2xx
	outcomeRedirect    outcome = "redirect"     // 3xx, not followed
	outcomeClientError outcome = "client_error" // 4xx
	outcomeServerError outcome = "server_error" // 5xx
	outcomeOther       outcome = "other"        // no status that HTTP knows
	outcomeNoAnswer    outcome = "no_answer"    // no connection, or it broke, or it took too long
)

var outcomes = []outcome{
	outcomeAccepted, outcomeRedirect, outcomeClientError, outcomeServerError, outcomeOther, outcomeNoAnswer,
}

func outcomeOf(status int) outcome {
	switch status / 100 {
	case 2:
		return outcomeAccepted
	case 3:
		return outcomeRedirect
	case 4:
		return outcomeClientError
	case 5:
		return outcomeServerError
	}
	return outcomeOther
}

// closing is what a list is closed for: the values of a metric's label.
type closing string

const (
	closedByCount closing = "count"
	closedBySize  closing = "size"
	closedByTime  closing = "time"
)

var closings = []closing{closedByCount, closedBySize, closedByTime}

// documentKind says what a document is: the values of a metric's label.
type documentKind string

const (
	kindChangeList      documentKind = "change_list"
	kindChangeListIndex documentKind = "change_list_index"

	kindResourceList      documentKind = "resource_list"
	kindResourceListIndex documentKind = "resource_list_index"

	kindArchive  documentKind = "archive"
	kindArchived documentKind = "archived"
)

// fate is the outcome of a request for a document: the values of a metric's label.
type fate string

const (
	fateServed    fate = "served"
	fateUnchanged fate = "unchanged" // 304
	fateMissing   fate = "missing"   // 404
	fateGone      fate = "gone"      // 410: not kept any more
	fateMoved     fate = "moved"     // 301: in the archive now
	fateRefused   fate = "refused"   // any other 4xx
	fateBusy      fate = "busy"      // 503
	fateFailed    fate = "failed"    // any other 5xx
	fateBroken    fate = "broken"    // broken off in the middle
)

func fateOf(status int) fate {
	switch {
	case status == http.StatusNotModified:
		return fateUnchanged
	case status == http.StatusMovedPermanently:
		return fateMoved
	case status == http.StatusNotFound:
		return fateMissing
	case status == http.StatusGone:
		return fateGone
	case status == http.StatusServiceUnavailable:
		return fateBusy
	case status >= http.StatusInternalServerError:
		return fateFailed
	case status >= http.StatusBadRequest:
		return fateRefused
	}
	return fateServed
}

// asked counts a request for a document.
func (m *metrics) asked(kind documentKind, f fate) {
	m.documents.WithLabelValues(string(kind), string(f)).Inc()
}

// archiveCapabilities are the values of a metric's label.
var archiveCapabilities = []string{
	payload.CapResourceListArchive, payload.CapResourceDumpArchive,
	payload.CapChangeListArchive, payload.CapChangeDumpArchive,
}

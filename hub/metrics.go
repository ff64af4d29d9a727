package hub

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/payload"
	"carillon/subscription"
)

const (
	metricsNamespace = "carillon"
	metricsSubsystem = "hub"
)

// The kinds of requests, as metrics show them.
const (
	kindPage        = "page"
	kindSubscribe   = "subscribe"
	kindUnsubscribe = "unsubscribe"
	kindPing        = "ping"
	kindPublish     = "publish"
	kindOther       = "other"
)

// The results of topic checks, as metrics show them.
const (
	checkGood    = "good"
	checkRefused = "refused"
	checkAway    = "away"
)

// The results of requests to callbacks, as metrics show them.
const (
	verifyConfirmed = "confirmed"
	verifyNoIntent  = "no_intent"
	verifyNoAnswer  = "no_answer"
	verifyTold      = "answered"
)

// The results of readings of the change memory, as metrics show them.
const (
	readAnswered = "answered" // also with nothing new, and 304
	readGone     = "gone"
	readUnknown  = "unknown"
	readCutOff   = "cut_off"
	readFailed   = "failed"
)

// The results of fetches, as metrics show them.
const (
	fetchPublished = "published"
	fetchEmpty     = "empty"
	fetchRefused   = "refused"
	fetchFailed    = "failed"
	fetchGivenUp   = "given_up"
)

// limitMet is which limit a refused request has met, as metrics show it.
type limitMet string

const (
	limitRate      limitMet = "client_rate"    // requests of one client
	limitClient    limitMet = "client_pending" // unsettled requests of one client
	limitHost      limitMet = "host_pending"   // unsettled requests for one host
	limitTopicHost limitMet = "topic_host"     // a topic's host that refuses or does not answer
	limitReadings  limitMet = "readings"       // readings of the change memory of one client
	limitPings     limitMet = "pings"          // topics that wait to be fetched
	limitBusy      limitMet = "busy"           // all that is done at once
)

// metrics are those of the Hub.
type metrics struct {
	limits   *prometheus.CounterVec
	requests *prometheus.CounterVec
	seconds  map[string]prometheus.Observer // by kind
	bytes    prometheus.Counter
	fetches  *prometheus.CounterVec
	denied   prometheus.Counter
	readings *prometheus.CounterVec
	recalled prometheus.Counter

	lookalikes *prometheus.CounterVec
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help,
	})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help,
	}, labels)
}

func gauge(name, help string, value func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help,
	}, value)
}

func register(reg prometheus.Registerer, all ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, reg.Register(c))
	}
	return errors.Join(errs...)
}

func newMetrics(reg prometheus.Registerer, waiting, reading func() int) (*metrics, error) {
	m := &metrics{
		limits:   counters("limited_total", "Requests refused for now as a limit was met, by limit.", "limit"),
		requests: counters("requests_total", "Requests answered, by kind and status.", "kind", "status"),
		bytes:    counter("publication_bytes_total", "Bytes of content publishes that were accepted."),
		fetches:  counters("fetches_total", "Fetches of pinged topics, by result.", "result"),
		denied: counter(
			"topics_denied_total", "Topics whose subscribers were denied, as the topic no longer names this hub.",
		),
		readings: counters(
			"memory_answers_total",
			"Readings of the change memory, by result: answered (also with nothing new), gone (not kept any more), no such topic (unknown), cut off in the middle, failed.",
			"result",
		),
		lookalikes: counters(
			"lookalikes_total",
			"Publications that were relayed as plain content though they look like a ResourceSync notification, by the reason.",
			"why",
		),
		recalled: counter("memory_entries_total", "Changes that readers of the change memory got."),
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "request_duration_seconds",
		Help:                        "How long requests take from their header to their answer, by kind: with what the client takes to send the body, and for publications the store.",
		Buckets:                     []float64{.0005, .001, .0025, .005, .01, .025, .1, .5, 1, 5, 30},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"kind"})
	m.seconds = map[string]prometheus.Observer{}
	for _, kind := range []string{
		kindPage, kindSubscribe, kindUnsubscribe, kindPing, kindPublish, kindAnswer, kindMemory, kindOther,
	} {
		m.seconds[kind] = seconds.WithLabelValues(kind)
	}
	for _, r := range []string{fetchPublished, fetchEmpty, fetchRefused, fetchFailed, fetchGivenUp} {
		m.fetches.WithLabelValues(r)
	}
	for _, r := range []string{readAnswered, readGone, readUnknown, readCutOff, readFailed} {
		m.readings.WithLabelValues(r)
	}
	for _, l := range []limitMet{
		limitRate, limitClient, limitHost, limitTopicHost, limitReadings, limitPings, limitBusy,
	} {
		m.limits.WithLabelValues(string(l))
	}
	for _, kind := range payload.MissKinds() {
		m.lookalikes.WithLabelValues(string(kind))
	}
	return m, register(reg, m.limits, m.requests, seconds, m.bytes, m.fetches, m.denied, m.lookalikes, m.readings, m.recalled,
		gauge(
			"memory_readings", "Readings of the change memory under way.",
			func() float64 { return float64(reading()) },
		),
		gauge("pings_waiting", "Topics of this process's shards that wait to be fetched or are being fetched.",
			func() float64 { return float64(waiting()) }))
}

// answered records a request of a kind that is answered with a status.
func (m *metrics) answered(kind string, status int, began time.Time) {
	m.requests.WithLabelValues(kind, statusLabel(status)).Inc()
	if seconds := m.seconds[kind]; seconds != nil {
		seconds.Observe(time.Since(began).Seconds())
	}
}

// checkMetrics are those of the Checker.
type checkMetrics struct {
	checks *prometheus.CounterVec
	cached *prometheus.CounterVec
}

func newCheckMetrics(reg prometheus.Registerer, entries func() int) (*checkMetrics, error) {
	m := &checkMetrics{
		checks: counters("topic_checks_total", "Topics asked whether they name this hub, by result.", "result"),
		cached: counters(
			"topic_check_lookups_total", "Topic checks wanted, by whether a result was remembered.", "remembered",
		),
	}
	for _, result := range []string{checkGood, checkRefused, checkAway} {
		m.checks.WithLabelValues(result)
	}
	for _, remembered := range []bool{true, false} {
		m.cached.WithLabelValues(yesNo(remembered))
	}
	return m, register(reg, m.checks, m.cached,
		gauge("topic_checks_remembered", "Topics whose check is remembered.",
			func() float64 { return float64(entries()) }))
}

// verifyMetrics are those of the Verifier.
type verifyMetrics struct {
	requests *prometheus.CounterVec
}

func newVerifyMetrics(reg prometheus.Registerer) (*verifyMetrics, error) {
	m := &verifyMetrics{
		requests: counters("verifications_total", "Requests to callbacks, by mode and result.", "mode", "result"),
	}
	for _, mode := range []subscription.Mode{subscription.ModeSubscribe, subscription.ModeUnsubscribe} {
		for _, result := range []string{verifyConfirmed, verifyNoIntent, verifyNoAnswer} {
			m.requests.WithLabelValues(string(mode), result)
		}
	}
	for _, result := range []string{verifyTold, verifyNoAnswer} {
		m.requests.WithLabelValues("denied", result)
	}
	return m, register(reg, m.requests)
}

// statusLabel names a status in metrics. It is one of those this package writes;
// a client that hung up got none.
func statusLabel(status int) string {
	switch status {
	case 0:
		return "none"
	case http.StatusOK:
		return "200"
	}
	return strconv.Itoa(status)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// kindAnswer is the kind of these requests, as metrics show it.
const kindAnswer = "answer"

// kindMemory is the kind of these requests, as metrics show it.
const kindMemory = "memory"

package retain

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
)

// metrics is what an operator sees of the room. Labels come from closed sets.
type metrics struct {
	trimmed, trimmedBytes *prometheus.CounterVec // by reason
	// logs is what the latest sweep has found; nil where another process trims.
	logs atomic.Pointer[logsState]
}

// The reasons why notifications are trimmed.
const (
	trimSettled = "settled" // no subscription needs them
	trimAge     = "age"     // Config.KeepFor
	trimSize    = "size"    // Config.KeepBytes
)

// newMetrics makes the metrics and registers them; without a Registerer they are only counted.
func newMetrics(cfg Config, reg prometheus.Registerer) (*metrics, error) {
	const ns, sub = "carillon", "delivery"
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(
			prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, []string{"reason"},
		)
	}
	gauge := func(name, help string, of func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, of)
	}
	m := &metrics{
		trimmed: vec("trimmed_total",
			"Notifications that went from the logs: settled (no subscription needs them), age (keep-for) or size (keep-bytes)."),
		trimmedBytes: vec("trimmed_bytes_total", "What the notifications took that went from the logs."),
	}
	for _, r := range []string{trimSettled, trimAge, trimSize} {
		m.trim(r, delivery.Trimmed{})
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.trimmed, m.trimmedBytes,
		gauge(
			"log_bytes",
			"What the notifications in all logs take, as of the latest trimming; 0 in a process that does not trim.",
			m.logBytes,
		),
		gauge(
			"log_limit_bytes", "What the notifications in all logs may take; 0: there is no bound.",
			func() float64 { return float64(cfg.KeepBytes) },
		),
		gauge(
			"log_oldest_seconds",
			"Age of the oldest notification that the latest trimming has found in the logs; 0 in a process that does not trim.",
			m.logAge,
		),
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// trim counts what went.
func (m *metrics) trim(reason string, went delivery.Trimmed) {
	m.trimmed.WithLabelValues(reason).Add(float64(went.Notifications))
	m.trimmedBytes.WithLabelValues(reason).Add(float64(went.Bytes))
}

// logBytes and logAge are what the gauges show of the logs.
func (m *metrics) logBytes() float64 {
	if logs := m.logs.Load(); logs != nil {
		return float64(logs.bytes)
	}
	return 0
}

func (m *metrics) logAge() float64 {
	if logs := m.logs.Load(); logs != nil && !logs.oldest.IsZero() {
		return max(0, time.Since(logs.oldest).Seconds())
	}
	return 0
}

package program

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Listeners are the listeners of a command by name, as a collector of their metrics.
type Listeners map[string]*Listener

var _ prometheus.Collector = Listeners(nil)

var (
	descOpen = prometheus.NewDesc("carillon_server_connections",
		"Connections that are open.", []string{"listener"}, nil)
	descClosed = prometheus.NewDesc("carillon_server_connections_closed_total",
		"Connections closed for want of room: waiting ones that made room for others (idle), and new ones of clients that have too many (refused).", []string{"listener", "reason"}, nil)
	descHandshakes = prometheus.NewDesc("carillon_server_tls_handshakes_failed_total",
		"TLS handshakes that failed.", []string{"listener"}, nil)
	descExpiry = prometheus.NewDesc("carillon_server_tls_certificate_expires_timestamp_seconds",
		"When the certificate in use expires, in seconds since 1970.", []string{"listener"}, nil)
	descStale = prometheus.NewDesc("carillon_server_tls_certificate_stale",
		"1 if the files of the certificate have changed and cannot be taken.", []string{"listener"}, nil)
)

// Describe implements prometheus.Collector.
func (all Listeners) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{descOpen, descClosed, descHandshakes, descExpiry, descStale} {
		to <- desc
	}
}

// Collect reads the metrics. Like a handshake it looks whether files have changed.
func (all Listeners) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	count := func(desc *prometheus.Desc, value *counter, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value.Load()), labels...)
	}
	for name, l := range all {
		gauge(descOpen, float64(l.limiter.count()), name)
		count(descClosed, &l.limiter.idleCut, name, "idle")
		count(descClosed, &l.limiter.refused, name, "refused")
		if l.keeper == nil {
			continue
		}
		l.keeper.look()
		count(descHandshakes, &l.handshakes, name)
		gauge(descExpiry, float64(l.keeper.current.Load().Leaf.NotAfter.Unix()), name)
		stale := 0.0
		if l.keeper.problem.Load() != nil {
			stale = 1
		}
		gauge(descStale, stale, name)
	}
}

// Warnings are those of all listeners.
func (all Listeners) Warnings() (warnings []string) {
	for _, l := range all {
		warnings = append(warnings, l.Warnings()...)
	}
	return warnings
}

package send

import "github.com/prometheus/client_golang/prometheus"

// Connections counts the connections of an HTTPSender, now and since it was made. Memory is
// estimated, in bytes.
type Connections struct {
	// Open is the number of connections that are open or being opened. Idle of these are kept for
	// the next request. The sender closes idle connections while more than MaxOpen are open.
	Open, Idle, MaxOpen int
	// IdleBytes is the memory of idle connections, MaxIdleBytes its bound.
	IdleBytes, MaxIdleBytes int64
	// SessionBytes is the memory of TLS sessions, by which a handshake costs less;
	// MaxSessionBytes is its bound.
	SessionBytes, MaxSessionBytes int64
	// Hosts is the number of hosts with connections, RememberedHosts that of hosts with a session
	// only.
	Hosts, RememberedHosts int
	// Plain counts connections opened without TLS, Full those with a full handshake, Resumed those
	// that resumed a session. Dropped counts idle connections closed for want of files or memory.
	Plain, Full, Resumed, Dropped uint64
}

// Connections counts the connections.
func (s *HTTPSender) Connections() Connections {
	now := s.client.Stats()
	return Connections{
		Open: now.Conns, Idle: now.Idle, MaxOpen: s.limits.MaxConns,
		IdleBytes: now.IdleBytes, MaxIdleBytes: s.limits.IdleBytes,
		SessionBytes: now.SessionBytes, MaxSessionBytes: s.limits.SessionBytes,
		Hosts: now.Hosts, RememberedHosts: now.Remembered,
		Plain: now.Opened, Full: now.Handshakes, Resumed: now.Resumed, Dropped: now.Dropped,
	}
}

// Metrics of an HTTPSender's connections.
var (
	descConnections = describe(
		"connections",
		"Connections to callbacks and topics: in use, which includes those being opened, and idle, kept for the next request.",
		"state",
	)
	descMaxOpen = describe(
		"connection_limit",
		"How many connections may be open, for want of files: where there are more, idle ones are closed.",
	)
	descIdleBytes   = describe("idle_connection_bytes", "What idle connections take in memory, by estimate.")
	descMaxIdle     = describe("idle_connection_limit_bytes", "What idle connections may take in memory.")
	descSessions    = describe("tls_session_bytes", "What TLS sessions of hosts take in memory, by estimate.")
	descMaxSessions = describe("tls_session_limit_bytes", "What TLS sessions may take in memory.")
	descHosts       = describe(
		"hosts", "Hosts with connections (connected), and others whose TLS session is kept (remembered).", "state",
	)
	descOpened = describe(
		"connections_opened_total",
		"Connections that were opened, by TLS handshake: full, of a resumed session, or none.",
		"handshake",
	)
	descDropped = describe(
		"connections_dropped_total", "Idle connections that were closed for want of files or memory.",
	)
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("carillon", "delivery", name), help, labels, nil)
}

var _ prometheus.Collector = (*HTTPSender)(nil)

// Describe implements prometheus.Collector.
func (s *HTTPSender) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		descConnections, descMaxOpen, descIdleBytes, descMaxIdle, descSessions, descMaxSessions, descHosts, descOpened, descDropped,
	} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (s *HTTPSender) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	count := func(desc *prometheus.Desc, value uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	c := s.Connections()
	gauge(descConnections, float64(c.Open-c.Idle), "in_use")
	gauge(descConnections, float64(c.Idle), "idle")
	gauge(descMaxOpen, float64(c.MaxOpen))
	gauge(descIdleBytes, float64(c.IdleBytes))
	gauge(descMaxIdle, float64(c.MaxIdleBytes))
	gauge(descSessions, float64(c.SessionBytes))
	gauge(descMaxSessions, float64(c.MaxSessionBytes))
	gauge(descHosts, float64(c.Hosts), "connected")
	gauge(descHosts, float64(c.RememberedHosts), "remembered")
	count(descOpened, c.Plain, "none")
	count(descOpened, c.Full, "full")
	count(descOpened, c.Resumed, "resumed")
	count(descDropped, c.Dropped)
}

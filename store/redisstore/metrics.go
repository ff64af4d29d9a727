package redisstore

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what an operator sees of the store. Labels come from closed sets.
type metrics struct {
	failures *prometheus.CounterVec // by class
	emptied  prometheus.Counter
	damaged  prometheus.Counter
}

// class is what kind of failure a call met: the label of a metric.
type class string

const (
	network class = "network"
	refused class = "refused"
	memory  class = "memory"
	laggard class = "replicas"
	defect  class = "script"
)

// newMetrics makes the metrics and registers them; without a Registerer they are
// only counted. warnings reports how many there are, and state how the shards are shared.
func newMetrics(reg prometheus.Registerer, warnings func() int, state func() ShardState) (*metrics, error) {
	const ns, sub = "carillon", "redis"
	m := &metrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "errors_total",
			Help: "Calls that failed, by class: network, refused (the server's state), memory (OOM), replicas, and script, a defect.",
		}, []string{"class"}),
		emptied: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "emptied_total",
			Help: "How often the store was found emptied, or replaced by another.",
		}),
		damaged: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "damaged_records_total",
			Help: "Records that cannot be read and are passed over; each of the first 1,000 counts once, the others whenever they are met.",
		}),
	}
	for _, c := range []class{network, refused, memory, laggard, defect} {
		m.failures.WithLabelValues(string(c))
	}
	if reg == nil {
		return m, nil
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: ns, Subsystem: sub, Name: "warnings",
		Help: "What /readyz warns of: settings of the server by which acknowledged data could vanish, a store that was emptied.",
	}, func() float64 { return float64(warnings()) })
	for _, c := range append(sharingGauges(state), m.failures, m.emptied, m.damaged, gauge) {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics: %w", err)
		}
	}
	return m, nil
}

// sharingGauges tell how the shards are shared, as this process sees it.
func sharingGauges(state func() ShardState) []prometheus.Collector {
	gauge := func(name, help string, value func(ShardState) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "redis", Name: name, Help: help,
		}, func() float64 { return value(state()) })
	}
	return []prometheus.Collector{
		gauge("processes", "Processes that share the store; 0 while that is not known.",
			func(s ShardState) float64 { return float64(s.Processes) }),
		gauge("shards_fair", "How many of the 64 shards are this process's part.",
			func(s ShardState) float64 { return float64(s.Fair) }),
		gauge("shards_owned", "How many shards this process works on.",
			func(s ShardState) float64 { return float64(s.Owned) }),
		gauge("lease_renewal_timestamp_seconds", "When all leases were renewed last, Unix seconds; 0 for never.",
			func(s ShardState) float64 {
				if s.LastRenewal.IsZero() {
					return 0
				}
				return float64(s.LastRenewal.UnixNano()) / 1e9
			}),
	}
}

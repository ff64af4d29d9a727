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

// newMetrics makes the metrics and registers them; without a Registerer they are
// only counted. warnings tells how many there are.
func newMetrics(reg prometheus.Registerer, warnings func() int) (*metrics, error) {
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
			Help: "Records that cannot be read and are passed over; each counts once.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: ns, Subsystem: sub, Name: "warnings",
		Help: "What /readyz warns of: settings of the server by which acknowledged data could vanish, a store that was emptied.",
	}, func() float64 { return float64(warnings()) })
	for _, c := range []prometheus.Collector{m.failures, m.emptied, m.damaged, gauge} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics: %w", err)
		}
	}
	return m, nil
}

package main

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"carillon/cmd/internal/program"
	"carillon/store/measured"
)

// newRegistry is where everything of this process is registered.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsGC)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return reg
}

// measure has the calls of the engine timed, and tells what this hub is.
func (h *house) measure(f storeFlags) error {
	calls, err := measured.NewCalls(h.metrics)
	if err != nil {
		return err
	}
	s := h.store
	s.Subscriptions, s.Sources = calls.Subscriptions(s.Subscriptions), calls.Sources(s.Sources)
	s.Log, s.Pings, s.Cursors, s.Marks = calls.Log(s.Log), calls.Pings(s.Pings), calls.Cursors(s.Cursors), calls.Marks(s.Marks)
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "carillon", Name: "build_info", Help: "1, with the version of this hub and the engine of its store as labels.",
	}, []string{"version", "engine"})
	info.WithLabelValues(program.Version, h.store.name()).Set(1)
	return errors.Join(h.metrics.Register(info), h.metrics.Register(readiness{h}))
}

// readiness shows what /readyz says, as far as it can be said without a question to the
// store: who gathers must not wait for that.
type readiness struct{ *house }

var (
	descReady = prometheus.NewDesc("carillon_ready",
		"1 where a check of /readyz holds, else 0: hub, store (it was reached; /readyz asks it as well) and deliveries.", []string{"check"}, nil)
	descWarnings = prometheus.NewDesc("carillon_warnings", "What /readyz warns of, in lines.", nil, nil)
)

// Describe tells the metrics.
func (r readiness) Describe(to chan<- *prometheus.Desc) { to <- descReady; to <- descWarnings }

// Collect looks.
func (r readiness) Collect(to chan<- prometheus.Metric) {
	for name, check := range map[string]func(context.Context) error{
		"hub": r.notStopping, "store": r.storeReached, "deliveries": r.deliveriesReady,
	} {
		ready := 0.0
		if check(context.Background()) == nil {
			ready = 1
		}
		to <- prometheus.MustNewConstMetric(descReady, prometheus.GaugeValue, ready, name)
	}
	to <- prometheus.MustNewConstMetric(descWarnings, prometheus.GaugeValue, float64(len(r.warnings())))
}

func (r readiness) storeReached(context.Context) error {
	if missing := r.missing.Load(); missing != nil {
		return *missing
	}
	return nil
}

package dispatch

import (
	"errors"

	"carillon/delivery/report"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges registers the gauges that look at the Dispatcher.
func (d *Dispatcher) gauges(reg prometheus.Registerer) error {
	gauge := func(name, help string, of func() float64) prometheus.Collector {
		opts := prometheus.GaugeOpts{Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help}
		return prometheus.NewGaugeFunc(opts, of)
	}
	stat := func(name, help string, of func(report.Stats) int) prometheus.Collector {
		return gauge(name, help, func() float64 { return float64(of(d.Stats())) })
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		gauge(
			"oldest_waiting_seconds",
			"Age of the oldest notification that a subscription in the shards of this process has still to get, as of the last minute; replays do not count. 0 where no subscription waits.",
			d.waitingAge,
		),
		gauge(
			"body_bytes", "What the bodies take that delivery attempts hold, but for small ones.",
			func() float64 { return float64(d.heldBytes()) },
		),
		gauge(
			"body_limit_bytes", "What the bodies may take that delivery attempts hold.",
			func() float64 { return float64(d.cfg.MaxBytes) },
		),
		stat(
			"subscriptions", "Subscriptions in the shards of this process.",
			func(s report.Stats) int { return s.Subscriptions },
		),
		stat(
			"behind", "Subscriptions in the shards of this process that have something to get.",
			func(s report.Stats) int { return s.Ready + s.Waiting + s.InFlight },
		),
		stat("in_flight", "Delivery attempts under way.", func(s report.Stats) int { return s.InFlight }),
		stat("slow", "Delivery attempts under way that are slow.", func(s report.Stats) int { return s.Slow }),
		stat(
			"ready", "Subscriptions that have something to send and wait for their turn.",
			func(s report.Stats) int { return s.Ready },
		),
		stat("unsaved", "Outcomes whose positions are not saved yet.", func(s report.Stats) int { return s.Unsaved }),
		stat(
			"paused", "1 while no attempt starts because the engine fails, else 0.",
			func(s report.Stats) int { return one(s.Paused) },
		),
		stat(
			"unsure",
			"1 while no attempt starts because another process may own the shards, else 0.",
			func(s report.Stats) int { return one(s.Unsure) },
		),
		stat("shards", "Shards that this process owns and has read.", func(s report.Stats) int { return s.Shards }),
		stat(
			"loading",
			"Shards that this process owns and is reading: their deliveries are still to begin.",
			func(s report.Stats) int { return s.Loading },
		),
		stat("waiting", "Subscriptions that back off after a failure.", func(s report.Stats) int { return s.Waiting }),
	} {
		errs = append(errs, reg.Register(c))
	}
	return errors.Join(errs...)
}

// waitingAge is the age of the last found wait; 0: no subscription waits.
func (d *Dispatcher) waitingAge() float64 {
	found := d.LatestWaiting()
	if found.IsZero() {
		return 0
	}
	return max(0, d.ageOf(found).Seconds())
}

// heldBytes is what the bodies take that attempts hold, those that count.
func (d *Dispatcher) heldBytes() int64 {
	d.table.mu.Lock()
	defer d.table.mu.Unlock()
	return d.bodies.held
}

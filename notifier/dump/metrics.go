package dump

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one set. The label kind is "resource" or "change", the label reason one of
// reasons.
type metrics struct {
	at, bytes, entries, took, making map[Kind]prometheus.Gauge
	made, failures                   map[Kind]prometheus.Counter
	leftOut                          map[Reason]prometheus.Counter
}

const metricsPrefix = "carillon_notifier_dump_"

// families are the metrics of all sets.
type families struct {
	at, bytes, entries, took, making *prometheus.GaugeVec
	made, failures, leftOut          *prometheus.CounterVec
}

func newFamilies(reg prometheus.Registerer, used func() float64) *families {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: metricsPrefix + name, Help: help}, []string{"set", "kind"},
		)
		reg.MustRegister(g)
		return g
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricsPrefix + name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metricsPrefix + "disk_bytes", Help: "Disk that dumps take, with what is being made.",
	}, used))
	return &families{
		at: gauge(
			"completed_timestamp_seconds", "When the newest dump was completed, Unix time; 0 before the first.",
		),
		bytes:    gauge("bytes", "Size of the packages of the newest dump."),
		entries:  gauge("entries", "Entries of the newest dump."),
		took:     gauge("duration_seconds", "How long this process took for the newest dump."),
		making:   gauge("in_progress", "1 while a dump is being made."),
		made:     counter("made_total", "Dumps that were made.", "set", "kind"),
		failures: counter("failures_total", "Dumps that could not be made.", "set", "kind"),
		leftOut:  counter("left_out_total", "Resources that dumps have no content of, by reason.", "set", "reason"),
	}
}

func (f *families) of(set string) *metrics {
	m := &metrics{
		at: map[Kind]prometheus.Gauge{}, bytes: map[Kind]prometheus.Gauge{}, entries: map[Kind]prometheus.Gauge{},
		took: map[Kind]prometheus.Gauge{}, making: map[Kind]prometheus.Gauge{},
		made: map[Kind]prometheus.Counter{}, failures: map[Kind]prometheus.Counter{}, leftOut: map[Reason]prometheus.Counter{},
	}
	for _, kind := range []Kind{Resources, Changes} {
		k := string(kind)
		m.at[kind], m.bytes[kind], m.entries[kind] = f.at.WithLabelValues(set, k), f.bytes.WithLabelValues(set, k), f.entries.WithLabelValues(set, k)
		m.took[kind], m.making[kind] = f.took.WithLabelValues(set, k), f.making.WithLabelValues(set, k)
		m.made[kind], m.failures[kind] = f.made.WithLabelValues(set, k), f.failures.WithLabelValues(set, k)
	}
	for _, reason := range reasons {
		m.leftOut[reason] = f.leftOut.WithLabelValues(set, string(reason))
	}
	return m
}

// show reports the newest dump of a kind.
func (m *metrics) show(g *generation) {
	m.at[g.Kind].Set(float64(g.Completed.UnixMicro()) / 1e6)
	m.bytes[g.Kind].Set(float64(g.Bytes()))
	m.entries[g.Kind].Set(float64(g.Entries()))
}

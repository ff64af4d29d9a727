package egress

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// namesMetrics is what an operator sees of the names. Labels come from closed sets.
type namesMetrics struct {
	cached, asked                      prometheus.Counter // lookups
	answered, missing, failed, refused prometheus.Counter // questions
}

// newNamesMetrics makes the metrics and registers them, if there is a Registerer.
func newNamesMetrics(n *Names, reg prometheus.Registerer) (*namesMetrics, error) {
	const ns, sub = "carillon", "egress_dns"
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, []string{"result"})
	}
	gauge := func(name, help string, of func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help},
			func() float64 { return float64(of()) })
	}
	lookups := vec("lookups_total", "Names looked up for a dial: known (cached) or not (asked).")
	questions := vec("questions_total", "Questions by their end: answered with addresses, the name has none (missing), "+
		"the name servers failed, or refused because too many were under way.")
	m := &namesMetrics{
		cached: lookups.WithLabelValues("cached"), asked: lookups.WithLabelValues("asked"),
		answered: questions.WithLabelValues("answered"), missing: questions.WithLabelValues("missing"),
		failed: questions.WithLabelValues("failed"), refused: questions.WithLabelValues("refused"),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		lookups, questions,
		gauge("names", "Names that are remembered.", n.remembering),
		gauge("questions_under_way", "Questions that name servers have to answer.", n.places.underWay),
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// remembering is how many names are remembered.
func (n *Names) remembering() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.kept)
}

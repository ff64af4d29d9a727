package egress

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what an operator sees of the Dialers that share it.
type Metrics struct {
	refusals [reasons]prometheus.Counter
	proxied  [proxyResults]prometheus.Counter
}

// reason is why a request is not made.
type reason int

const (
	reasonAddress reason = iota // private or special, as the URL has it or as its name means
	reasonName                  // a host that is neither a name nor an address, when dialed
	reasonPort
	reasonProxy // the proxy does not allow it
	reasons
)

var reasonLabels = [reasons]string{"address", "name", "port", "proxy"}

// proxyResult is the outcome of asking the proxy for a connection.
type proxyResult int

const (
	proxyConnected   proxyResult = iota
	proxyForbidden               // it does not allow this one
	proxyCredentials             // it wants other credentials than it was given
	proxyRefused                 // it has no connection to give: the host does not answer, for example
	proxyAway                    // it could not be reached, or gave no answer
	proxyResults
)

var proxyLabels = [proxyResults]string{"connected", "forbidden", "credentials", "refused", "away"}

// NewMetrics makes the metrics and registers them, if there is a Registerer.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	const ns, sub = "carillon", "egress"
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: ns, Subsystem: sub, Name: "refused_total",
		Help: "Connections not made, and URLs refused at once, by reason: a special address, " +
			"an invalid host, a port of another service, or a refusal of the proxy.",
	}, []string{"reason"})
	proxied := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: ns, Subsystem: sub, Name: "proxy_connects_total",
		Help: "Connections that the proxy was asked for, by result: connected, not allowed (forbidden), it wants other credentials, " +
			"it could not make one (refused), it is away.",
	}, []string{"result"})
	m := &Metrics{}
	for i, label := range reasonLabels {
		m.refusals[i] = refusals.WithLabelValues(label)
	}
	for i, label := range proxyLabels {
		m.proxied[i] = proxied.WithLabelValues(label)
	}
	if reg == nil {
		return m, nil
	}
	return m, errors.Join(reg.Register(refusals), reg.Register(proxied))
}

// refused counts a refusal and returns its error.
func (m *Metrics) refused(why reason, err error) error {
	m.refusals[why].Inc()
	return err
}

// namesMetrics is what an operator sees of the names. Labels come from closed sets.
type namesMetrics struct {
	cached, asked                      prometheus.Counter // lookups
	answered, missing, failed, refused prometheus.Counter // questions
}

// newNamesMetrics makes the metrics and registers them, if there is a Registerer.
func newNamesMetrics(remembering, underWay func() int, reg prometheus.Registerer) (*namesMetrics, error) {
	const ns, sub = "carillon", "egress_dns"
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(
			prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, []string{"result"},
		)
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
		gauge("names", "Names that are remembered.", remembering),
		gauge("questions_under_way", "Questions that name servers have to answer.", underWay),
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

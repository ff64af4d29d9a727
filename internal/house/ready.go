package house

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery/dispatch"
	"carillon/operator"
	"carillon/operator/api"
)

// readiness is what /readyz says.
type readiness struct {
	store      *attachment
	holder     *holder
	dispatcher *dispatch.Dispatcher
	warnings   func() []string
	stopping   <-chan struct{}
	loaded     atomic.Bool // this process's part of the subscriptions was loaded once
}

// checks are those of /readyz.
func (r *readiness) checks() []api.Check {
	return []api.Check{
		{Name: "hub", Ready: r.notStopping},
		{Name: "store", Ready: r.storeReady},
		{Name: "deliveries", Ready: r.deliveriesReady},
	}
}

// checked are the checks, as the overview shows them.
func (r *readiness) checked(ctx context.Context) []operator.Check {
	var all []operator.Check
	for _, c := range r.checks() {
		err := c.Run(ctx)
		shown := operator.Check{Name: c.Name, Ready: err == nil}
		if err != nil {
			shown.Error = err.Error()
		}
		all = append(all, shown)
	}
	return all
}

func (r *readiness) notStopping(context.Context) error {
	select {
	case <-r.stopping:
		return errors.New("it is stopping")
	default:
		return nil
	}
}

func (r *readiness) storeReady(ctx context.Context) error {
	return r.store.answers(ctx, func() time.Time {
		_, until := r.holder.counts()
		return until
	})
}

// storeReached is storeReady without a question to the store.
func (r *readiness) storeReached(context.Context) error { return r.store.closed() }

// deliveriesReady is nil once this process has loaded its part of the subscriptions, as long as it
// may deliver.
func (r *readiness) deliveriesReady(context.Context) error {
	fair, joined := r.store.Fair()
	held, until := r.holder.counts()
	if joined && held >= fair {
		// From now on: shards taken over from another are loaded beside its work.
		r.loaded.Store(true)
	}
	switch {
	case r.store.closed() != nil:
		return errors.New("they wait for the store")
	case r.store.shared() && until.IsZero():
		return errors.New("joining the other processes")
	case r.store.shared() && !time.Now().Before(until):
		return errors.New(
			"the store did not confirm in time that this process still takes part; it joins again by itself",
		)
	case !r.loaded.Load():
		return fmt.Errorf(
			"subscriptions are being loaded or handed over by other processes: %d of %d shards", held, fair,
		)
	case r.dispatcher.Stats().Paused:
		return errors.New("deliveries pause because the store fails; they go on by themselves")
	}
	return nil
}

var _ prometheus.Collector = (*readiness)(nil)

var (
	descReady = prometheus.NewDesc("carillon_ready",
		"1 where a check of /readyz holds, else 0: hub, store (it was reached; /readyz asks it as well) and deliveries.", []string{"check"}, nil)
	descWarnings = prometheus.NewDesc("carillon_warnings", "What /readyz warns of, in lines.", nil, nil)
)

// Describe implements prometheus.Collector.
func (r *readiness) Describe(to chan<- *prometheus.Desc) { to <- descReady; to <- descWarnings }

// Collect implements prometheus.Collector. It asks the store nothing: a scrape must not wait for it.
func (r *readiness) Collect(to chan<- prometheus.Metric) {
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

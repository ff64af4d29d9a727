package main

import "context"

var goalsSlow = goalsOfHealthy("one host with 30% of the callbacks takes 1 s for each ÷ without it")

// slow measures what healthy callbacks feel of one host that is large and slow.
func slow(ctx context.Context, e *env) error {
	n, hosts := e.plan.callbacks, e.plan.healthyHosts
	healthy := n * (100 - slowing) / 100
	e.report.section("Healthy callbacks beside a slow host")
	e.report.note("%d callbacks, %d%% of them on one host that takes %s for each, the others on %d hosts; %d rounds of %d publications, one every %s; timed as above, with the same flags.",
		n, slowing, slowAnswer, hosts-1, e.plan.crowdRounds, e.plan.bursts, e.plan.burstEvery)
	others := e.spread(healthy, 1, hosts)
	waited, err := e.healthy(ctx, []crowd{
		{"without that host", healthy, others},
		{"beside it", healthy, func(topic string) people {
			return others(topic).and(group(n-healthy, topic, func(i int) string { return e.town.callback(0, pathSlow, i) }))
		}},
	})
	for on, w := range waited {
		e.putHealthy(goalsSlow, on, w[1], w[0])
	}
	return err
}

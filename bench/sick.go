package main

import (
	"context"
	"strings"
)

// The figures of this scenario. All healthy are more callbacks than the healthy ones
// beside the sick, so that these are also divided by themselves alone.
var (
	goalsSick          = goalsOfHealthy("10% hanging, 5% refusing, 5% answering 500 (whole hosts) ÷ all healthy")
	goalsSickEach      = goalsOfHealthy("each sick callback on a host of its own ÷ all healthy")
	goalsSickAlone     = goalsOfHealthy("sick whole hosts ÷ the same healthy ones alone")
	goalsSickEachAlone = goalsOfHealthy("each sick callback on a host of its own ÷ the same healthy ones alone")
)

// sick measures what healthy callbacks feel of those that hang, refuse or fail.
func sick(ctx context.Context, e *env) error {
	n, hosts := e.plan.callbacks, e.plan.healthyHosts
	well := hosts * (100 - hanging - refusing - failing) / 100 // hosts that stay healthy
	healthy := n * (100 - hanging - refusing - failing) / 100
	e.report.section("Healthy callbacks beside sick ones")
	e.report.note("%d callbacks on %d hosts; %d rounds of %d publications, one every %s. Sick: %d%% hang, %d%% refuse the connection, %d%% answer 500. "+
		"Timed: from before the publication is sent to the arrival at a healthy callback. Each line and round is a hub of its own that has just started, so the first burst also opens the connections. "+
		"`hub %s`, so that there are time-outs and retries from the beginning to the end.",
		n, hosts, e.plan.crowdRounds, e.plan.bursts, e.plan.burstEvery, hanging, refusing, failing, strings.Join(crowdFlags, " "))
	waited, err := e.healthy(ctx, []crowd{
		{"all healthy", n, e.spread(n, 0, hosts)},
		{"sick: whole hosts", healthy, e.withSick(healthy, well, hosts-well)},
		{"sick: each on a host of its own", healthy, e.withSick(healthy, hosts, n-healthy)},
		{"the same healthy ones alone", healthy, e.spread(healthy, 0, hosts)},
	})
	for on, w := range waited {
		e.putHealthy(goalsSick, on, w[1], w[0])
		e.putHealthy(goalsSickEach, on, w[2], w[0])
		e.putHealthy(goalsSickAlone, on, w[1], w[3])
		e.putHealthy(goalsSickEachAlone, on, w[2], w[3])
	}
	return err
}

// withSick are healthy callbacks on the first hosts, and sick ones on as many
// others as told; all on a host have the same trouble.
func (e *env) withSick(healthy, well, sickHosts int) func(topic string) people {
	n := e.plan.callbacks - healthy
	return func(topic string) people {
		return e.spread(healthy, 0, well)(topic).and(group(n, topic, func(i int) string {
			host := i % sickHosts
			switch share := host * (hanging + refusing + failing) / sickHosts; {
			case share < hanging:
				return e.town.callback(well+host, pathHang, i)
			case share < hanging+refusing:
				return e.town.refusing(well+host, i)
			default:
				return e.town.callback(well+host, pathFail, i)
			}
		}))
	}
}
